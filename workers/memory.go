package workers

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/semaphore"

	"coalmine/internal/childprocess"
	"coalmine/storage"
)

const (
	// memoryCheckEvery is the interval of memory checks of a worker with a limit.
	memoryCheckEvery = 100 * time.Millisecond
	// memoryPatience is the number of checks during which a stopped attempt may use too much
	// memory before the process exits: the time that the contract gives commands to end, and
	// five seconds more.
	memoryPatience = int((childprocess.DefaultGrace + 5*time.Second) / memoryCheckEvery)
	// maxLarge is the number of nodes remembered as requiring a separate process.
	maxLarge = 10_000
)

// memoryGuard keeps the process within a memory limit, so that the system need not kill it
// with all of its attempts. Over the limit, it acts in this order:
//
//	collect      garbage is no use of memory
//	drop caches  they only save work
//	hand back    the youngest attempt, untried; its next run here is alone
//	fail         an attempt that runs alone: it needs more than the limit
//	exit         if a stopped attempt does not end
//
// The oldest attempt is never handed back, so that work progresses. An exit counts as a death
// of the running attempts, and the number of deaths is limited.
type memoryGuard struct {
	limit      int64 // bytes; 0 for none
	used       func() int64
	collect    func()
	dropCaches func()
	exit       func()
	log        *slog.Logger
	// near requests a heartbeat when the memory is close to the limit: the system may kill the
	// process before the next one is due.
	near chan struct{}
	// room has a place for each attempt. One that must run alone takes all places.
	room *semaphore.Weighted

	mu       sync.Mutex
	attempts []*runningAttempt             // oldest first
	large    *cache[storage.Key, struct{}] // nodes whose attempts run alone
	stuck    int                           // consecutive checks that found a stopped attempt still running
}

type runningAttempt struct {
	key     storage.Key
	stop    context.CancelCauseFunc
	stopped bool
}

func newMemoryGuard(limit int64, dropCaches func(), log *slog.Logger) *memoryGuard {
	return &memoryGuard{
		limit:      limit,
		used:       memoryUsed,
		collect:    debug.FreeOSMemory,
		dropCaches: dropCaches,
		exit:       func() { os.Exit(1) },
		near:       make(chan struct{}, 1),
		log:        log,
		room:       semaphore.NewWeighted(math.MaxInt64),
		large:      newCache[storage.Key, struct{}](newBudget(maxLarge)),
	}
}

// memoryUsed returns the memory that the Go runtime has from the system, in bytes, as limited
// by debug.SetMemoryLimit.
func memoryUsed() int64 {
	samples := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// residentMemory returns the resident memory of the process, in bytes, which a container's
// limit and the system's out-of-memory killer use. If the system does not report it, it
// returns memoryUsed.
func residentMemory() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(statm)); err == nil && len(fields) > 1 {
		if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	return memoryUsed()
}

// memoryError ends the context of an attempt for lack of memory.
type memoryError struct {
	used, limit int64
	others      int // other running attempts
}

func (e *memoryError) Error() string {
	used, limit := humanize.IBytes(uint64(e.used)), humanize.IBytes(uint64(e.limit))
	if e.others == 0 {
		return fmt.Sprintf("the task needs more memory than the worker may use: running alone, it reached %s, with a limit of %s; raise --memory, or use a machine with more memory", used, limit)
	}
	return fmt.Sprintf("its worker reached %s of memory, with a limit of %s, while running %d other attempts; if this happens often, raise --memory or lower --slots", used, limit, e.others)
}

// enter waits until there is room for an attempt, and returns its context, which may end with
// a *memoryError. leave must be called at its end. An error means that ctx is done.
func (g *memoryGuard) enter(ctx context.Context, key storage.Key) (_ context.Context, leave func(), err error) {
	places := int64(1)
	if g.runsAlone(key) {
		places = math.MaxInt64
	}
	if err := g.room.Acquire(ctx, places); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	a := &runningAttempt{key: key, stop: stop}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attempts = append(g.attempts, a)
	return ctx, func() {
		stop(nil)
		g.left(a)
		g.room.Release(places)
	}, nil
}

// runsAlone reports whether the attempts of a node run alone, because one was stopped for its memory.
func (g *memoryGuard) runsAlone(key storage.Key) bool {
	_, large := g.large.peek(key)
	return large
}

func (g *memoryGuard) left(a *runningAttempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attempts = slices.DeleteFunc(g.attempts, func(b *runningAttempt) bool { return a == b })
}

func (g *memoryGuard) watch(ctx context.Context) {
	ticker := time.NewTicker(memoryCheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			g.check()
		case <-ctx.Done():
			return
		}
	}
}

func (g *memoryGuard) check() {
	if g.used() > g.limit/10*9 {
		select {
		case g.near <- struct{}{}:
		default:
		}
	}
	for _, relief := range []func(){func() {}, g.collect, func() { g.dropCaches(); g.collect() }} {
		if relief(); g.used() <= g.limit {
			g.stuck = 0
			return
		}
	}
	g.stopYoungest(g.used())
}

// stopYoungest stops one attempt, unless one is already stopping.
func (g *memoryGuard) stopYoungest(used int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.attempts) == 0 {
		return // tasks do not use the memory
	}
	if slices.ContainsFunc(g.attempts, func(a *runningAttempt) bool { return a.stopped }) {
		g.awaitStopped(used)
		return
	}
	g.stuck = 0
	youngest := g.attempts[len(g.attempts)-1]
	why := &memoryError{used: used, limit: g.limit, others: len(g.attempts) - 1}
	g.log.Warn("memory is over its limit: stopping the youngest attempt", "node", youngest.key.Short(), "used", used, "limit", g.limit, "attempts", len(g.attempts))
	g.large.add(youngest.key, struct{}{}, 1)
	youngest.stopped = true
	youngest.stop(why)
}

// awaitStopped exits the process when a stopped attempt runs too long.
func (g *memoryGuard) awaitStopped(used int64) {
	if g.stuck++; g.stuck < memoryPatience {
		return
	}
	g.log.Error("memory is over its limit, and a stopped attempt does not release it: the worker exits; raise --memory or lower --slots",
		"used", used, "limit", g.limit, "attempts", len(g.attempts))
	g.exit()
}
