package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"coalmine/dashboards"
	"coalmine/internal/childprocess"
	"coalmine/internal/kernels"
	"coalmine/internal/memory"
	"coalmine/internal/secrets"
	"coalmine/internal/tracing"
	"coalmine/tasks"
	"coalmine/workflows/control"
	"coalmine/workflows/data/sources"
)

const workerHelp = `Work for a cluster: take tasks from the queue until interrupted. Start any number of
workers on any number of machines; each needs only Redis and the store. If one of them
does not answer at the start, the worker waits up to --wait. On SIGTERM, SIGHUP or
Ctrl-C a worker takes no more tasks, gives running tasks --grace to finish, and hands
the others back. A worker whose --store is not the coordinator's hands back its first
task and exits with an error.

The worker logs to standard error: ready, connection to Redis or the store lost and
restored, tasks that went to other workers, and a summary at its end. The default
--log-level is info; warn logs only problems.

An experiment may contain commands (training.command, client_command). Only workers
with --allow-commands run them, because everyone who may submit an experiment can then
run programs there; other workers leave such tasks in the queue. At its start the worker
logs the limits on such programs that the system enforces.

With --listen the worker serves /metrics for Prometheus and the probes /healthz and
/readyz over HTTP. Beyond localhost it requires --token-file, and TLS or --insecure, as
serve does.`

func newWorkerCommand(g *global) *cobra.Command {
	var listen listenFlags
	var slots int
	var classes []string
	var commands bool
	var cacheDir string
	var cacheGiB, memoryMiB int64
	var grace, idle, wait time.Duration
	c := &cobra.Command{
		Use:     "worker",
		Short:   "Work for a cluster",
		Long:    workerHelp,
		Example: "  coalmine worker --redis redis://localhost:6379 --store 's3://coalmine/runs?endpoint=http://localhost:7070'\n  coalmine worker --slots 2 --memory 4GiB --listen localhost:9090",
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
			archive, conn, err := g.openCluster(c.Context(), wait)
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
			listen.options.Log, listen.options.Metrics = w.Log, g.metrics
			listen.options.Checks = []dashboards.Check{dashboards.StoreCheck(archive.HasSource), {Name: "Redis", Ask: conn.Ping}}
			monitor := func(ctx context.Context) error { return listen.monitor(ctx, g) }
			return errors.Join(alongside(c.Context(), w.Run, monitor), conn.Close(), g.tracer.Close())
		},
	}
	f := c.Flags()
	f.IntVar(&slots, "slots", 0, "number of concurrent tasks of each class; 0 means one per core, and for the class gpu one per GPU, which is also the maximum")
	f.StringSliceVar(&classes, "class", []string{string(tasks.Compute)}, "class of tasks to take: compute, or gpu (commands of experiments with training.class: gpu); repeatable")
	f.BoolVar(&commands, "allow-commands", false, "also run the commands of experiments; everyone who may submit an experiment can then run programs here")
	f.StringVar(&cacheDir, "cache", "", "directory for a disk cache of inputs; workers of one machine may share it")
	f.Int64Var(&cacheGiB, "cache-size", 20, "size of the disk cache in GiB")
	f.Int64Var(&memoryMiB, "cache-memory", 0, "size of the memory cache in MiB, for inputs and data derived from them; 0 means 256 per slot; at most a quarter of --memory")
	g.works(f)
	waitFlag(f, &wait)
	f.DurationVar(&grace, "grace", 10*time.Second, "time for running tasks to finish after an interrupt")
	f.DurationVar(&idle, "exit-when-idle", 0, "exit after this time without a task; 0 means never")
	listen.add(f, "", "metrics and probes, such as localhost:9090; none if empty")
	return c
}

// served returns the classes that a worker takes: with commands, compute includes the commands class.
func served(classes []string, commands bool) []string {
	if commands && slices.Contains(classes, string(tasks.Compute)) {
		return append(slices.Clone(classes), string(tasks.Commands))
	}
	return classes
}

// checkClasses rejects classes whose tasks a worker would never get: unknown ones, and gpu without
// commands.
func checkClasses(classes []string, commands bool) error {
	known := tasks.Class("").Choices()
	for _, class := range classes {
		if !slices.Contains(known, class) {
			return fmt.Errorf("--class %q: expected one of %s", class, strings.Join(known, ", "))
		}
	}
	if !commands && slices.Contains(classes, string(tasks.GPU)) {
		return errors.New("--class gpu runs only commands of experiments: add --allow-commands")
	}
	if len(classes) == 0 {
		return fmt.Errorf("--class is empty: expected one of %s", strings.Join(known, ", "))
	}
	return nil
}

// coordinatorGarbage is the garbage that a coordinator accumulates before a collection, in bytes.
// Its heap is one graph of pointers, as large as the live runs, and changes little.
const coordinatorGarbage = 32 << 20

const serveHelp = `Coordinate a cluster: schedule its tasks, and serve its page and API over HTTP. Several
coordinators may run; one leads, and another takes over within seconds if the leader
dies. If Redis or the store does not answer at the start, serve waits up to --wait. The
page is at localhost unless --listen names another address, which requires a token, and
TLS or --insecure.

Without --redis and --store, serve owns --home and runs its experiments. Other commands
on that home then talk to it. "coalmine page" is another name: it shows the page after a
run has ended, because run serves its page only while a browser is open. This page is
available on this machine only, on a free port unless --listen names one; for another
machine: ssh -L 8080:localhost:8080 HOST.`

func newServeCommand(g *global) *cobra.Command {
	var listen listenFlags
	var allow []string
	var every, retain age
	var wait time.Duration
	c := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"page"},
		Short:   "Coordinate a cluster and show its runs",
		Long:    serveHelp,
		Example: "  coalmine serve --redis redis://localhost:6379 --store 's3://coalmine/runs?endpoint=http://localhost:7070'\n  coalmine serve --home .coalmine --listen localhost:8080",
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
				return fmt.Errorf("serve is itself a server, but %s is given: expected --home, or --redis and --store", p)
			}
			if !p.clustered() {
				if err := listen.suitEmbedded(c.Flags()); err != nil {
					return err
				}
				return g.serveEmbedded(c.Context(), p.home, listen, allowed, keep)
			}
			memory.Bound(coordinatorGarbage)
			return g.serveCluster(c.Context(), &listen, allowed, keep, wait)
		},
	}
	f := c.Flags()
	listen.add(f, "localhost:8080", "the page, the API, metrics and probes")
	f.Lookup("token-file").Usage = "file with the token of operators"
	f.StringVar(&listen.readTokenFile, "read-token-file", "", "file with the token of clients that may only read, such as Prometheus")
	f.StringArrayVar(&allow, "allow-source", nil, "file, directory or s3:// URL (with a final slash: all below it) that experiments checked by the server (submit --on-server) may read; repeatable; default none")
	f.Var(&every, "gc-every", "interval of garbage collection by the leader, at its multiples in UTC: 24h means at midnight; 0 means never")
	f.Var(&retain, "retain", "before a collection, remove unpinned runs that finished longer ago than this, such as 30d; 0 keeps all")
	g.coordinates(f)
	g.works(f)
	waitFlag(f, &wait)
	return c
}

// serveEmbedded owns a data directory and executes its runs until interrupted.
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

func (g *global) serveCluster(ctx context.Context, listen *listenFlags, allowed *sources.Allowed, keep control.Housekeeping, wait time.Duration) error {
	if err := g.observe(ctx, "coalmine-coordinator"); err != nil {
		return err
	}
	archive, conn, err := g.openCluster(ctx, wait)
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
	options := listen.options
	options.Version, options.Log, options.Metrics = version(), g.logger(), g.metrics
	options.Checks, options.Leads = []dashboards.Check{{Name: "Redis", Ask: conn.Ping}}, leader.Leads
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

// newToken returns a random text of n characters.
func newToken(n int) string { return strings.ToLower(rand.Text())[:n] }

// metricsRegistry registers metrics and gathers them.
type metricsRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// newMetrics returns a registry of this process's metrics for Prometheus, including runtime and
// operating system.
func newMetrics() metricsRegistry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "coalmine_build_info",
		Help:        "1; the labels are the version of this process and its kernels.",
		ConstLabels: prometheus.Labels{"version": version(), "kernels": kernels.Set()},
	})
	build.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// observe enables metrics for this process and, if the environment requests it, tracing under a
// service name.
func (g *global) observe(ctx context.Context, service string) (err error) {
	g.metrics = newMetrics()
	g.tracer, err = tracing.Open(ctx, service, version(), g.logger())
	return err
}

// listenFlags holds the HTTP address of a process, and its access rules.
type listenFlags struct {
	address                  string
	tokenFile, readTokenFile string
	options                  dashboards.Options
}

func (l *listenFlags) add(f *pflag.FlagSet, address, service string) {
	f.StringVar(&l.address, "listen", address, "address of "+service)
	f.StringSliceVar(&l.options.Hosts, "host", nil, "further host names under which the server is reached")
	f.StringVar(&l.options.ExternalURL, "external-url", "", "address of the server behind a proxy, such as https://host/coalmine/")
	f.StringVar(&l.options.CertificateFile, "tls-cert", "", "certificate file")
	f.StringVar(&l.options.KeyFile, "tls-key", "", "key file of the certificate")
	f.StringVar(&l.tokenFile, "token-file", "", "file with the token that requests must have")
	f.BoolVar(&l.options.Insecure, "insecure", false, "serve beyond localhost without TLS")
}

// anyPort is the default address of a data directory's server.
const anyPort = "127.0.0.1:0"

// suitEmbedded rejects the flags that do not apply to embedded runs. The default address is any port.
func (l *listenFlags) suitEmbedded(given *pflag.FlagSet) error {
	if !given.Changed("listen") {
		l.address = anyPort
	}
	return refuseFlags(given, []string{"host", "external-url", "tls-cert", "tls-key", "insecure"},
		"--%s: a home is served only to its own machine, over plain HTTP; reach it from elsewhere with ssh -L, or serve a cluster with --redis and --store")
}

// complete reads the token files.
func (l *listenFlags) complete() (err error) {
	secrets.NoteFile(l.options.KeyFile)
	if l.options.OperatorToken, err = readToken(l.tokenFile); err != nil {
		return err
	}
	l.options.ReaderToken, err = readToken(l.readTokenFile)
	return err
}

// listen opens the address, if serving it is safe.
func (l *listenFlags) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if err := l.options.CheckAddress(listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// readToken reads a token from a file, so that it shows in no process list.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	secrets.NoteFile(path)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("token file %s is empty, which would disable the token; put at least 16 random characters into it", path)
	}
	return token, nil
}

// monitor serves a worker's HTTP requests until ctx is done. It returns at once without an address.
func (l *listenFlags) monitor(ctx context.Context, g *global) error {
	if l.address == "" {
		return nil
	}
	server, err := dashboards.NewMonitor(l.options)
	if err != nil {
		return err
	}
	listener, err := l.listen()
	if err != nil {
		return err
	}
	g.note("metrics and probes at %s", l.options.URL(listener.Addr()))
	return server.Serve(ctx, listener)
}

// alongside runs work until ctx is done, and aside until work has returned, which may be later. An
// error of either ends both.
func alongside(ctx context.Context, work, aside func(context.Context) error) error {
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	outlive, stopAside := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAside()
	ended := make(chan error, 1)
	go func() {
		err := aside(outlive)
		if err != nil {
			stopWork()
		}
		ended <- err
	}()
	err := work(working)
	stopAside()
	return errors.Join(err, <-ended)
}
