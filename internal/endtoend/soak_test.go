//go:build linux

package endtoend_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/must"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

var soakRounds = flag.Int("soak.rounds", 0, "rounds of the soak test; 0 leaves it out")

// soakExperiment trains one small model for a long time.
const soakExperiment = `
name: soak
data: {source: text.jsonl, vocabulary: {size: 300}, users: {words: 100}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%%, example_probability: [20%%, 100%%], held_back: 2}
model: {embedding: 32, units: 32}
training: {rounds: %d, cohort: 4, chunks: 2, checkpoints: {every: 5%%, keep: 3}, client: {learning_rate: 1}}
audit: {every: 25%%, random_sampling: {references: 500}, beam_search: {width: 2}}
`

// sample is the resources of a process when the training had reached a round.
type sample struct {
	round int
	vitals
}

// The memory of coordinator and workers does not grow with the rounds.
//
// make soak trains 2,000 rounds, looks at the processes every second, and prints
// by how much each has grown per 1,000 rounds: the slope of a line through all
// samples after the first quarter, by least squares.
func TestSoak(t *testing.T) {
	if *soakRounds == 0 {
		t.Skip("it takes minutes: make soak")
	}
	a := newArena(t, schedule{workers: 2})
	// A worker's cache grows up to a limit, which it must reach while warming up.
	a.workerArguments = []string{"--cache-memory", "32"}
	// Up to 32 MiB of garbage would hide the memory that stays.
	a.variables = []string{"GOGC=100"}
	for _, m := range a.members {
		m.start()
		m.process.await("it is at work", m.ready)
	}
	w := newChaosWorkspace(t)
	w.write("experiment.yaml", fmt.Sprintf(soakExperiment, *soakRounds))
	a.play(w)
	samples := a.soak()
	fmt.Fprintf(os.Stdout, "%d rounds on %s; in brackets the growth per 1,000 rounds\n%-14s %8s %22s %22s %12s %12s\n", *soakRounds, a.archive,
		"process", "samples", "resident MiB", "heap MiB", "goroutines", "descriptors")
	for _, m := range a.members {
		printGrowth(t, m.name, samples[m])
	}
	a.stop()
}

// soak samples all processes until the run is done.
func (a *arena) soak() map[*member][]sample {
	samples := map[*member][]sample{}
	for !a.over() {
		a.waitUntil(time.Now().Add(time.Second), nil)
		round := must.Get(a.round())(a.t)
		for _, m := range a.members {
			samples[m] = append(samples[m], sample{round, m.vitals()})
		}
	}
	if run, err := runs.NewService(a.archive, nil).Get(context.Background(), a.run); err != nil || run.State.Phase != runs.Done {
		a.t.Fatalf("the run has not ended well: %v: %s", err, a.status())
	}
	return samples
}

// round is the last round of the run's only cell.
func (a *arena) round() (int, error) {
	body, err := a.members[0].get("/api/v1/runs/" + a.run)
	if err != nil {
		return 0, err
	}
	var status status.Run
	if err := json.Unmarshal(body, &status); err != nil || len(status.Cells) != 1 {
		return 0, fmt.Errorf("the status of a run with one cell: %v\n%s", err, body) //nolint:errorlint // may be nil
	}
	return status.Cells[0].Step, nil
}

// maxGrowth is the slope of a process's heap, in bytes per 1,000 rounds, above
// which something is kept for every round.
const maxGrowth = 2 << 20

func printGrowth(t *testing.T, name string, samples []sample) {
	t.Helper()
	var rounds []float64
	var steady []vitals
	for _, s := range samples {
		if s.round >= *soakRounds/4 && s.round < *soakRounds {
			rounds, steady = append(rounds, float64(s.round)/1000), append(steady, s.vitals)
		}
	}
	if len(rounds) < 3 {
		t.Fatalf("%s: %d samples after warm-up are too few for a line", name, len(rounds))
	}
	line := func(of func(vitals) float64) (mean, slope float64) {
		values := make([]float64, len(steady))
		for i, v := range steady {
			values[i] = of(v)
		}
		_, slope = stat.LinearRegression(rounds, values, nil, false)
		return stat.Mean(values, nil), slope
	}
	var columns []string
	for _, of := range []func(vitals) float64{
		func(v vitals) float64 { return v.resident / (1 << 20) }, func(v vitals) float64 { return v.heap / (1 << 20) },
		func(v vitals) float64 { return v.goroutines }, func(v vitals) float64 { return v.descriptors },
	} {
		mean, slope := line(of)
		columns = append(columns, fmt.Sprintf("%8.1f (%+.2f)", mean, slope))
	}
	fmt.Fprintf(os.Stdout, "%-14s %8d %s\n", name, len(rounds), strings.Join(columns, "  "))
	if _, slope := line(func(v vitals) float64 { return v.heap }); slope > maxGrowth {
		t.Errorf("the heap of %s grows by %.1f MiB per 1,000 rounds", name, slope/(1<<20))
	}
}
