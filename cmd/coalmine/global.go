package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8"

	"coalmine/dashboards"
	"coalmine/internal/goroutines"
	"coalmine/internal/queue"
	"coalmine/internal/readable"
	"coalmine/internal/secrets"
	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/open"
	"coalmine/workflows/control"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs/datadir"
)

// global holds the flags common to all commands, and the output streams.
type global struct {
	// stdout takes text for people; data is the same stream unchanged, for other programs.
	stdout, data, stderr io.Writer
	speaking             sync.Mutex // held while a line is written to stderr
	largeNoted           sync.Map   // names of large sources that notingFinder has noted

	places        placeFlags
	secretKey     string
	json          bool
	storeSuffices bool // command works without the queue
	// ownsHome reports that this command owns the home that control opened; owner is another owner, or nil.
	ownsHome bool
	owner    *datadir.OwnedError
	// storeMustExist is set for commands that create no store.
	storeMustExist bool
	warnOfKey      sync.Once
	logLevel       slog.LevelVar
	logFormat      logFormat
	bars           atomic.Pointer[mpb.Progress] // nil while there are none
	// metrics is the registry for this process's metrics, nil if they are not served.
	metrics metricsRegistry
	tracer  *tracing.Tracer // nil unless the environment asks for traces
	// taskTimeout and classLimits apply to commands that coordinate.
	taskTimeout time.Duration
	classLimits map[string]int
	// memory applies to commands that execute tasks.
	memory memoryFlag
	// writable are directories that commands of experiments may write to, in addition to their own.
	writable directoriesFlag
	// readable are environment variables that commands get if their experiment names them.
	readable []string
}

func (g *global) flags(f *pflag.FlagSet) {
	g.places.add(f)
	f.StringVar(&g.secretKey, "secret-key", os.Getenv(secrets.Variable), "file with the key of trainings with randomness: secret, outside the results ("+secrets.Variable+")")
	f.Lookup("secret-key").DefValue = "" // the help must not show the value from the environment
	f.BoolVar(&g.json, "json", false, "print facts as JSON")
	g.logLevel.Set(slog.LevelWarn)
	f.TextVar(&g.logLevel, "log-level", &g.logLevel, "minimum level of log lines on standard error: debug, info, warn or error")
	f.TextVar(&g.logFormat, "log-format", textFormat, "format of log lines: text or json")
}

// warnOfPassword warns about a password that other users can read.
func (g *global) warnOfPassword(f *pflag.FlagSet) {
	if queue.ShowsPassword(g.places.given()["redis"]) {
		g.note("warning: the list of processes shows the password in --redis: put the URL into COALMINE_REDIS_URL, or name a file with the password in ?password_file=FILE")
	}
	f.Visit(func(given *pflag.Flag) {
		if given.Name != "redis" && secrets.HasPassword(given.Value.String()) {
			g.note("warning: the list of processes shows the password in --%s: remove it, or put the address into the environment", given.Name)
		}
	})
}

// noteSecrets hides this command's secret files from the programs that it runs.
func (g *global) noteSecrets() {
	secrets.NoteFile(g.secretKey)
	secrets.NoteFile(g.places.tokenFile)
	if p, err := g.places.place(); err == nil && p.home != "" {
		datadir.NoteSecrets(p.home)
	}
}

// coordinates adds the flags of a command that coordinates.
func (g *global) coordinates(f *pflag.FlagSet) {
	f.DurationVar(&g.taskTimeout, "task-timeout", policy.TaskTimeout, "timeout of an attempt at a task, after which the task is retried")
	f.StringToIntVar(&g.classLimits, "class-limit", nil, "maximum number of queued or running tasks of a class, such as compute=8; repeatable; default limited only by the slots")
}

// waitFlag adds the flag of a process that may start before the servers of its cluster.
func waitFlag(f *pflag.FlagSet, wait *time.Duration) {
	f.DurationVar(wait, "wait", time.Minute, "maximum wait at the start for a Redis or a store that does not answer")
}

// logger writes structured lines to standard error.
func (g *global) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: &g.logLevel}
	if g.logFormat == jsonFormat {
		return slog.New(slog.NewJSONHandler(logOutput{g}, options))
	}
	return slog.New(slog.NewTextHandler(logOutput{g}, options))
}

type logFormat string

const (
	textFormat logFormat = "text"
	jsonFormat logFormat = "json"
)

// MarshalText implements encoding.TextMarshaler.
func (f logFormat) MarshalText() ([]byte, error) { return []byte(f), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *logFormat) UnmarshalText(text []byte) error {
	switch format := logFormat(text); format {
	case textFormat, jsonFormat:
		*f = format
		return nil
	}
	return errors.New("expected text or json")
}

type closer func() error

func noClose() error { return nil }

// control opens the runs of the command's place: a server, a cluster's store, or a data directory,
// through its owner if there is one.
func (g *global) control(ctx context.Context) (control.API, closer, error) {
	g.ownsHome, g.owner = false, nil
	p, err := g.places.place()
	switch {
	case err != nil:
		return nil, nil, err
	case p.server != "":
		client, err := g.places.client(p)
		return client, noClose, err
	case p.clustered():
		return g.clusterControl(ctx, p)
	}
	if err := p.homeExists(); err != nil {
		return nil, nil, err
	}
	d, err := datadir.Claim(p.home)
	if owned, ok := errors.AsType[*datadir.OwnedError](err); ok && owned.Address != "" {
		g.owner = owned
		client, err := dashboards.NewClient(owned.Address, owned.Token)
		return client, noClose, err
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		store, unreadable := dir.OpenReadOnly(datadir.StorePath(p.home))
		if unreadable == nil {
			g.note("%v; continuing read-only", err)
			return control.New(storage.NewArchive(store), nil, nil), noClose, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	store, err := open.Dir(d.Store())
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	g.ownsHome = true
	return control.New(storage.NewArchive(store), nil, nil), d.Close, nil
}

func (g *global) clusterControl(ctx context.Context, p place) (control.API, closer, error) {
	if p.redis == "" || p.store == "" {
		archive, err := g.openStore(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		return control.New(archive, nil, nil), noClose, nil
	}
	conn, away := queue.Open(ctx, p.redis)
	suffices := g.storeSuffices && (errors.Is(away, queue.ErrUnreachable) || errors.Is(away, queue.ErrNoWrites))
	if away != nil && !suffices {
		return nil, nil, away
	}
	archive, err := g.openStore(ctx, p)
	switch {
	case err != nil && away == nil:
		return nil, nil, errors.Join(err, conn.Close())
	case err != nil:
		return nil, nil, err
	case away == nil:
		return control.New(archive, conn, nil), conn.Close, nil
	}
	g.note("%v\nusing the state in the store", away)
	api := control.New(archive, nil, nil)
	api.SetQueueError(away)
	return api, noClose, nil
}

func (g *global) openStore(ctx context.Context, p place) (*storage.Archive, error) {
	if p.store == "" {
		return nil, fmt.Errorf("--redis needs --store (or COALMINE_STORE_URL): the store that all processes share")
	}
	if g.storeMustExist {
		if err := storeExists(p.store); err != nil {
			return nil, err
		}
	}
	store, err := open.Open(ctx, p.store)
	if err != nil {
		return nil, err
	}
	return g.archive(store), nil
}

// storeExists returns an error if the store is a missing directory, because a read-only command
// creates none.
func storeExists(location string) error {
	path := storePath(location)
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("store %s: %w; start a run with: coalmine run FILE --store %s, or correct --store (COALMINE_STORE_URL)", location, err, location)
	}
	return nil
}

// archive returns the typed view of a store; it counts uses if metrics are served.
func (g *global) archive(store storage.Store) *storage.Archive {
	if g.metrics != nil {
		store = open.Meter(store, g.metrics)
	}
	return storage.NewArchive(store)
}

// clusterPause is the pause between two tries to open a part of a cluster.
const clusterPause = 500 * time.Millisecond

// awaited calls open, which opens Redis or the store. While the server does not answer, it tries again until
// wait has passed.
func awaited[T any](ctx context.Context, g *global, wait time.Duration, open func() (T, error)) (T, error) {
	var until time.Time
	for {
		opened, err := open()
		if err == nil || !isSilent(err) || wait == 0 {
			return opened, err
		}
		if until.IsZero() {
			until = time.Now().Add(wait)
			g.note("waiting up to %v: %v", wait, err)
		} else if time.Now().After(until) {
			return opened, err
		}
		if err := goroutines.Sleep(ctx, clusterPause); err != nil {
			return opened, err
		}
	}
}

// isSilent reports whether err means that Redis or the server of a store does not answer, as before its start.
func isSilent(err error) bool {
	network, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, queue.ErrUnreachable) || errors.Is(err, storage.ErrAway) && ok && network.Op == "dial"
}

// openCluster opens both servers of a cluster: Redis first, because opening a store may create it.
// It waits for each as awaited does.
func (g *global) openCluster(ctx context.Context, wait time.Duration) (*storage.Archive, *queue.Conn, error) {
	p, err := g.places.place()
	if err != nil {
		return nil, nil, err
	}
	if p.redis == "" || p.store == "" {
		return nil, nil, fmt.Errorf("this command needs a cluster, but %s is given: expected --redis and --store (or COALMINE_REDIS_URL and COALMINE_STORE_URL)", p)
	}
	conn, err := awaited(ctx, g, wait, func() (*queue.Conn, error) { return queue.Open(ctx, p.redis) })
	if err != nil {
		return nil, nil, err
	}
	archive, err := awaited(ctx, g, wait, func() (*storage.Archive, error) { return g.openStore(ctx, p) })
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return archive, conn, nil
}

// printJSON writes one JSON object for other programs.
func (g *global) printJSON(v any) error {
	e := json.NewEncoder(readable.JSON(g.data))
	e.SetIndent("", " ")
	return e.Encode(v)
}

// show prints facts as JSON with --json, and otherwise calls text, which prints them for people.
func (g *global) show(facts any, text func() error) error {
	if g.json {
		return g.printJSON(facts)
	}
	return text()
}

// report prints facts as JSON with --json, and otherwise a text for people.
func (g *global) report(facts any, format string, args ...any) error {
	return g.show(facts, func() error { g.printf(format, args...); return nil })
}

// printf prints to standard output for people.
func (g *global) printf(format string, args ...any) { fmt.Fprintf(g.stdout, format, args...) }

// note writes output other than results: progress, warnings, advice.
func (g *global) note(format string, args ...any) {
	_, _ = g.writeError(fmt.Appendf(nil, format+"\n", args...))
}

// choiceNoter returns a function that notes, once for each name, the chosen run.
func (g *global) choiceNoter() func(control.Choice) {
	var noted sync.Map
	return func(c control.Choice) {
		if _, known := noted.LoadOrStore(c.Name, true); !known {
			g.note("%s", c)
		}
	}
}

// writeError writes one line for people, without passwords. Goroutines may call it concurrently.
func (g *global) writeError(line []byte) (int, error) {
	g.speaking.Lock()
	defer g.speaking.Unlock()
	if _, err := readable.Writer(g.stderr).Write([]byte(secrets.RedactPasswords(string(line)))); err != nil {
		return 0, err
	}
	return len(line), nil
}
