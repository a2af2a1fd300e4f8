package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
)

const labelledGrid = `
name: labels
seed: 1
data: {source: x.jsonl, vocabulary: {size: 100}}
model: {embedding: 5, units: 6}
training: {rounds: 3, cohort: 2, client: {learning_rate: 0.1}}
audit: {}
grid:
  include:
    - {training.client.learning_rate: 1}
    - {label: as deployed, training.client.learning_rate: 2, training.cohort: 3, training.chunks: 3}
    - {label: tried, training.client.learning_rate: 3}
    - {label: tried, training.client.learning_rate: 4}
`

func labels(t *testing.T, file string) (spec *Spec, labels []string) {
	t.Helper()
	spec = must.Get(Parse("labels.yaml", []byte(file), Options{}))(t)
	for i := range spec.Cells {
		labels = append(labels, spec.Cells[i].Label)
	}
	return spec, labels
}

func TestLabelReplacesSettings(t *testing.T) {
	t.Parallel()
	spec, got := labels(t, labelledGrid)
	want := []string{
		"b=2, training.client.learning_rate=0.1", "b=2, training.client.learning_rate=1", "as deployed",
		"tried, b=2, training.client.learning_rate=3", "tried, b=2, training.client.learning_rate=4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("labels %q, want %q", got, want)
	}
	if read, err := ReadSpec(spec.Canonical()); err != nil || read.Cells[2].Experiment.Label != "as deployed" {
		t.Errorf("the record has %+v (%v)", read, err)
	}
	for _, bad := range []string{`"a\nb"`, strings.Repeat("x", 81)} {
		_, err := Parse("labels.yaml", []byte(strings.Replace(labelledGrid, "as deployed", bad, 1)), Options{})
		must.Say(t, err, "expected at most 80 visible characters")
	}
}

// JSON leaves these zeros out. A field is absent only where its block is.
func TestLabelNamesZeroValues(t *testing.T) {
	t.Parallel()
	base := strings.Split(labelledGrid, "grid:")[0]
	for grid, want := range map[string][]string{
		"grid: {axes: {training: [{client: {dropout: 0}}, {client: {dropout: 0.5}}]}}":   {"training.client.dropout=0", "training.client.dropout=0.5"},
		"grid: {axes: {training: [{client: {dropout: 0.0}}, {client: {dropout: 0.5}}]}}": {"training.client.dropout=0", "training.client.dropout=0.5"},
		"grid: {axes: {training.client.dropout: [0.5, 0]}}":                              {"training.client.dropout=0.5", "training.client.dropout=0"},
		"grid: {include: [{training.client.dropout: 0.5}]}":                              {"training.client.dropout=0", "training.client.dropout=0.5"},
		"grid: {axes: {data.devices: [{iid: true}, {iid: false}]}}":                      {"data.devices.iid=true", "data.devices.iid=false"},
		"grid: {axes: {training.client.noise: [0, 0.5]}}":                                {"training.client.noise=0", "training.client.noise=0.5"},
		"grid: {axes: {training.quantize_bits: [null, 8]}}":                              {"no training.quantize_bits", "8-bit weights"},
		"grid: {axes: {training.privacy: [null, {clip: 1}]}}":                            {"FedAvg", "FedAvg+Clip"},
	} {
		spec, got := labels(t, base+grid)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "b=2, ")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: labels %q, want %q", grid, got, want)
		}
		resolveWith(t, spec)
		read, err := ReadSpec(spec.Canonical())
		if err == nil {
			err = read.Check()
		}
		if err != nil {
			t.Errorf("%s: %v", grid, err)
		}
	}
}

func TestUnlabelledFieldsAreListed(t *testing.T) {
	t.Parallel()
	grid := strings.Split(labelledGrid, "grid:")[0] + `
grid:
  axes:
    data.partition: [iid, by-user]
    training: [{algorithm: sgd, cohort: 4, client: {learning_rate: 2}}, {algorithm: fedavg}]
`
	spec, got := labels(t, grid)
	if want := []string{"iid, SGD, b=4", "iid, FedAvg, b=2", "by-user, SGD, b=4", "by-user, FedAvg, b=2"}; !slices.Equal(got, want) {
		t.Errorf("labels %q, want %q", got, want)
	}
	unlabelled := spec.Unlabelled()
	for path, want := range map[string]bool{
		"training.client.learning_rate": true, "training.chunks": true, "training.rounds": false,
		"training.algorithm": false, "training.cohort": false, "data.partition": false, "label": false,
	} {
		if slices.Contains(unlabelled, path) != want {
			t.Errorf("%s is listed: %t, want %t, in %q", path, !want, want, unlabelled)
		}
	}
	if alone, _ := labels(t, strings.Split(labelledGrid, "grid:")[0]); alone.Unlabelled() != nil {
		t.Errorf("one cell differs in %q", alone.Unlabelled())
	}
}

// Three canaries of each of four configurations: their shares add up to 147%.
func TestShareOfReplacedExamplesIsProbability(t *testing.T) {
	t.Parallel()
	probabilities := func(texts ...string) (list []numbers.Probability) {
		for _, text := range texts {
			p := must.Get(numbers.ParseProbability(text))(t)
			list = append(list, p)
		}
		return list
	}
	c := Canaries{UserProbability: probabilities("20%", "1/2"), ExampleProbability: probabilities("10%", "60%")}
	kept := 0.98 * 0.88 * 0.95 * 0.7
	want := 1 - kept*kept*kept
	if got := c.replaced(3, 1); math.Abs(got-want) > 1e-12 || fmt.Sprintf("%.2f", got) != "0.81" {
		t.Errorf("%g of the examples are replaced, want %g", got, want)
	}
	c = Canaries{UserProbability: probabilities("1"), ExampleProbability: probabilities("1")}
	if got := c.replaced(2, 1); got != 1 {
		t.Errorf("%g of the examples are replaced, want all", got)
	}
}

// Rounds that follow from epochs differ between seeds and settings; the file does not name them.
func TestRoundsFromEpochsAreNotListedAsDifference(t *testing.T) {
	t.Parallel()
	grid := strings.Replace(strings.Split(labelledGrid, "grid:")[0], "rounds: 3", "epochs: 2", 1) + "grid: {axes: {training.cohort: [2, 3]}, replicates: 2}\n"
	counted := func(rounds int) *Spec {
		spec, _ := labels(t, grid)
		for i := range spec.Cells {
			spec.Cells[i].Experiment.Training.Rounds = rounds + i
		}
		return spec
	}
	before, after := counted(40), counted(60)
	if got := before.Unlabelled(); slices.Contains(got, "training.rounds") {
		t.Errorf("labels are said to lack %q", got)
	}
	after.Cells[0].Experiment.Training.Epochs = 3
	if got := SpecDifferences(before, after); len(got) != 1 || got[0].String() != "training.epochs: 2 -> 3" {
		t.Errorf("the runs differ in %v, want training.epochs alone", got)
	}
}

func TestIntervalTextIsReadable(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{"[1,1e300]": " from 1 to 1e+300", "[0,9007199254740991]": " from 0 to 9007199254740991", "(0,1e9]": " above 0, at most 1000000000"} {
		if got := parseInterval(tag).String(); got != want {
			t.Errorf("%s reads %q, want %q", tag, got, want)
		}
	}
}

func TestLabelsNameAdapters(t *testing.T) {
	t.Parallel()
	spec := parse(t, "name: x\ndata: {source: a.jsonl}\nmodel: {kind: transformer, embedding: 16, heads: 4}\ntraining: {rounds: 10, cohort: 10, engine: pytorch}\naudit: {}\ngrid: {axes: {model.adapters: [null, {rank: 8}]}}\n")
	if got := spec.Cells[0].Label + "; " + spec.Cells[1].Label; got != "no adapters; adapters of rank 8" {
		t.Errorf("labels %q", got)
	}
}
