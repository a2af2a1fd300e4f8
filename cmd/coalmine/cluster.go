package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"coalmine/dashboards"
	"coalmine/internal/childprocess"
	"coalmine/internal/memory"
	"coalmine/tasks"
	"coalmine/workflows/control"
	"coalmine/workflows/data/sources"
)

const workerHelp = `Work for a cluster: take tasks from the queue until interrupted. Start as many
workers as you like, on as many machines; each needs the Redis and the store, and
nothing else. On SIGTERM, SIGHUP or Ctrl-C a worker takes no more tasks, gives those at
work --grace to end, and hands back what is left. One whose --store is not the
coordinator's hands back its first task and exits with an error.

On standard error it says when it is ready, what it loses (Redis or the store, and
when they are back; tasks that go to others) and what it has done when it ends:
--log-level is info here, warn says only what goes wrong.

An experiment may have commands of its own (training.command and client_command).
They run on workers with --allow-commands alone: whoever may submit an experiment
runs programs there. Others leave such tasks in the queue. The worker says at its
start what the system enforces of the limits of such programs.

With --listen it answers over HTTP: /metrics for Prometheus, and the probes
/healthz and /readyz. Beyond localhost that takes --token-file, and TLS or
--insecure, as for serve.`

func newWorkerCommand(g *global) *cobra.Command {
	var listen listenFlags
	var slots int
	var classes []string
	var commands bool
	var cacheDir string
	var cacheGiB, memoryMiB int64
	var grace, idle time.Duration
	c := &cobra.Command{
		Use:     "worker",
		Short:   "Work for a cluster",
		Long:    workerHelp,
		Example: "  coalmine worker --redis redis://localhost:6379 --store 's3://coalmine/runs?endpoint=http://localhost:7070'\n  coalmine worker --slots 2 --memory 4GiB --listen localhost:9090",
		GroupID: groupRun,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("log-level") {
				g.logLevel.Set(slog.LevelInfo)
			}
			keys, err := g.keys()
			if err != nil {
				return err
			}
			if err := checkClasses(classes, commands); err != nil {
				return err
			}
			if err := listen.complete(); err != nil {
				return err
			}
			if err := g.observe(c.Context(), "coalmine-worker"); err != nil {
				return err
			}
			archive, conn, err := g.openCluster(c.Context())
			if err != nil {
				return err
			}
			w := newWorker(archive, conn, g, slots)
			w.Keys, w.Classes, w.NoCommands = keys, served(classes, commands), !commands
			w.CacheDir, w.CacheBytes = cacheDir, cacheGiB<<30
			w.CacheMemory = memoryMiB << 20
			w.Grace, w.IdleFor = grace, idle
			if commands {
				w.Log.Info("commands of experiments run here", "enforced", childprocess.Enforced().String())
			}
			store, redis := checks(archive, conn)
			listen.options.Log, listen.options.Metrics = w.Log, g.metrics
			listen.options.Checks = []dashboards.Check{store, redis}
			monitor := func(ctx context.Context) error { return listen.monitor(ctx, g) }
			return errors.Join(alongside(c.Context(), w.Run, monitor), conn.Close(), g.tracer.Close())
		},
	}
	f := c.Flags()
	f.IntVar(&slots, "slots", 0, "tasks at a time; 0 is one for each core")
	f.StringSliceVar(&classes, "class", []string{string(tasks.Compute)}, "which tasks it takes: compute, or gpu: the commands of experiments with training.class: gpu; repeatable")
	f.BoolVar(&commands, "allow-commands", false, "run the commands of experiments too; whoever may submit one can then run programs here")
	f.StringVar(&cacheDir, "cache", "", "directory for a disk cache of inputs; workers of one machine may share it")
	f.Int64Var(&cacheGiB, "cache-size", 20, "size of the disk cache in GiB")
	f.Int64Var(&memoryMiB, "cache-memory", 0, "size of the cache in memory in MiB, for inputs and what tasks make of them; 0 is 256 for each slot; at most a quarter of --memory")
	g.works(f)
	f.DurationVar(&grace, "grace", 10*time.Second, "how long tasks may go on after an interrupt")
	f.DurationVar(&idle, "exit-when-idle", 0, "end after so long without a task; 0 is never")
	listen.add(f, "", "metrics and probes, such as localhost:9090; none if empty")
	return c
}

// served are the classes that a worker takes which was asked for some.
func served(classes []string, commands bool) []string {
	if commands && slices.Contains(classes, string(tasks.Compute)) {
		return append(slices.Clone(classes), string(tasks.Commands))
	}
	return classes
}

// checkClasses refuses a class of which a worker would wait for ever: one that no task has, and
// one that consists of commands.
func checkClasses(classes []string, commands bool) error {
	known := tasks.Class("").Choices()
	for _, class := range classes {
		if !slices.Contains(known, class) {
			return fmt.Errorf("--class %q: expected one of %s", class, strings.Join(known, ", "))
		}
	}
	if !commands && slices.Contains(classes, string(tasks.GPU)) {
		return errors.New("--class gpu is for commands of experiments alone: expected --allow-commands beside it")
	}
	if len(classes) == 0 {
		return fmt.Errorf("--class is empty: expected one of %s", strings.Join(known, ", "))
	}
	return nil
}

// coordinatorGarbage is how much garbage a coordinator lets come together, in bytes. Its
// heap is one graph of pointers, as large as the live runs, and little of it changes.
const coordinatorGarbage = 32 << 20

const serveHelp = `Coordinate a cluster and show it: decide what runs next, and answer for it over
HTTP. Several may run; one leads, and another takes over within seconds when it
dies. The page binds to localhost unless --listen says otherwise; elsewhere it
wants a token and TLS, or --insecure.

Without --redis and --store it owns --home and works there too, also by the name page:
coalmine page opens the page again after a run has ended. (A run keeps its page only
while a browser looks at it.) Other commands on that home then talk to it. Its page is
for this machine alone, on a free port unless --listen names one; from elsewhere:
ssh -L 8080:localhost:8080 HOST.`

func newServeCommand(g *global) *cobra.Command {
	var listen listenFlags
	var allow []string
	var every, retain age
	c := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"page"},
		Short:   "Coordinate a cluster and show its runs",
		Long:    serveHelp,
		Example: "  coalmine serve --redis redis://localhost:6379 --store 's3://coalmine/runs?endpoint=http://localhost:7070'\n  coalmine serve --home .coalmine --listen localhost:8080",
		GroupID: groupRun,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			allowed, err := sources.Allow(allow)
			if err != nil {
				return err
			}
			keep := control.Housekeeping{Every: time.Duration(every), Retain: time.Duration(retain), Log: g.logger()}
			if err := keep.Check(); err != nil {
				return fmt.Errorf("--gc-every, --retain: %w", err)
			}
			if err := listen.complete(); err != nil {
				return err
			}
			p, err := g.places.place()
			if err != nil {
				return err
			}
			if p.server != "" {
				return fmt.Errorf("serve coordinates a home or a cluster itself, and %s is named: expected --home, or --redis and --store", p)
			}
			if !p.clustered() {
				if err := listen.suitEmbedded(c.Flags()); err != nil {
					return err
				}
				return g.serveEmbedded(c.Context(), p.home, listen, allowed, keep)
			}
			memory.Bound(coordinatorGarbage)
			return g.serveCluster(c.Context(), &listen, allowed, keep)
		},
	}
	f := c.Flags()
	listen.add(f, "localhost:8080", "the page, the API, metrics and probes")
	f.Lookup("token-file").Usage = "file with the token of operators"
	f.StringVar(&listen.readTokenFile, "read-token-file", "", "file with the token of those who may only look, such as Prometheus")
	f.StringArrayVar(&allow, "allow-source", nil, "file, directory or s3:// URL, ending in a slash for all below, that experiments checked by the server (submit --on-server) may read; repeatable; default none")
	f.Var(&every, "gc-every", "collect what no run needs at every multiple of this time by UTC, while leading: 24h is at midnight; 0 is never")
	f.Var(&retain, "retain", "before such a collection remove runs that finished so long ago, such as 30d, unless they are pinned; 0 keeps them")
	g.coordinates(f)
	g.works(f)
	return c
}

// serveEmbedded owns a data directory and works in it until interrupted.
func (g *global) serveEmbedded(ctx context.Context, home string, listen listenFlags, allowed *sources.Allowed, keep control.Housekeeping) error {
	e, err := openEmbedded(ctx, home, g, listen)
	if err != nil {
		return err
	}
	e.control.AllowSources(allowed)
	g.note("serving %s at %s (logs one browser in)", home, e.page(""))
	keep.Metrics = g.metrics
	return alongside(ctx, e.work, func(ctx context.Context) error { return e.control.KeepHouse(ctx, keep) })
}

func (g *global) serveCluster(ctx context.Context, listen *listenFlags, allowed *sources.Allowed, keep control.Housekeeping) error {
	if err := g.observe(ctx, "coalmine-coordinator"); err != nil {
		return err
	}
	archive, conn, err := g.openCluster(ctx)
	if err != nil {
		return err
	}
	leader, err := g.newCoordinator(archive, conn, holderName())
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	l, err := listen.listen()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	_, redis := checks(archive, conn)
	options := listen.options
	options.Version, options.Log, options.Metrics = version(), g.logger(), g.metrics
	options.Checks, options.Leads = []dashboards.Check{redis}, leader.Leads
	api := control.New(archive, conn, leader)
	api.AllowSources(allowed)
	server, err := dashboards.NewServer(api, options)
	if err != nil {
		return errors.Join(err, l.Close(), conn.Close())
	}
	g.note("serving %s at %s", archive, options.URL(l.Addr()))
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return leader.Lead(groupCtx) })
	group.Go(func() error { return server.Serve(groupCtx, l) })
	keep.Metrics = g.metrics
	group.Go(func() error { return api.KeepHouse(groupCtx, keep) })
	return errors.Join(group.Wait(), conn.Close(), g.tracer.Close())
}

// newToken is a random text of n characters.
func newToken(n int) string { return strings.ToLower(rand.Text())[:n] }
