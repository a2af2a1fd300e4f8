package workers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"coalmine/internal/childprocess"
	"coalmine/internal/queue"
	"coalmine/internal/secrets"
	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workers/clients"
)

// Defaults of a Worker's zero fields.
const (
	DefaultCacheBytes  = 20 << 30  // 20 GiB
	DefaultCacheMemory = 256 << 20 // 256 MiB, for each slot
	DefaultGrace       = 10 * time.Second
)

// AnyVariable stands for all variables in Worker.Environment.
const AnyVariable = "*"

// Worker executes tasks. Its fields are set before Run and not changed after.
type Worker struct {
	// Archive holds inputs and outputs.
	Archive *storage.Archive
	// Queue delivers the attempts and receives the reports.
	Queue *queue.Conn
	// Registry lists the kinds that this worker can run.
	Registry tasks.Registry
	// Keys are the secret keys that tasks with secret randomness need; may be nil. A task that needs
	// another is handed back untried.
	Keys *secrets.Keyring
	// Classes are the classes of the tasks to accept; empty stands for all classes of its kinds.
	Classes []string
	// NoCommands forbids commands of experiments, even if requested.
	NoCommands bool
	// Slots is the number of concurrent tasks of each class. A task keeps one core busy, so the
	// default, 0, stands for GOMAXPROCS. In class gpu the limit, and the default, is the number of
	// NVIDIA GPUs, if there are any.
	Slots int
	// CacheDir is the directory of blobs cached between tasks and between processes; several workers
	// may share it. Empty disables it, as suits an archive in a local directory.
	CacheDir string
	// CacheBytes limits the files in CacheDir. Default DefaultCacheBytes.
	CacheBytes int64
	// CacheMemory limits the total memory of caches, in bytes: blobs, commits, and the values that
	// tasks decode from them. Default DefaultCacheMemory for each slot; at most a quarter of
	// MemoryLimit.
	CacheMemory int64
	// MemoryLimit limits the memory of the process, in bytes; 0 means no limit. Over it the worker
	// drops its caches, then hands attempts back, and fails one that exceeds it while running alone.
	// Run sets the runtime's soft limit somewhat lower (debug.SetMemoryLimit), unless GOMEMLIMIT is
	// set.
	MemoryLimit int64
	// Grace is the time for tasks to finish after ctx is done. A task that runs longer is stopped and
	// handed back untried. Default DefaultGrace; negative for none.
	Grace time.Duration
	// IdleFor ends Run after this time without a task. 0 means never.
	IdleFor time.Duration
	// Write are directories that commands of experiments may write to in addition to their own, if
	// the platform restricts them.
	Write []string
	// Environment names the variables of this process that experiments may pass to their commands;
	// AnyVariable allows all. A task that names another fails.
	Environment []string
	// KeepLogs stores the log of every attempt, not only of failed ones.
	KeepLogs bool
	// Accompanied is set beside a coordinator in the same process, which warns of failed attempts; the
	// worker then logs them as information.
	Accompanied bool
	// Host, Version and Kernels go into the provenance of commits: where the worker runs (default:
	// the host name), the version of coalmine, and the kernel set (avx512, avx2 or go).
	Host, Version, Kernels string
	// Log is the worker's logger. Default slog.Default().
	Log *slog.Logger
	// Metrics registers the worker's metrics; workers cannot share a registerer. Nil exports nothing.
	Metrics prometheus.Registerer
	// Tracer makes spans of attempts; nil makes none.
	Tracer *tracing.Tracer
}

func (w *Worker) check() error {
	var errs []error
	if w.Archive == nil {
		errs = append(errs, errors.New("Archive is nil"))
	}
	if w.Queue == nil {
		errs = append(errs, errors.New("Queue is nil"))
	}
	if len(w.Registry) == 0 {
		errs = append(errs, errors.New("Registry is empty"))
	}
	if w.Slots < 0 || w.CacheBytes < 0 || w.CacheMemory < 0 || w.MemoryLimit < 0 || w.IdleFor < 0 {
		errs = append(errs, fmt.Errorf("Slots (%d), CacheBytes (%d), CacheMemory (%d), MemoryLimit (%d) and IdleFor (%v) must not be negative",
			w.Slots, w.CacheBytes, w.CacheMemory, w.MemoryLimit, w.IdleFor))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// Run executes attempts until ctx is done or the worker has been idle for IdleFor, and then returns
// nil. It survives any absence of Redis. An error of the archive fails the attempt that met it. An
// attempt of a coordinator with another store is handed back, and ends Run with an error that wraps
// attempts.ErrOtherStore.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	asked := ctx
	ctx, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	e, err := w.newExecutor(ctx, quit)
	if err != nil {
		return err
	}
	idle := newIdleTimer(w.IdleFor, func() { quit(errIdle) })
	defer idle.stop()
	defer e.clients.Close()
	e.metrics.slots.Set(float64(e.devices.slots))
	e.metrics.memoryLimit.Set(float64(w.MemoryLimit))
	defer w.limitMemory(ctx, e.guard)()
	e.log.Info("worker started", "slots", e.devices.slots, "queue", w.Queue.String(), "store", w.Archive.String())
	err = w.Queue.Serve(ctx, queue.ConsumerConfig{
		Worker: queue.Worker{
			ID: e.workerID, Host: e.host, Classes: w.classes(), Slots: e.devices.slots, ClassSlots: e.devices.classSlots(), Devices: e.devices.found(),
			Build: w.Version, Format: attempts.Format, Kinds: e.registry.Advertised(), Keys: w.Keys.Fingerprints(),
		},
		Handler: func(ctx context.Context, m queue.Message) []byte {
			defer idle.busy()()
			return e.handle(ctx, m)
		},
		Progress: e.progress.of,
		Memory:   w.memory,
		Early:    e.guard.near,
		Work:     func() queue.Work { return e.metrics.work.soFar(time.Now()) },
		Grace:    w.grace(),
		Log:      w.log(),
	})
	e.log.Info("worker ended", append([]any{"because", whyEnded(asked, ctx)}, e.tally.attributes()...)...)
	if cause := context.Cause(ctx); errors.Is(cause, attempts.ErrOtherStore) {
		return cause
	}
	return err
}

// errIdle ends a worker that was idle for IdleFor.
var errIdle = errors.New("it was idle")

// whyEnded returns the reason for the end of a worker that was asked to run until asked is done, and
// ran until ctx was.
func whyEnded(asked, ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case asked.Err() != nil:
		return "it was interrupted"
	case cause != nil:
		return cause.Error()
	default:
		return "it was drained"
	}
}

// newExecutor returns the executor of one Run; quit ends Run.
func (w *Worker) newExecutor(ctx context.Context, quit context.CancelCauseFunc) (*executor, error) {
	m := newMetrics(w.Metrics, w.Registry)
	memory := newBudget(w.cacheMemory())
	source, memo := newSource(w.Archive, memory), newMemo(memory)
	source.blobs.memory.metrics, source.commits.metrics, memo.values.metrics = m.gauge("blobs"), m.gauge("commits"), m.gauge("values")
	if w.CacheDir != "" {
		disk, err := openDiskCache(w.CacheDir, cmp.Or(w.CacheBytes, DefaultCacheBytes), w.log())
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		disk.countIn(m.gauge("disk"))
		source.blobs.disk = disk
	}
	host := w.Host
	if host == "" {
		// The name is only for people: a missing host name is no obstacle.
		host, _ = os.Hostname()
	}
	e := &executor{
		worker:   w,
		registry: w.registry(),
		workerID: newWorkerID(host),
		host:     host,
		source:   source,
		memo:     memo,
		progress: &progressBoard{entries: map[string]*atomic.Pointer[tasks.Progress]{}},
		clients:  clients.NewPool(clients.Options{Write: w.Write}),
		metrics:  m,
		store:    &storeCheck{worker: w, quit: quit},
	}
	e.log = w.log().With("worker", e.workerID)
	e.devices = newDevices(w.Slots, w.classes(), w.gpus(ctx, e.log))
	e.guard = newMemoryGuard(w.MemoryLimit, memory.clear, e.log)
	return e, nil
}

// gpus returns the GPUs for the tasks of the class gpu.
func (w *Worker) gpus(ctx context.Context, log *slog.Logger) []queue.Device {
	if w.NoCommands || !slices.Contains(w.classes(), string(tasks.GPU)) {
		return nil
	}
	found, err := findGPUs(ctx, nvidiaDriver)
	switch {
	case err != nil && slices.Contains(w.Classes, string(tasks.GPU)):
		log.Warn("no NVIDIA GPU was found, so programs of the class gpu choose a device themselves: install the driver with nvidia-smi, or run these tasks on another worker", "because", err)
	case err == nil:
		log.Info("found GPUs", "devices", found)
	}
	return found
}

// memory returns the memory figures for heartbeats.
func (w *Worker) memory() queue.Memory {
	group := childprocess.OwnGroup()
	return queue.Memory{Used: residentMemory(), Limit: w.MemoryLimit, GroupUsed: group.Used, GroupLimit: group.Limit}
}

// limitMemory keeps the process within its limit until end is called.
func (w *Worker) limitMemory(ctx context.Context, guard *memoryGuard) (end func()) {
	if w.MemoryLimit == 0 {
		return func() {}
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(w.MemoryLimit / 10 * 9)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // also while the last tasks end
	var watching sync.WaitGroup
	watching.Go(func() { guard.watch(ctx) })
	return func() {
		cancel()
		watching.Wait()
	}
}

func (w *Worker) classes() []string {
	if len(w.Classes) > 0 {
		return w.Classes
	}
	return w.registry().Classes()
}

func (w *Worker) registry() tasks.Registry {
	if w.NoCommands {
		return w.Registry.WithoutCommands()
	}
	return w.Registry
}

func (w *Worker) slots() int { return cmp.Or(w.Slots, runtime.GOMAXPROCS(0)) }

// cacheMemory returns the limit of the caches in memory, in bytes.
func (w *Worker) cacheMemory() int64 {
	bytes := cmp.Or(w.CacheMemory, int64(w.slots())*DefaultCacheMemory)
	if w.MemoryLimit > 0 {
		bytes = min(bytes, w.MemoryLimit/4)
	}
	return bytes
}

// keptOutputs returns the limit on an attempt's outputs kept for the cache, in bytes: an eighth of
// its slot's share of the cache.
func (w *Worker) keptOutputs() int64 { return w.cacheMemory() / int64(w.slots()) / 8 }

func (w *Worker) grace() time.Duration { return max(0, cmp.Or(w.Grace, DefaultGrace)) }

func (w *Worker) log() *slog.Logger { return cmp.Or(w.Log, slog.Default()) }

// newWorkerID returns a unique name for a worker. It is part of object names, so characters invalid
// there are replaced.
func newWorkerID(host string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, host)
	if len(clean) > 60 {
		clean = clean[:60]
	}
	return fmt.Sprintf("%s-%d-%s", cmp.Or(clean, "worker"), os.Getpid(), strings.ToLower(rand.Text()[:8]))
}

// idleTimer calls expire after a time without work.
type idleTimer struct {
	after time.Duration // 0 for never

	mu    sync.Mutex
	count int
	timer *time.Timer
}

func newIdleTimer(after time.Duration, expire func()) *idleTimer {
	t := &idleTimer{after: after}
	if after > 0 {
		t.timer = time.AfterFunc(after, expire)
	}
	return t
}

// busy stops the timer until done is called.
func (t *idleTimer) busy() (done func()) {
	t.add(1)
	return func() { t.add(-1) }
}

func (t *idleTimer) add(n int) {
	if t.timer == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count += n
	if t.count == 0 {
		t.timer.Reset(t.after)
	} else {
		t.timer.Stop()
	}
}

func (t *idleTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
