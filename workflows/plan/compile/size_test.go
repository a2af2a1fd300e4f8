package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

// single is a file of one cell.
const single = `
name: single
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 2, user_probability: [1/5], example_probability: [10%, 100%], held_back: 2}
model: {embedding: 6, units: 8}
training: {rounds: 4, cohort: 6, chunks: 2, client: {learning_rate: 0.5}}
audit: {every: 1, random_sampling: {references: 500}, beam_search: {width: 3}}
`

// The count is the number of nodes, and one for every measurement, which the report lists.
func TestCellSizeMatchesPlan(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{
		nil,
		{"audit.every=null"},
		{"audit=null"},
		{"training.rounds=50", "audit.every=3"},
		{"training.rounds=50", "audit.every=10%", "canaries.per_configuration=9"},
		{"audit.utility=false", "audit.random_sampling=null"},
		{"canaries=null", "audit.random_sampling=null", "audit.beam_search=null", "training.rounds=30"},
		{"training.algorithm=sgd", "training.chunks=null", "training.steps_per_task=7", "training.rounds=100", "audit.every=3"},
		{"training.algorithm=sgd", "training.chunks=null", "training.steps_per_task=7", "training.rounds=100", "audit.every=30"},
		{"training.rounds=100", "audit={at: [1, 30%, 77]}"},
		{"data.partition=iid"},
		{"training.rounds=2000", "training.record={}"},
	} {
		t.Run(strings.Join(sets, " "), func(t *testing.T) {
			t.Parallel()
			spec := plantest.Resolve(t, single, []storage.Digest{storage.DigestOf(nil)}, sets...)
			p := must.Get(compile.Plan(spec))(t)
			size, listed, err := compile.SizeOfFirst(spec)
			must.Do(t, err)
			if nodes := float64(len(p.Nodes)); size-listed < nodes || size-listed > nodes+listed+10 {
				t.Errorf("counted %v nodes and %v measurements, the plan has %v", size-listed, listed, nodes)
			}
		})
	}
}

// list is a YAML list of n different numbers.
func list(n int, format string) string {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf(format, i+1))
	}
	return "[" + strings.Join(values, ", ") + "]"
}

func TestLargePlansAreRejectedInOneSentence(t *testing.T) {
	t.Parallel()
	for want, sets := range map[string][]string{
		"test.yaml:7:16: audit.every: gives 1000000 measurements (training.rounds 1000000, audit.every 1) of 12 tasks each, 12000009 tasks in total; expected at most 1000000 in a plan": {"training.rounds=1000000"},
		"training.rounds: gives 1000000000 steps, which are sequential tasks; expected at most 20000000 in a plan":                                                                       {"training.rounds=1000000000", "audit.every=null"},
		"canaries: request 1200002 canaries": {"canaries.per_configuration=10000", "data.vocabulary.size=9000000", "canaries.example_probability=" + list(120, "%d/1000")},
		"grid: has 1000 cells of 1209 tasks on average, 1209000 tasks in total; expected at most 1000000 in a plan: use fewer values": {"grid.axes.seed=" + list(1000, "%d"), "training.rounds=100", "audit.every=1"},
		"grid: has 300 cells with 300000000 steps of training in total (training.rounds); expected at most 20000000":                  {"grid.axes.seed=" + list(300, "%d"), "training.rounds=1000000", "audit.every=null"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			spec, err := experiment.Parse("test.yaml", []byte(single), experiment.Options{Sets: sets})
			must.Do(t, err)
			_, err = compile.Plan(spec)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant one sentence with %q", err, want)
			}
		})
	}
}

func TestSharedTrainingIsCountedOnce(t *testing.T) {
	t.Parallel()
	spec := plantest.Resolve(t, single, []storage.Digest{storage.DigestOf(nil)}, "training.rounds=100000", "audit.every=null", "grid.axes.audit.every="+list(300, "%d0000"))
	if err := compile.CheckSize(spec); err != nil {
		t.Error(err)
	}
}
