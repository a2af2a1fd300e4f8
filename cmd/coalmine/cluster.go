package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"coalmine/dashboards"
	"coalmine/workflows/control"
	"coalmine/workflows/sources"
)

const workerHelp = `Work for a cluster: take tasks from the queue until interrupted. Start as many
workers as you like, on as many machines; each needs the Redis and the store, and
nothing else. On SIGTERM or Ctrl-C a worker takes no more tasks, gives those at
work --grace to end, and hands back what is left.`

func newWorkerCommand(g *global) *cobra.Command {
	var slots int
	var cacheDir string
	var cacheGiB int64
	var grace, idle time.Duration
	c := &cobra.Command{
		Use:     "worker",
		Short:   "Work for a cluster",
		Long:    workerHelp,
		GroupID: groupRun,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			keys, err := g.keys()
			if err != nil {
				return err
			}
			archive, conn, err := g.openCluster(c.Context())
			if err != nil {
				return err
			}
			w := newWorker(archive, conn, g.logger())
			w.Keys = keys
			w.Slots, w.CacheDir, w.CacheBytes = slots, cacheDir, cacheGiB<<30
			w.Grace, w.IdleFor = grace, idle
			return errors.Join(w.Run(c.Context()), conn.Close())
		},
	}
	f := c.Flags()
	f.IntVar(&slots, "slots", 0, "tasks at a time; 0 is one for each core")
	f.StringVar(&cacheDir, "cache", "", "directory for a disk cache of inputs; workers of one machine may share it")
	f.Int64Var(&cacheGiB, "cache-size", 20, "size of the disk cache in GiB")
	f.DurationVar(&grace, "grace", 10*time.Second, "how long tasks may go on after an interrupt")
	f.DurationVar(&idle, "exit-when-idle", 0, "end after so long without a task; 0 is never")
	return c
}

const serveHelp = `Coordinate a cluster and show it: decide what runs next, and answer for it over
HTTP. Several may run; one leads, and another takes over within seconds when it
dies. The page binds to localhost unless --listen says otherwise; elsewhere it
wants a token and TLS, or --insecure.

Without --redis and --store it owns --home and works there too: other commands on
that home then talk to it.`

func newServeCommand(g *global) *cobra.Command {
	var options dashboards.Options
	var listen, tokenFile, readTokenFile string
	var allow []string
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Coordinate a cluster and show its runs",
		Long:    serveHelp,
		GroupID: groupRun,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			options.Version, options.Log = version(), g.logger()
			allowed, err := sources.Allow(allow)
			if err != nil {
				return err
			}
			if !g.clustered() {
				return g.serveHome(c.Context(), allowed)
			}
			if options.OperatorToken, err = readToken(tokenFile); err != nil {
				return err
			}
			if options.ReaderToken, err = readToken(readTokenFile); err != nil {
				return err
			}
			return g.serveCluster(c.Context(), listen, options, allowed)
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "localhost:8080", "address of the page and the API")
	f.StringSliceVar(&options.Hosts, "host", nil, "further host names under which the server is reached")
	f.StringVar(&options.CertificateFile, "tls-cert", "", "certificate file")
	f.StringVar(&options.KeyFile, "tls-key", "", "key file of the certificate")
	f.StringVar(&tokenFile, "token-file", "", "file with the token of operators")
	f.StringVar(&readTokenFile, "read-token-file", "", "file with the token of those who may only look")
	f.StringArrayVar(&allow, "allow-source", nil, "file, directory or s3:// URL, ending in a slash for all below, that experiments checked by the server (submit --on-server) may read; repeatable; default none")
	f.BoolVar(&options.Insecure, "insecure", false, "serve beyond localhost without TLS")
	return c
}

// readToken reads a token from a file, so that it shows in no process list.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// serveHome owns a home and works in it until interrupted.
func (g *global) serveHome(ctx context.Context, allowed *sources.Allowed) error {
	e, err := openEmbedded(ctx, g.home, g)
	if err != nil {
		return err
	}
	e.control.AllowSources(allowed)
	g.note("serving %s at http://%s", g.home, e.listen.Addr())
	return e.work(ctx)
}

func (g *global) serveCluster(ctx context.Context, listen string, options dashboards.Options, allowed *sources.Allowed) error {
	archive, conn, err := g.openCluster(ctx)
	if err != nil {
		return err
	}
	leader, err := newCoordinator(archive, conn, holderName(), options.Log)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return errors.Join(fmt.Errorf("--listen: %w", err), conn.Close())
	}
	api := control.New(archive, conn, nil)
	api.AllowSources(allowed)
	api.DeleteBy(leader)
	server, err := dashboards.NewServer(api, options)
	if err != nil {
		return errors.Join(err, l.Close(), conn.Close())
	}
	g.note("serving %s at http://%s", archive, l.Addr())
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return leader.Lead(groupCtx) })
	group.Go(func() error { return server.Serve(groupCtx, l) })
	return errors.Join(group.Wait(), conn.Close())
}

// newToken is a random text of n characters.
func newToken(n int) string { return strings.ToLower(rand.Text())[:n] }
