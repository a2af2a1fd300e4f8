package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8"

	"coalmine/dashboards"
	"coalmine/internal/queue"
	"coalmine/internal/secrets"
	"coalmine/internal/tracing"
	"coalmine/internal/visible"
	"coalmine/storage"
	"coalmine/storage/metered"
	"coalmine/storage/open"
	"coalmine/workflows/control"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/datadir"
)

// global are the flags that all commands share, and where they print.
type global struct {
	// stdout takes text for people, and data the same stream as it is: what other programs read.
	stdout, data, stderr io.Writer
	speaking             sync.Mutex // held while a line is written to stderr

	home, redis, store, server, token, secretKey string
	json                                         bool
	storeSuffices                                bool // to look and to steer, while the queue is away
	logLevel                                     slog.LevelVar
	logFormat                                    logFormat
	bars                                         atomic.Pointer[mpb.Progress] // nil while there are none
	// metrics is where the parts of this process register theirs; nil where nobody
	// can ask for them.
	metrics metricsRegistry
	tracer  *tracing.Tracer // nil unless the environment asks for traces
	// taskTimeout and classLimits are those of the commands which coordinate.
	taskTimeout time.Duration
	classLimits map[string]int
	// memory is that of the commands which work.
	memory memoryFlag
	// writable are the directories that commands of experiments may write to beside their own.
	writable directoriesFlag
}

func (g *global) flags(f *pflag.FlagSet) {
	f.StringVar(&g.home, "home", ".coalmine", "directory of embedded runs, used when no --store is given")
	f.StringVar(&g.redis, "redis", os.Getenv("COALMINE_REDIS_URL"), "Redis of a cluster: redis://, rediss:// or redis-sentinel:// URL (COALMINE_REDIS_URL)")
	f.StringVar(&g.store, "store", os.Getenv("COALMINE_STORE_URL"), "store of a cluster: s3://bucket/prefix?endpoint=http://host:port, or a directory (COALMINE_STORE_URL)")
	f.StringVar(&g.server, "server", os.Getenv("COALMINE_SERVER"), "address of a running coalmine serve, in place of --store (COALMINE_SERVER; the token in COALMINE_TOKEN)")
	f.StringVar(&g.secretKey, "secret-key", os.Getenv(secrets.Variable), "file with the key of trainings with randomness: secret, apart from the results ("+secrets.Variable+")")
	for _, name := range []string{"redis", "store", "server", "secret-key"} {
		f.Lookup(name).DefValue = "" // the help must not show what the environment holds
	}
	f.BoolVar(&g.json, "json", false, "print facts as JSON")
	g.logLevel.Set(slog.LevelWarn)
	f.TextVar(&g.logLevel, "log-level", &g.logLevel, "least level of log lines on standard error: debug, info, warn or error")
	f.TextVar(&g.logFormat, "log-format", textFormat, "form of log lines: text or json")
	g.token = os.Getenv("COALMINE_TOKEN")
}

// warnOfPassword tells who has put a password where others can read it.
func (g *global) warnOfPassword(f *pflag.FlagSet) {
	if f.Changed("redis") && queue.ShowsPassword(g.redis) {
		g.note("warning: the password in --redis shows in the list of processes: put the URL into COALMINE_REDIS_URL, or name a file with the password by ?password_file=FILE")
	}
}

// coordinates adds the flags of a command that coordinates.
func (g *global) coordinates(f *pflag.FlagSet) {
	f.DurationVar(&g.taskTimeout, "task-timeout", policy.TaskTimeout, "how long an attempt at a task may take before it is ended and tried again")
	f.StringToIntVar(&g.classLimits, "class-limit", nil, "most tasks of a class that may be queued or at work at a time, such as compute=8; repeatable; default as many as there are slots for")
}

// logger writes structured lines to standard error.
func (g *global) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: &g.logLevel}
	if g.logFormat == jsonFormat {
		return slog.New(slog.NewJSONHandler(logOutput{g}, options))
	}
	return slog.New(slog.NewTextHandler(logOutput{g}, options))
}

// logFormat is the form of log lines.
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

// clustered reports whether the command works with servers of a cluster.
func (g *global) clustered() bool { return g.redis != "" || g.store != "" }

// closer undoes what opening did.
type closer func() error

func noClose() error { return nil }

// control opens the runs that the command is about: those of a server, of a
// cluster's store, or of a data directory, whose owner answers for it if it has one.
func (g *global) control(ctx context.Context) (control.API, closer, error) {
	switch {
	case g.server != "":
		client, err := dashboards.NewClient(g.server, g.token)
		return client, noClose, err
	case g.clustered():
		return g.clusterControl(ctx)
	}
	if err := g.dataDirExists(); err != nil {
		return nil, nil, err
	}
	d, err := datadir.Claim(g.home)
	if owned, ok := errors.AsType[*datadir.OwnedError](err); ok && owned.Address != "" {
		client, err := dashboards.NewClient(owned.Address, owned.Token)
		return client, noClose, err
	}
	if err != nil {
		return nil, nil, err
	}
	store, err := open.Open(ctx, d.Store())
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return control.New(storage.NewArchive(store), nil, nil), d.Close, nil
}

func (g *global) dataDirExists() error {
	if _, err := os.Stat(g.home); err != nil {
		return fmt.Errorf("home %s: %w; start a run with: coalmine run FILE, or name another place by --home, --store or --server", g.home, err)
	}
	return nil
}

func (g *global) clusterControl(ctx context.Context) (control.API, closer, error) {
	archive, err := g.openStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	if g.redis == "" {
		return control.New(archive, nil, nil), noClose, nil
	}
	conn, err := queue.Open(ctx, g.redis)
	if g.storeSuffices && (errors.Is(err, queue.ErrUnreachable) || errors.Is(err, queue.ErrNoWrites)) {
		g.note("%v\ngoing on with what the store knows", err)
		api := control.New(archive, nil, nil)
		api.QueueAway(err)
		return api, noClose, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return control.New(archive, conn, nil), conn.Close, nil
}

// openStore opens the store of a cluster.
func (g *global) openStore(ctx context.Context) (*storage.Archive, error) {
	if g.store == "" {
		return nil, fmt.Errorf("--redis needs --store (or COALMINE_STORE_URL): the store that all processes share")
	}
	store, err := open.Open(ctx, g.store)
	if err != nil {
		return nil, err
	}
	return g.archive(store), nil
}

// archive is the typed view of a store, whose use is counted if anybody can ask.
func (g *global) archive(store storage.Store) *storage.Archive {
	if g.metrics != nil {
		store = metered.New(store, g.metrics)
	}
	return storage.NewArchive(store)
}

// openCluster opens both servers of a cluster.
func (g *global) openCluster(ctx context.Context) (*storage.Archive, *queue.Conn, error) {
	if g.redis == "" || g.store == "" {
		return nil, nil, fmt.Errorf("this command needs both --redis and --store (or COALMINE_REDIS_URL and COALMINE_STORE_URL)")
	}
	archive, err := g.openStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := queue.Open(ctx, g.redis)
	return archive, conn, err
}

// printJSON writes one JSON object for other programs.
func (g *global) printJSON(v any) error {
	e := json.NewEncoder(visible.JSON(g.data))
	e.SetIndent("", " ")
	return e.Encode(v)
}

// printf writes for people.
func (g *global) printf(format string, args ...any) { fmt.Fprintf(g.stdout, format, args...) }

// note writes what is no result: progress, warnings, advice.
func (g *global) note(format string, args ...any) {
	_, _ = g.writeError(fmt.Appendf(nil, format+"\n", args...))
}

// tellChoice returns what says of each name once which run it was taken for.
func (g *global) tellChoice() func(control.Choice) {
	var told sync.Map
	return func(c control.Choice) {
		if _, said := told.LoadOrStore(c.Name, true); !said {
			g.note("%s", c)
		}
	}
}

// writeError writes a whole line for people: many goroutines have something to say.
func (g *global) writeError(line []byte) (int, error) {
	g.speaking.Lock()
	defer g.speaking.Unlock()
	return visible.Writer(g.stderr).Write(line)
}
