//go:build linux

package endtoend_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"coalmine/internal/must"
	"coalmine/workflows/runs"
)

// order is a command of an operator, given again and again until it is seen to
// have been followed: while Redis or the store is away commands fail, or succeed
// and say that they have failed. It MUST do no harm to give it twice.
type order struct {
	args     []string
	followed func() bool
	process  *process // nil until the order is given
	again    time.Time
}

// give has an operator give an order, after those that were given before.
func (a *arena) give(followed func() bool, args ...string) {
	a.orders = append(a.orders, &order{args: args, followed: followed})
}

// orderPause is how long an operator waits before an order is given again.
const orderPause = 300 * time.Millisecond

// tendOrders looks after the order that is being given.
func (a *arena) tendOrders() {
	if len(a.orders) == 0 {
		return
	}
	o := a.orders[0]
	switch {
	case o.process == nil && time.Now().After(o.again):
		c := a.coalmine(a.files, o.args...)
		c.log = filepath.Join(a.dir, "operator.log")
		o.process = start(a.t, c)
	case o.process == nil || !o.process.hasEnded():
	case o.followed():
		a.note("operator: %s", strings.Join(o.args, " "))
		a.orders = a.orders[1:]
	default:
		o.process, o.again = nil, time.Now().Add(orderPause)
	}
}

// storePatience is how long the test waits for a store that may be disturbed.
const storePatience = 200 * time.Millisecond

// settled reports whether the order to the run has been carried out or is void;
// false as long as the store does not tell.
func (a *arena) settled(name string, ok func(*runs.State) bool) func() bool {
	return func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), storePatience)
		defer cancel()
		run, err := runs.NewService(a.archive, nil).Get(ctx, name)
		return err == nil && ok(&run.State)
	}
}

// command returns an order to the run, with the state in which it was followed.
func (a *arena) command(verb string, ok func(*runs.State) bool) {
	a.give(a.settled(a.run, ok), verb, a.run)
}

// stopRun has the run stopped, by a verb that leads to a phase, and resumed. It
// may have ended before either.
func stopRun(verb string, phase runs.Phase) func(*arena, *rand.Rand) func() {
	return func(a *arena, _ *rand.Rand) func() {
		if !a.claim(runs.PauseEntry) {
			return nil
		}
		a.command(verb, func(s *runs.State) bool { return s.Phase == phase || s.Phase.Finished() })
		return func() {
			a.release(runs.PauseEntry)
			a.command("resume", func(s *runs.State) bool { return s.Phase != runs.Paused && s.Phase != runs.Cancelled })
		}
	}
}

func changePriority(a *arena, r *rand.Rand) func() {
	priority := r.IntN(21) - 10
	followed := a.settled(a.run, func(s *runs.State) bool { return s.Priority == priority })
	a.give(followed, "priority", "--", a.run, fmt.Sprint(priority))
	return done
}

// addSibling submits a run that shares nodes with the first, and cancels it.
func addSibling(a *arena, r *rand.Rand) func() {
	a.siblings++
	name := fmt.Sprintf("sibling-%d", a.siblings)
	rounds := 20 * (1 + r.IntN(4)) // it shares the trainings, not the audits
	a.give(func() bool { return a.runNamed(name) != nil }, "submit", "experiment.yaml",
		"--set", "name="+name, "--set", fmt.Sprintf("training.rounds=%d", rounds), "--priority", fmt.Sprint(r.IntN(3)-1))
	return func() {
		a.give(func() bool {
			sibling := a.runNamed(name)
			return sibling != nil && sibling.State.Phase.Finished()
		}, "cancel", name+"-")
	}
}

// runNamed is the run of an experiment, nil if there is none or the store does
// not tell.
func (a *arena) runNamed(experiment string) *runs.Run {
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	all, err := runs.NewService(a.archive, nil).List(ctx)
	if err != nil {
		return nil
	}
	for _, run := range all {
		if run.Spec.Name == experiment {
			return run
		}
	}
	return nil
}

// drainWorker has a worker drained, unless it ends before.
func drainWorker(a *arena, r *rand.Rand) func() {
	m := a.pick(r, workerRole)
	if m == nil {
		return nil
	}
	m.asked = true
	process := m.process
	a.give(process.hasEnded, "drain", m.workerID())
	return done
}

// startedWorker is where a worker says in its log who it is.
var startedWorker = regexp.MustCompile(`msg="worker started" worker=(\S+)`)

// workerID is that of a worker which is at work.
func (m *member) workerID() string {
	log, err := os.ReadFile(m.log())
	found := startedWorker.FindSubmatch(log)
	if err != nil || found == nil {
		m.arena.t.Fatalf("the log %s does not say who it is of: %v", m.log(), err)
	}
	return string(found[1])
}

// loseSource takes away the imported data and all that was made of it, in the
// workers' memory as well, so that the run fails. The data is given back, and the
// failed nodes are retried.
func loseSource(a *arena, _ *rand.Rand) func() {
	sources, err := filepath.Glob(filepath.Join(a.objects, "sources", "*"))
	if err != nil || len(sources) != 1 || !a.claim(a.objects) {
		return nil
	}
	hidden := filepath.Join(a.refuge(), "~source")
	if os.Rename(sources[0], hidden) != nil {
		a.release(a.objects)
		return nil
	}
	for _, path := range a.blobFiles() {
		if deleteFile(path) == nil { // others go by themselves meanwhile
			a.harmed[path] = true
		}
	}
	for _, m := range a.members {
		if m.role == workerRole && m.ready() && !a.claimed[m] {
			m.terminate()
		}
	}
	return func() {
		must.Do(a.t, os.Rename(hidden, sources[0]))
		a.release(a.objects)
		if run := a.runNamed(chaosName); run != nil {
			a.note("%d nodes have failed", len(run.State.Failures))
		}
		a.retry()
	}
}

// refuge is a directory on the file system of the objects, outside of them.
func (a *arena) refuge() string {
	if a.s3 != nil {
		return a.s3.Dir
	}
	return a.objects
}

// retry has the failed nodes of the run tried again.
func (a *arena) retry() {
	a.command("retry", func(s *runs.State) bool { return len(s.Failures) == 0 && s.Phase != runs.Failed })
}
