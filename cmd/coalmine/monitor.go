package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"

	"coalmine/dashboards"
	"coalmine/internal/kernels"
	"coalmine/internal/queue"
	"coalmine/internal/secrets"
	"coalmine/internal/tracing"
	"coalmine/storage"
)

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
		Help:        "1; the labels say which version this process is, and which kernels it computes with.",
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

// checks test the services that the processes of a cluster need.
func checks(archive *storage.Archive, conn *queue.Conn) (store, redis dashboards.Check) {
	store = dashboards.Check{Name: "the store", Ask: func(ctx context.Context) error {
		_, err := archive.HasSource(ctx, storage.Digest{})
		return err
	}}
	return store, dashboards.Check{Name: "Redis", Ask: conn.Ping}
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
	f.StringVar(&l.tokenFile, "token-file", "", "file with the token that requests must bring")
	f.BoolVar(&l.options.Insecure, "insecure", false, "serve beyond localhost without TLS")
}

// anyPort is the default address of a data directory's server.
const anyPort = "127.0.0.1:0"

// suitEmbedded rejects the flags that do not apply to embedded runs. The default address is any port.
func (l *listenFlags) suitEmbedded(given *pflag.FlagSet) error {
	for _, name := range []string{"host", "external-url", "tls-cert", "tls-key", "insecure"} {
		if given.Changed(name) {
			return fmt.Errorf("--%s: a home is served to its own machine alone, over plain HTTP; reach it from elsewhere by ssh -L, or serve a cluster with --redis and --store", name)
		}
	}
	if !given.Changed("listen") {
		l.address = anyPort
	}
	return nil
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
