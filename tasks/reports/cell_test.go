package reports

import (
	"encoding/json"
	"math"
	"testing"

	"coalmine/tasks/audits/summary"
	"coalmine/tasks/audits/utility"
	"coalmine/tasks/datasets"
	"coalmine/tasks/taskstest"
)

// measured is a graph with a population and two measurements.
func measured(t *testing.T) (g *taskstest.Graph, edges []taskstest.Edge) {
	t.Helper()
	g = taskstest.NewGraph(t)
	node := func(name string, metrics any, blobs map[string][]byte) *taskstest.Node {
		n := g.Put(name, blobs)
		var err error
		if n.Metrics, err = json.Marshal(metrics); err != nil {
			t.Fatal(err)
		}
		return n
	}
	edges = append(edges, taskstest.In(PopulationInput, node("population", datasets.PartitionMetrics{
		Counts: datasets.Counts{Users: 392_000, Examples: 93_000_000, Words: 784_000_000}, ReplacedExamples: 73_000,
	}, nil)))
	for round, memorized := range map[int]int{3920: 7, 7840: 12} {
		audit, err := json.Marshal(summary.Audit{RandomSampling: &summary.SamplingVerdict{Memorized: memorized, Of: 90, References: 2_000_000}})
		if err != nil {
			t.Fatal(err)
		}
		edges = append(edges,
			taskstest.In(AuditInput(round), node(AuditInput(round), nil, map[string][]byte{summary.SummaryBlob: audit})),
			taskstest.In(UtilityInput(round), node(UtilityInput(round), utility.Utility{RecallAt1: 0.2, Perplexity: 70 - float64(memorized), Tokens: 9}, nil)))
	}
	return g, edges
}

// papers is the DP-FedAvg training of Thakkar et al. 2020, Table 2.
func papers() CellParams {
	return CellParams{
		Training: TrainingParams{
			Algorithm: "fedavg", Rounds: 7840, Cohort: 5000, Partition: datasets.ByUser, Sampling: "fixed-size",
			Clip: 0.2, NoiseMultiplier: 1, Delta: 1e-7,
		},
		Measured: []int{3920, 7840}, Audit: true, Utility: true,
	}
}

func run(t *testing.T, p CellParams) (Report, *taskstest.Node) {
	t.Helper()
	g, edges := measured(t)
	n := g.Run(Cell, p, edges...)
	var r Report
	if err := json.Unmarshal(n.Blob(CellBlob), &r); err != nil {
		t.Fatal(err)
	}
	return r, n
}

func TestAReportHasThePapersEpsilonAndTheProvedOne(t *testing.T) {
	t.Parallel()
	r, _ := run(t, papers())
	if got := math.Round(10*float64(r.Privacy.Epsilon)) / 10; got != 18.8 {
		t.Errorf("epsilon is %v, the paper's is 18.8", r.Privacy.Epsilon)
	}
	if got := math.Round(float64(r.Privacy.EpsilonProved)); got != 154 {
		t.Errorf("epsilon_proved is %v, want about 154", r.Privacy.EpsilonProved)
	}
	if r.Privacy.Unit != "balanced user" || r.Privacy.HoldsAgainst == "" {
		t.Errorf("the report says %q and holds against %q", r.Privacy.Unit, r.Privacy.HoldsAgainst)
	}
	if math.Abs(r.Training.Epochs-100) > 1e-9 {
		t.Errorf("%v epochs, want 100", r.Training.Epochs)
	}
}

func TestTheLastMeasurementStandsForTheCell(t *testing.T) {
	t.Parallel()
	r, _ := run(t, papers())
	if r.Audit.RandomSampling.Memorized != 12 || r.Utility.Perplexity != 58 {
		t.Errorf("the cell has %d memorized at perplexity %v, want those of the last round", r.Audit.RandomSampling.Memorized, r.Utility.Perplexity)
	}
	if len(r.Curve) != 2 || r.Curve[0].Round != 3920 || *r.Curve[0].RandomSamplingMemorized != 7 {
		t.Errorf("curve %+v", r.Curve)
	}
}

func TestClippingWithoutNoiseIsInfinite(t *testing.T) {
	t.Parallel()
	p := papers()
	p.Training.NoiseMultiplier, p.Training.Delta = 0, 0
	r, _ := run(t, p)
	if r.Privacy == nil || !r.Privacy.Infinite {
		t.Errorf("privacy %+v, want an infinite epsilon that says so", r.Privacy)
	}
}

func TestWithoutClippingNothingIsClaimed(t *testing.T) {
	t.Parallel()
	p := papers()
	p.Training.Clip, p.Training.NoiseMultiplier = 0, 0
	if r, _ := run(t, p); r.Privacy != nil {
		t.Errorf("privacy %+v of a training without clipping", r.Privacy)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	_, n := run(t, papers())
	taskstest.Golden(t, n)
}
