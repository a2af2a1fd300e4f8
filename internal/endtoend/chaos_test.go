//go:build linux

package endtoend_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	chaosFirst = flag.Uint64("chaos.first", 1, "first seed of the chaos test")
	chaosSeeds = flag.Uint64("chaos.seeds", 0, "number of seeds that the chaos tests play; make check plays 3")
)

const chaosName = "chaos"

// chaosExperiment trains two small models, whose checkpoints and updates are too
// large to travel in records. Beside the checkpoints of the second are the buffers of its noise.
const chaosExperiment = `
name: ` + chaosName + `
data: {source: text.jsonl, vocabulary: {size: 300}, users: {words: 100}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%, example_probability: [20%, 100%], held_back: 2}
model: {embedding: 32, units: 32}
training: {rounds: 60, cohort: 4, chunks: 2, checkpoints: {every: 5, keep: 2}, client: {learning_rate: 1}}
audit: {every: 50%, random_sampling: {references: 500}, beam_search: {width: 2}}
grid:
  axes:
    training:
      - {algorithm: sgd, cohort: 4, steps_per_task: 1}
      - algorithm: fedavg
        sampling: separated
        separation: 20
        privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-3, mechanism: {kind: blt, buffers: 2}}
`

// chaosText is too much for its encoded form to travel in a record.
func chaosText() string { return randomText(400, 350) }

func newChaosWorkspace(t testing.TB) workspace {
	w := workspace{t, t.TempDir()}
	w.write("experiment.yaml", chaosExperiment)
	w.write("text.jsonl", chaosText())
	return w
}

// Anything may happen to any part of a cluster, at any time and as often as you
// like; the run ends with the bytes of a run that nothing has happened to.
//
// make chaos SEEDS=200 FIRST=1 plays many seeds; a failure says how to repeat it.
func TestChaos(t *testing.T) {
	t.Parallel()
	(&game{name: "native", kinds: faultKinds, workspace: newChaosWorkspace, sources: 1}).play(t)
}

// game is a set of schedules to play on clusters.
type game struct {
	name      string
	kinds     []*faultKind
	workspace func(testing.TB) workspace
	// sources is how many sources the experiment has, its code among them.
	sources int
	// programs says that workers run programs of the experiment.
	programs bool
}

// play plays the seeds of the flags, none by default.
func (g *game) play(t *testing.T) {
	if *chaosSeeds == 0 {
		t.Skip("make chaos plays seeds, and make check")
	}
	w := g.workspace(t)
	printed(t, w.coalmine("run", "experiment.yaml"))
	want := w.outcome()
	var total tally
	t.Run("seeds", func(t *testing.T) {
		for seed := *chaosFirst; seed < *chaosFirst+*chaosSeeds; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				total.add(g.playSeed(t, seed, want))
			})
		}
	})
	total.print(g.name)
}

func (g *game) playSeed(t *testing.T, seed uint64, want *outcome) map[string]int {
	began := time.Now()
	a := newArena(t, scheduleOf(seed, g.kinds))
	a.sources, a.programs = g.sources, g.programs
	t.Cleanup(func() { a.report(t, time.Since(began)) })
	for _, m := range a.members {
		m.start()
	}
	w := g.workspace(t)
	a.play(w)
	a.awaitEnd()
	a.check(w, want)
	a.checkVitals()
	a.stop()
	a.awaitPrograms("")
	a.collect(w, want)
	return a.counts
}

// report prints the seed's line, and if it failed how to repeat it.
func (a *arena) report(t *testing.T, took time.Duration) {
	verdict := "ok"
	t.Logf("what happened:\n%s", strings.Join(a.story, "\n"))
	if t.Failed() {
		verdict = "FAILED"
		t.Logf("the logs are in %s; repeat it by: make chaos SEEDS=1 FIRST=%d", a.dir, a.plan.seed)
	}
	n := 0
	for _, count := range a.counts {
		n += count
	}
	fmt.Fprintf(os.Stdout, "seed %4d  %s  %2d faults  %5.1f s, %4.1f s after the last  %2d descriptors  %3d goroutines  %2d left to collect  %s\n",
		a.plan.seed, &a.plan, n, took.Seconds(), a.recovered.Seconds(), a.descriptors, a.goroutines, a.left, verdict)
}

// tally counts the faults of many seeds.
type tally struct {
	mu     sync.Mutex
	seeds  int
	counts map[string]int
}

func (x *tally) add(counts map[string]int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.counts == nil {
		x.counts = map[string]int{}
	}
	x.seeds++
	for name, n := range counts {
		x.counts[name] += n
	}
}

func (x *tally) print(game string) {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(x.counts)) {
		fmt.Fprintf(os.Stdout, "%6d  %s\n", x.counts[name], name)
		total += x.counts[name]
	}
	fmt.Fprintf(os.Stdout, "%6d  faults in %d seeds that passed, %s\n", total, x.seeds, game)
}
