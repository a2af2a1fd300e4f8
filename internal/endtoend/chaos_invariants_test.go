//go:build linux

package endtoend_test

import (
	"context"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// chaosPatience is how long a run may take once nothing disturbs it any more.
const chaosPatience = 3 * time.Minute

// awaitEnd waits until the run has ended, and all processes are at work and idle.
func (a *arena) awaitEnd() {
	deadline := time.Now().Add(chaosPatience)
	for len(a.orders) > 0 || !a.over() || !a.quiet() || a.retryIfFailed() {
		a.waitUntil(time.Now().Add(5*tick), nil)
		if a.t.Failed() {
			a.t.FailNow()
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("the run has not ended %s after the last fault: %s", chaosPatience, a.status())
		}
	}
	a.recovered = time.Since(a.calm)
	run := must.Get(runs.NewService(a.archive, nil).Get(context.Background(), a.run))(a.t)
	if run.State.Phase != runs.Done {
		a.t.Fatalf("the run is %s, not done: %s", run.State.Phase, a.status())
	}
}

// retryIfFailed acts as an operator who has lost the source and put it back,
// and reports whether that was needed: an attempt may have missed it that
// failed only after the first retry.
func (a *arena) retryIfFailed() bool {
	run := must.Get(runs.NewService(a.archive, nil).Get(context.Background(), a.run))(a.t)
	failed := a.counts[sourceLost] > 0 && run.State.Phase == runs.Failed
	if failed {
		a.retry()
	}
	return failed
}

func (a *arena) status() string {
	r := run(a.t, a.coalmine(workspace{a.t, a.dir}, "status", a.run, "--json"))
	return r.stdout + r.stderr
}

// quiet reports whether all processes are at work and no worker has a task.
func (a *arena) quiet() bool {
	for _, m := range a.members {
		if !m.ready() {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := queue.Open(ctx, "redis://"+a.redis.Addr())
	if err != nil {
		return false
	}
	defer conn.Close()
	workers, err := conn.Broker().Workers(ctx)
	busy := slices.ContainsFunc(workers, func(w queue.Worker) bool { return len(w.Running) > 0 || w.Draining })
	return err == nil && !busy && len(workers) == a.plan.workers
}

// check compares the run's outputs with the undisturbed ones, and accounts for
// every object.
func (a *arena) check(w workspace, want *outcome) {
	results := printed(a.t, a.coalmine(w, "results", a.run, "--format", "json"))
	if results != want.results {
		a.t.Errorf("the results differ; got:\n%s\nwant:\n%s", results, want.results)
	}
	commits := a.readCommits()
	for name, c := range want.commits {
		switch got := commits[c.Key]; {
		case got == nil:
			a.t.Errorf("%s has no record", name)
		case c.Differs(got) != "":
			a.t.Errorf("%s: %s", name, c.Differs(got))
		}
	}
	a.checkTargets(commits)
	a.checkObjects()
	a.checkLogs()
	for _, wrong := range a.puts.wrong() {
		a.t.Error(wrong)
	}
}

// readCommits reads every record in the store.
func (a *arena) readCommits() map[storage.Key]*storage.Commit {
	return allCommits(a.t, a.archive)
}

// checkTargets reads all that the run wanted; the archive compares digests.
func (a *arena) checkTargets(commits map[storage.Key]*storage.Commit) {
	run := must.Get(runs.NewService(a.archive, nil).Get(context.Background(), a.run))(a.t)
	for _, cell := range runPlan(a.t, run).Cells {
		for _, target := range []storage.Key{cell.Report.Key, cell.Model.Key} {
			c := commits[target]
			if c == nil {
				a.t.Errorf("a target of %s has no record", cell.Name)
				continue
			}
			for _, b := range c.Blobs {
				if _, err := a.archive.ReadBlob(context.Background(), c.Key, b); err != nil && !a.wasHarmed(c.Key, b.Digest) {
					a.t.Errorf("a target of %s: %v", cell.Name, err)
				}
			}
		}
	}
}

// strayGrace is the time in which the leader must delete the objects that it still knows
// of.
const strayGrace = 5 * time.Second

// checkObjects lists the store and accounts for every object.
func (a *arena) checkObjects() {
	deadline := time.Now().Add(strayGrace)
	for {
		unknown, left := a.account()
		if len(unknown) == 0 && (len(left) <= a.strayLimit() || time.Now().After(deadline)) || time.Now().After(deadline) {
			for _, name := range unknown {
				a.t.Errorf("nothing explains the object %s", name)
			}
			if len(left) > a.strayLimit() {
				a.t.Errorf("%d objects are left for garbage collection, at most %d can be explained:\n%s", len(left), a.strayLimit(), strings.Join(left, "\n"))
			}
			a.left = len(left)
			return
		}
		time.Sleep(5 * tick)
	}
}

// strayLimit bounds the objects that only garbage collection finds: an attempt
// that was given up may store its outputs and its record again after the leader
// has deleted them, and report that to nobody; a process killed at its start
// may leave the object with which it tries the store. Each disturbance can make
// so of every attempt at work at that moment.
func (a *arena) strayLimit() int {
	disturbances := 0
	for _, n := range a.counts {
		disturbances += n
	}
	return 3 * disturbances * a.plan.workers
}

// account sorts the objects of the store: those that nothing explains, and those
// that garbage collection is to find.
func (a *arena) account() (unknown, left []string) {
	all := must.Get(runs.NewService(a.archive, nil).List(context.Background()))(a.t)
	known, ids := map[storage.Key]lasting{}, map[string]bool{}
	commits := a.readCommits()
	for _, run := range all {
		ids[run.ID] = true
		addKnown(known, runPlan(a.t, run), commits)
	}
	sources := 0
	for info, err := range a.archive.Store().List(context.Background(), "") {
		if err != nil {
			a.t.Fatal(err)
		}
		top, rest, _ := strings.Cut(info.Name, "/")
		switch top {
		case "runs":
			if id, _, _ := strings.Cut(rest, "/"); !ids[id] {
				unknown = append(unknown, info.Name)
			}
		case "leader":
		case "sources":
			if sources++; sources > a.sources {
				unknown = append(unknown, info.Name)
			}
		case "probe":
			left = append(left, info.Name)
		case "commits", "blobs", "logs", "unfinished":
			if id, ofRun, _ := strings.Cut(rest, "/"); top == "logs" && ids[id] {
				rest = ofRun
			}
			text, _, _ := strings.Cut(rest, "/")
			key, err := storage.ParseKey(text)
			state, ok := known[key]
			switch {
			case err != nil || !ok:
				unknown = append(unknown, info.Name)
			case top == "commits" && !state.record, top == "blobs" && !state.blobs, top == "unfinished":
				left = append(left, info.Name)
			}
		default:
			unknown = append(unknown, info.Name)
		}
	}
	return unknown, left
}

// lasting tells which objects of a node are in the store when its run has ended.
type lasting struct{ record, blobs bool }

// addKnown adds all nodes of a plan whose chains have less than a segment. The
// newest checkpoint of each stays too: of a run that was cancelled it is the one
// from which it, or a longer run, goes on.
func addKnown(known map[storage.Key]lasting, p *plan.Plan, commits map[storage.Key]*storage.Commit) {
	for key := range p.Nodes {
		known[key] = lasting{true, true}
	}
	for _, c := range p.Chains {
		newest := 0
		for r := 1; r <= c.Steps; r++ {
			if commits[c.Key(r)] != nil {
				newest = r
			}
		}
		for r := 1; r <= c.Steps; r++ {
			for j := range c.Width {
				known[c.PartKey(r, j)] = lasting{}
			}
			kept := known[c.Key(r)].blobs || r == newest || keepsCheckpoint(c, r, newest)
			known[c.Key(r)] = lasting{record: true, blobs: kept}
		}
	}
}

// keepsCheckpoint reports whether a checkpoint outlives a training that has come as far as
// newest, or was cancelled there: named, or in the rolling window.
func keepsCheckpoint(c *plan.Chain, r, newest int) bool {
	if slices.Contains(c.Keep, r) {
		return true
	}
	return c.Every > 0 && r%c.Every == 0 && r <= newest && newest/c.Every-r/c.Every < c.KeepLast
}

// checkLogs looks for messages that no process may log.
func (a *arena) checkLogs() {
	for _, words := range []string{"not deterministic", "panic", "DATA RACE"} {
		for _, log := range a.logs() {
			text := must.Get(os.ReadFile(log))(a.t)
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, words) {
					a.t.Errorf("%s: %s", filepath.Base(log), line)
				}
			}
		}
	}
}

func (a *arena) logs() []string {
	return must.Get(filepath.Glob(filepath.Join(a.dir, "*.log")))(a.t)
}

// Resources of an idle process: up to 64 connections to S3 that package s3 keeps open after a burst of requests, up
// to 20 to Redis (ten a core), two goroutines for each of them, those that wait for work, and some more.
const (
	maxDescriptors = 100
	maxGoroutines  = 200
)

// checkVitals makes sure that no process holds on to broken connections, or to
// goroutines that wait for them.
func (a *arena) checkVitals() {
	for _, m := range a.members {
		v := m.vitals()
		a.descriptors, a.goroutines = max(a.descriptors, int(v.descriptors)), max(a.goroutines, int(v.goroutines))
		if v.descriptors > maxDescriptors || v.goroutines > maxGoroutines {
			a.t.Errorf("%s has %.0f open files and connections and %.0f goroutines, explained are %d and %d",
				m.name, v.descriptors, v.goroutines, maxDescriptors, maxGoroutines)
		}
	}
}

// collect has garbage collection delete unneeded objects, which must be exactly
// those that account has found. Only objects with which processes that were
// killed have tried the store wait for another day.
func (a *arena) collect(w workspace, want *outcome) {
	printed(a.t, a.coalmine(w, "gc", "--older", "0s"))
	_, left := a.account()
	for _, name := range left {
		if !strings.HasPrefix(name, "probe/") {
			a.t.Errorf("garbage collection has left %s", name)
		}
	}
	if results := printed(a.t, a.coalmine(w, "results", a.run, "--format", "json")); results != want.results {
		a.t.Errorf("the results differ after garbage collection:\n%s", results)
	}
	a.checkTargets(a.readCommits())
}

// stop ends all processes as a service manager does.
func (a *arena) stop() {
	for _, m := range a.members {
		m.terminate()
	}
	for _, m := range a.members {
		if code := m.process.wait(); !m.obeyed() {
			a.t.Errorf("%s ended with %d when it was asked to end", m.name, code)
		}
	}
}

// commitWatch sees that no record is made twice. A record that was removed may
// be made again.
type commitWatch struct {
	mu     sync.Mutex
	stands map[string]bool
	twice  []string
}

// see is told of every request that an S3 server has answered.
func (w *commitWatch) see(r *http.Request, status int) {
	dir, key := path.Split(r.URL.Path)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stands == nil {
		w.stands = map[string]bool{}
	}
	switch {
	case r.Method == http.MethodPost: // deletes many, in its body
		clear(w.stands)
	case !strings.HasSuffix(dir, "/commits/"):
	case r.Method == http.MethodDelete:
		delete(w.stands, key)
	case r.Method == http.MethodPut && status == http.StatusOK:
		if w.stands[key] {
			w.twice = append(w.twice, "the record "+key+" was made twice")
		}
		w.stands[key] = true
	}
}

func (w *commitWatch) wrong() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.twice
}
