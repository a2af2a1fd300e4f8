package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/dashboards"
	"coalmine/internal/kernels"
	"coalmine/internal/queue"
	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/tasks"
	"coalmine/workers"
	"coalmine/workflows/control"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/datadir"
)

func (g *global) newCoordinator(archive *storage.Archive, conn *queue.Conn, holder string) (*coordinator.Coordinator, error) {
	if g.taskTimeout < 0 {
		return nil, fmt.Errorf("--task-timeout %v: expected a time above 0", g.taskTimeout)
	}
	registry := compile.Registry()
	limits, err := classLimits(registry, g.classLimits)
	if err != nil {
		return nil, err
	}
	return coordinator.New(coordinator.Config{
		Archive:     archive,
		Queue:       conn.Broker(),
		Compile:     runs.CompileParts,
		Registry:    registry,
		Holder:      holder,
		Place:       conn.String(),
		TaskTimeout: g.taskTimeout,
		Limits:      limits,
		Log:         g.logger(),
		Metrics:     g.metrics,
		Tracer:      g.tracer,
	})
}

// classLimits checks the limits of --class-limit: a misspelt class would have no effect, and a
// limit of 0 would stop every run.
func classLimits(registry tasks.Registry, limits map[string]int) (map[tasks.Class]int, error) {
	classes := registry.Classes()
	checked := make(map[tasks.Class]int)
	for _, class := range slices.Sorted(maps.Keys(limits)) {
		most := limits[class]
		if !slices.Contains(classes, class) || most < 1 {
			return nil, fmt.Errorf("--class-limit %s=%d: expected a class of %s, and a number of at least 1", class, most, strings.Join(classes, ", "))
		}
		checked[tasks.Class(class)] = most
	}
	return checked, nil
}

// newWorker returns a worker with the given number of slots. 0 means a slot per core available to
// this process and, for the class gpu, per GPU.
func newWorker(archive *storage.Archive, conn *queue.Conn, g *global, slots int) *workers.Worker {
	return &workers.Worker{
		Archive:     archive,
		Queue:       conn,
		Registry:    compile.Registry(),
		Slots:       slots,
		MemoryLimit: g.memory.limit(cmp.Or(slots, runtime.GOMAXPROCS(0))),
		Write:       g.writable,
		Environment: g.readable,
		Version:     version(),
		Kernels:     kernels.Set(),
		Log:         g.logger(),
		Metrics:     g.metrics,
		Tracer:      g.tracer,
	}
}

// engine combines all parts in one process: a data directory or a cluster's servers, a coordinator,
// a worker and, for a data directory, its API server.
type engine struct {
	archive *storage.Archive
	conn    *queue.Conn
	leader  *coordinator.Coordinator
	worker  *workers.Worker
	control *control.Local
	dir     *datadir.Dir // nil in a cluster
	front   listenFlags  // server of a data directory
	listen  net.Listener // nil in a cluster
	server  *dashboards.Server
	token   string // token of the server
	// loginCode logs the user's browser in to the page.
	loginCode string
	keys      *secrets.Keyring
	global    *global
}

// embeddedGrace is the time that the tasks of an interrupted run may take to finish. Tasks are
// short, and unfinished ones run again.
const embeddedGrace = 2 * time.Second

// openEmbedded claims a data directory, and listens at the address of front. The error is a
// *datadir.OwnedError if another process owns it.
func openEmbedded(ctx context.Context, dir string, g *global, front listenFlags) (*engine, error) {
	keys, err := g.keysIfThere()
	if err != nil {
		return nil, err
	}
	d, err := datadir.Claim(dir)
	if err != nil {
		return nil, err
	}
	e := &engine{dir: d, keys: keys, global: g, front: front, loginCode: newToken(tokenLength)}
	if err := errors.Join(g.observe(ctx, "coalmine"), e.open(ctx)); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *engine) open(ctx context.Context) error {
	store, err := open.Dir(e.dir.Store())
	if err != nil {
		return err
	}
	e.archive = e.global.archive(store)
	if e.conn, err = queue.Embedded(ctx); err != nil {
		return err
	}
	if e.listen, err = e.front.listen(); err != nil {
		return err
	}
	if err := e.assemble(""); err != nil {
		return err
	}
	// The default token is random, and kept in the directory, where other users of this machine cannot read
	// it.
	e.token = cmp.Or(e.front.options.OperatorToken, newToken(tokenLength))
	e.server, err = dashboards.NewServer(e.control, dashboards.Options{
		Version: version(), Log: e.global.logger(), Updated: e.leader.Updated,
		Metrics: e.global.metrics, Leads: e.leader.Leads,
		OperatorToken: e.token, ReaderToken: e.front.options.ReaderToken, LoginCode: e.loginCode,
	})
	return err
}

// openClustered connects to the servers of a cluster. The coordinator leads only if no other does.
func openClustered(ctx context.Context, g *global) (*engine, error) {
	keys, err := g.keysIfThere()
	if err != nil {
		return nil, err
	}
	if err := g.observe(ctx, "coalmine"); err != nil {
		return nil, err
	}
	archive, conn, err := g.openCluster(ctx, 0)
	if err != nil {
		return nil, err
	}
	e := &engine{archive: archive, conn: conn, keys: keys, global: g}
	return e, e.assemble(holderName())
}

func (e *engine) assemble(holder string) (err error) {
	if e.leader, err = e.global.newCoordinator(e.archive, e.conn, holder); err != nil {
		return err
	}
	e.worker = newWorker(e.archive, e.conn, e.global, 0)
	e.worker.Grace, e.worker.Keys = embeddedGrace, e.keys
	if e.dir != nil { // experiments come from the user of this process
		e.worker.Environment, e.worker.Accompanied = []string{workers.AnyVariable}, true
	}
	e.control = control.New(e.archive, e.conn, e.leader)
	return nil
}

// work runs all parts until ctx is done or one of them fails, and then closes them. The worker ends
// first, so that its last reports still arrive.
func (e *engine) work(ctx context.Context) error {
	outlive, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, groupCtx := errgroup.WithContext(outlive)
	workerCtx, stopWorker := context.WithCancel(groupCtx)
	defer stopWorker()
	context.AfterFunc(ctx, stopWorker)
	group.Go(func() error {
		defer stop()
		return e.worker.Run(workerCtx)
	})
	group.Go(func() error { return e.leader.Lead(groupCtx) })
	if e.dir != nil {
		group.Go(func() error { return e.serve(groupCtx) })
	}
	return errors.Join(group.Wait(), e.close())
}

// serve serves the API of the data directory until ctx is done.
func (e *engine) serve(ctx context.Context) error {
	if err := e.dir.Announce(e.address(), e.token); err != nil {
		return err
	}
	return e.server.Serve(ctx, e.listen)
}

// pageKept is the time that the page stays available after a browser's last request. A page with a
// finished run sends a request every 20 seconds.
const pageKept = 45 * time.Second

// keepPage waits until no browser has requested the page for pageKept.
func (e *engine) keepPage(ctx context.Context) {
	if e.server == nil || !e.server.Watched(pageKept) {
		return
	}
	e.global.note("the page stays available while a browser shows it; Ctrl-C ends it (coalmine page opens it again)")
	e.server.AwaitUnwatched(ctx, pageKept)
}

// tokenLength is the length of token and login code, in characters of five bits.
const tokenLength = 26

// address returns the URL of the API.
func (e *engine) address() string { return "http://" + e.listen.Addr().String() }

// page returns a URL of a view, which logs a browser in once.
func (e *engine) page(view string) string {
	query := url.Values{"code": {e.loginCode}}
	if view != "" {
		query.Set("next", view)
	}
	return e.address() + "/login?" + query.Encode()
}

func (e *engine) close() error {
	var errs []error
	if e.conn != nil {
		errs = append(errs, e.conn.Close())
	}
	errs = append(errs, e.global.tracer.Close())
	if e.dir != nil {
		errs = append(errs, e.dir.Close())
	}
	return errors.Join(errs...)
}

// holderName names this process in leader election.
func holderName() string {
	host, _ := os.Hostname()
	return host + "-" + newToken(8)
}
