package filters_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

func (s secretive) half(half int) (*taskstest.Node, error) {
	return s.Try(filters.Half, filters.HalfParams{Seed: 5, Half: half}, taskstest.In(population.Input, s.population), taskstest.In(population.ShardsInput, s.parts))
}

// disagree runs the filter on losses that the test made, by record.
func (s secretive) disagree(threshold float64, first, second []float64) (*taskstest.Node, error) {
	return s.Try(filters.Disagree, filters.DisagreeParams{Seed: 5, Threshold: threshold},
		taskstest.In(population.Input, s.population), taskstest.In(population.ShardsInput, s.parts),
		taskstest.In(filters.LossesInput(0), s.Put("first", map[string][]byte{population.LossesBlob: population.EncodeLosses(first)})),
		taskstest.In(filters.LossesInput(1), s.Put("second", map[string][]byte{population.LossesBlob: population.EncodeLosses(second)})))
}

func (s secretive) textsOf(t *testing.T, node, shards *taskstest.Node) []string {
	t.Helper()
	p := must.Get(population.Open(t.Context(), s.Task(taskstest.In("p", node), taskstest.In("s", shards)), "p", "s"))(t)
	return s.texts(t, p)
}

func TestTheTwoHalvesShareNoRecordAndHaveAll(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	coins := seeds.Stream(5, seeds.Halves)
	var want [2][]string
	for _, text := range s.textsOf(t, s.population, s.parts) {
		half := coins.Uint64() % 2
		want[half] = append(want[half], text)
	}
	for half := range want {
		node := must.Get(s.half(half))(t)
		if got := s.textsOf(t, node, node); len(got) == 0 || !slices.Equal(got, want[half]) {
			t.Errorf("half %d is %q, want %q", half, got, want[half])
		}
	}
	if _, err := s.half(2); !tasks.IsPermanent(err) {
		t.Errorf("a third half: %v, want a permanent error", err)
	}
}

// The losses of the records of secretiveLines, with the canaries in the places of 0, 4
// and 6. Record 3 is at the threshold, and so is kept.
var (
	firstLosses  = []float64{1, 2, 4, 2, 1, 3, 1, 2}
	secondLosses = []float64{1.25, 2, 2, 2.5, 1.25, 3, 3, 2}
)

func TestSentencesOnWhichTheModelsDisagreeAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	node := must.Get(s.disagree(0.5, firstLosses, secondLosses))(t)
	all := s.textsOf(t, s.population, s.parts)
	if got, want := s.textsOf(t, node, node), slices.Concat(all[:2], all[3:6], all[7:]); !slices.Equal(got, want) {
		t.Errorf("the training texts are %q, want %q", got, want)
	}
	var found filters.Disagreement
	must.Do(t, json.Unmarshal(node.Blob(filters.DisagreementBlob), &found))
	coins, copies := seeds.Stream(5, seeds.Halves), [2][2]int{}
	for record := range 8 {
		half := coins.Uint64() % 2
		if canary := map[int]int{0: 1, 4: 1, 6: 2}[record]; canary > 0 {
			copies[canary-1][half]++
		}
	}
	want := filters.Disagreement{
		Threshold: 0.5, Sentences: filters.Removed{1, 5}, Configurations: []filters.RemovedConfiguration{{Removed: filters.Removed{1, 2}}},
		Canaries: []filters.DisagreedCanary{{0, copies[0], [2]float64{1, 1.25}, false}, {1, copies[1], [2]float64{1, 3}, true}},
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("the report is %+v, want %+v", found, want)
	}
}

func TestDisagreementReportSeparatesOneAndBothHalves(t *testing.T) {
	t.Parallel()
	d := filters.Disagreement{Sentences: filters.Removed{3, 90}, Canaries: []filters.DisagreedCanary{
		{Copies: [2]int{1, 0}, Removed: true}, {Copies: [2]int{0, 2}}, {Copies: [2]int{1, 1}}, {Copies: [2]int{0, 1}, Removed: true},
	}}
	want := "the disagreement filter removed 2 of 3 canaries whose copies are in one half, 0 of 1 with copies in both, and 3 of 90 other sentences"
	if got := d.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDisagreementFilterRejectsBadInput(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "a", "b")
	for want, try := range map[string]func() (*taskstest.Node, error){
		"more than 0": func() (*taskstest.Node, error) { return s.disagree(0, firstLosses, secondLosses) },
		"too few":     func() (*taskstest.Node, error) { return s.disagree(1, firstLosses, secondLosses[:3]) },
		"nothing is left": func() (*taskstest.Node, error) {
			return s.disagree(1, make([]float64, 8), []float64{9, 9, 9, 9, 9, 9, 9, 9})
		},
	} {
		_, err := try()
		must.Say(t, err, want)
	}
}

func TestGoldenDisagreement(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	half := must.Get(s.half(0))(t)
	taskstest.Golden(t, half)
	node := must.Get(s.disagree(0.5, firstLosses, secondLosses))(t)
	taskstest.Golden(t, node)
}
