//go:build linux

package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/storagetest"
	"coalmine/workflows/runs"
)

// arena is a cluster of real processes and servers, with a way to each server
// that can fail for each process:
//
//	coordinator x 2, worker x 2..3, operator
//	    |               |
//	  Link            Link
//	    |               |
//	  redis           Front -- versitygw      (or a directory)
//
// The test looks at the servers directly. All of it belongs to the goroutine of
// the test, which plays the schedule and restarts processes that have ended.
type arena struct {
	t       testing.TB
	plan    schedule
	dir     string // of logs, kept if the test fails
	redis   *testserver.Redis
	s3      *testserver.S3    // nil if the store is a directory
	front   *testserver.Front // before s3
	objects string            // directory with the store's objects as files
	mounted bool              // the directory is a file system of its own
	members []*member
	// workerArguments are further ones of every worker.
	workerArguments []string
	// variables are further ones of every process's environment.
	variables []string

	archive *storage.Archive
	files   workspace // the submitted experiment
	run     string    // id
	orders  []*order  // that are still to be given, or followed
	// sources and programs are those of the game.
	sources  int
	programs bool
	// siblings is how many other runs have been submitted beside it.
	siblings int

	claimed map[any]bool
	// snapshot is a copy of redis's files at an earlier moment, "" before that.
	snapshot string
	// harmed are blobs of which the files have been spoiled or removed.
	harmed map[string]bool
	counts map[string]int // of faults that have happened, by kind
	story  []string       // of the events, as text
	begun  time.Time
	// calm is when the last fault had ended, and recovered how long the run went
	// on after that.
	calm      time.Time
	recovered time.Duration
	puts      commitWatch
	// descriptors and goroutines are the largest numbers that a process had at
	// the end, and left the objects that remain for garbage collection.
	descriptors, goroutines, left int
}

const chaosBucketPrefix = "store"

// newArena starts the servers; the processes start later.
func newArena(t testing.TB, plan schedule) *arena {
	a := &arena{
		t: t, plan: plan, dir: logDir(t, plan.seed), redis: testserver.StartRedis(t),
		sources: 1, claimed: map[any]bool{}, harmed: map[string]bool{}, counts: map[string]int{},
	}
	if plan.directory {
		a.openDirectory()
	} else {
		a.openS3()
	}
	for i := range coordinatorCount {
		a.add(coordinatorRole, i)
	}
	for i := range plan.workers {
		a.add(workerRole, i)
	}
	return a
}

const coordinatorCount = 2

// logDir is a directory that goes with the test unless that fails.
func logDir(t testing.TB, seed uint64) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", fmt.Sprintf("coalmine-chaos-%d-", seed)))(t)
	t.Cleanup(func() {
		if !t.Failed() {
			os.RemoveAll(dir)
		}
	})
	return dir
}

func (a *arena) openS3() {
	a.s3 = testserver.StartS3(a.t)
	a.front = testserver.NewFront(a.t, a.s3.Addr())
	a.front.Watch(a.puts.see)
	a.objects = filepath.Join(a.s3.Dir, a.s3.Bucket, chaosBucketPrefix)
	a.archive = storage.NewArchive(storagetest.OpenS3(a.t, a.s3.URL(chaosBucketPrefix), a.s3.AccessKey, a.s3.SecretKey))
}

// openDirectory makes the store a file system of its own if it may, so that it
// can be full and read-only.
func (a *arena) openDirectory() {
	a.objects = a.t.TempDir()
	a.mounted = mountStore(a.t, a.objects)
	store := must.Get(dir.Open(a.objects))(a.t)
	a.archive = storage.NewArchive(store)
}

// claim reserves something for one fault at a time.
func (a *arena) claim(what any) bool {
	if a.claimed[what] {
		return false
	}
	a.claimed[what] = true
	return true
}

func (a *arena) release(what any) { delete(a.claimed, what) }

// pick chooses a process of a role that is at work.
func (a *arena) pick(r *rand.Rand, role role) *member {
	var able []*member
	for _, m := range a.members {
		if m.role == role && m.ready() && !a.claimed[m] {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return nil
	}
	return able[r.IntN(len(able))]
}

// some chooses one process, or all.
func (a *arena) some(r *rand.Rand) []*member {
	if r.IntN(2) == 0 {
		return a.members
	}
	i := r.IntN(len(a.members))
	return a.members[i : i+1]
}

// locked makes a stream of random numbers safe for several goroutines.
func (a *arena) locked(r *rand.Rand) func() float64 {
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}

func (a *arena) note(format string, args ...any) {
	a.story = append(a.story, fmt.Sprintf("%6.2f s  ", time.Since(a.begun).Seconds())+fmt.Sprintf(format, args...))
}

// ending is the end of a disturbance.
type ending struct {
	at   time.Time
	name string
	do   func()
}

// play submits the experiment and plays the schedule until its end or the run's.
func (a *arena) play(w workspace) {
	a.files = w
	a.run = strings.TrimSpace(printed(a.t, a.coalmine(w, "submit", "experiment.yaml")))
	a.begun = time.Now()
	var endings []ending
	for _, f := range a.plan.faults {
		endings = a.waitUntil(a.begun.Add(f.at), endings)
		if a.over() {
			break
		}
		a.takeSnapshot()
		if end := f.kind.begin(a, f.random); end != nil {
			a.counts[f.kind.name]++
			a.note("%s for %s", f.kind.name, f.lasts.Round(10*time.Millisecond))
			endings = append(endings, ending{time.Now().Add(f.lasts), f.kind.name, end})
		}
	}
	for len(endings) > 0 || len(a.orders) > 0 {
		endings = a.waitUntil(time.Now().Add(tick), endings)
	}
	a.calm = time.Now()
	a.note("no more faults")
}

// tick is how often the test looks after the cluster.
const tick = 20 * time.Millisecond

// waitUntil tends the cluster until a moment, and returns the disturbances that
// have not ended by then. It returns early when the run is over.
func (a *arena) waitUntil(moment time.Time, endings []ending) []ending {
	for {
		now := time.Now()
		endings = slices.DeleteFunc(endings, func(e ending) bool {
			due := !e.at.After(now)
			if due {
				a.note("%s ends", e.name)
				e.do()
			}
			return due
		})
		for _, m := range a.members {
			m.tend()
		}
		a.tendOrders()
		if !now.Before(moment) {
			return endings
		}
		time.Sleep(tick)
	}
}

// over reports whether the run has ended by itself, as far as the store tells.
func (a *arena) over() bool {
	return a.settled(a.run, func(s *runs.State) bool { return s.Phase == runs.Done || s.Phase == runs.Failed })()
}

// coalmine is a command that uses the servers directly.
func (a *arena) coalmine(w workspace, args ...string) command {
	c := w.coalmine(args...)
	c.quiet = true
	c.env = a.environment(a.redis.Addr(), "")
	return c
}

// environment leads a process to the servers at these addresses; without an
// address of the S3 server, directly to it.
func (a *arena) environment(redis, s3 string) []string {
	env := append(slices.Clone(a.variables), "COALMINE_REDIS_URL=redis://"+redis+"/0")
	if a.s3 == nil {
		return append(env, "COALMINE_STORE_URL="+a.objects)
	}
	if s3 == "" {
		s3 = a.s3.Addr()
	}
	u := url.URL{Scheme: "s3", Host: a.s3.Bucket, Path: chaosBucketPrefix, RawQuery: url.Values{"endpoint": {"http://" + s3}}.Encode()}
	return append(append(env, "COALMINE_STORE_URL="+u.String()), a.s3.Env()...)
}

// takeSnapshot copies redis's files, to set it back to this moment later.
func (a *arena) takeSnapshot() {
	to := filepath.Join(a.t.TempDir(), "snapshot")
	if os.CopyFS(to, os.DirFS(a.redis.Dir)) == nil { // a file may go while it is copied
		a.snapshot = to
	}
}

// replaceRedisFiles puts those of another directory in their place, or none.
func (a *arena) replaceRedisFiles(from string) {
	entries := must.Get(os.ReadDir(a.redis.Dir))(a.t)
	for _, e := range entries {
		must.Do(a.t, os.RemoveAll(filepath.Join(a.redis.Dir, e.Name())))
	}
	if from == "" {
		return
	}
	must.Do(a.t, os.CopyFS(a.redis.Dir, os.DirFS(from)))
}

func (a *arena) flushRedis() {
	conn := must.Get(net.Dial("tcp", a.redis.Addr()))(a.t)
	defer conn.Close()
	must.Get(conn.Write([]byte("FLUSHALL\r\n")))(a.t)
	answer := make([]byte, 3)
	if _, err := conn.Read(answer); err != nil || string(answer) != "+OK" {
		a.t.Fatalf("FLUSHALL: %q, %v", answer, err)
	}
}
