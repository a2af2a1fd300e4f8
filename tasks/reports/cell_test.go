package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/population"
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
	edges = append(edges, taskstest.In(PopulationInput, node("population", population.PartitionMetrics{
		Counts: population.Counts{Users: 392_000, Examples: 93_000_000, Words: 784_000_000}, ReplacedExamples: 73_000,
	}, nil)))
	placed := []population.Placement{
		{Canary: population.Canary{Tokens: []int32{5, 6}, Words: []string{"a", "b"}, UserProbability: "1/5000", ExampleProbability: "1/10"}, Users: 3, Holders: 2, Insertions: 7},
		{Canary: population.Canary{Number: 1, Tokens: []int32{7, 6}, Words: []string{"c", "b"}, UserProbability: "1/50", ExampleProbability: "1"}},
		{Canary: population.Canary{Number: 2, Tokens: []int32{8, 6}, Words: []string{"d", "b"}, HeldBack: true}},
	}
	list := must.Get(json.Marshal(placed))(t)
	edges = append(edges, taskstest.In(PlacementsInput, node("placements", nil, map[string][]byte{population.CanariesBlob: list})))
	for _, m := range []struct{ round, memorized int }{{3920, 7}, {7840, 12}} {
		sampling, useful := AuditInput("random_sampling", m.round), AuditInput(Utility, m.round)
		edges = append(edges,
			taskstest.In(sampling, node(sampling, map[string]int{"random_sampling_memorized": m.memorized}, map[string][]byte{
				"verdict":  fmt.Appendf(nil, `{"memorized":%d,"of":90}`, m.memorized),
				"outcomes": []byte(`[{"rank":1,"likeness":0.5},{"rank":2},{"rank":3}]`),
			})),
			taskstest.In(useful, node(useful, map[string]any{"perplexity": 70 - m.memorized}, nil)))
	}
	edges = append(edges, taskstest.In(AuditInput("one_run", 7840), node("coins", nil, map[string][]byte{"verdict": []byte(`{"epsilon_lower":1.5}`)})))
	return g, edges
}

// papers is the DP-FedAvg training of Thakkar et al. 2020, Table 2.
func papers() CellParams {
	return CellParams{
		Training: TrainingParams{
			Algorithm: "fedavg", Rounds: 7840, Cohort: 5000, Partition: population.ByUser, Sampling: "fixed-size",
			Clip: 0.2, NoiseMultiplier: 1, Delta: 1e-7,
		},
		Measured: []int{3920, 7840},
		Audits: []AuditParams{
			{Name: "random_sampling", OutcomeBlob: "verdict", CanaryOutcomesBlob: "outcomes"}, {Name: Utility},
			{Name: "one_run", AtEnd: true, OutcomeBlob: "verdict"},
		},
	}
}

func run(t *testing.T, p CellParams) (Report, *taskstest.Node) {
	t.Helper()
	g, edges := measured(t)
	n := g.Run(Cell, p, edges...)
	var r Report
	must.Do(t, json.Unmarshal(n.Blob(CellBlob), &r))
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
	tight := papers()
	tight.Training.Accountant = privacy.Tightest
	r, _ = run(t, tight)
	if got := math.Round(10 * float64(r.Privacy.EpsilonProved)); got != 717 || r.Privacy.AccountantProved != privacy.PLD || !r.Privacy.LossDistribution.PapersRefuted {
		t.Errorf("report %+v, want 71.7 proved by the loss distribution, and the convention refuted", r.Privacy)
	}
	if r.Privacy.Unit != "balanced user" || r.Privacy.HoldsAgainst == "" {
		t.Errorf("the report says %q and holds against %q", r.Privacy.Unit, r.Privacy.HoldsAgainst)
	}
	if math.Abs(r.Training.Epochs-100) > 1e-9 {
		t.Errorf("%v epochs, want 100", r.Training.Epochs)
	}
}

func TestReportUsesLastMeasurement(t *testing.T) {
	t.Parallel()
	r, _ := run(t, papers())
	for audit, want := range map[string]string{
		"random_sampling": `{"memorized":12,"of":90}`, Utility: `{"perplexity":58}`, "one_run": `{"epsilon_lower":1.5}`,
	} {
		if got, _ := r.Outcome(audit); string(got) != want {
			t.Errorf("%s: %s, want %s", audit, got, want)
		}
	}
	if _, there := r.Outcome("membership"); there {
		t.Error("an audit that has measured nothing has an outcome")
	}
	first, ok := r.Curve[0].Metric("random_sampling_memorized")
	if len(r.Curve) != 2 || r.Curve[0].Round != 3920 || !ok || first != 7 || string(r.Curve[0].Utility) != `{"perplexity":63}` || r.Curve[0].Privacy == nil {
		t.Errorf("curve %+v", r.Curve)
	}
}

func TestReportCountsPlantedFaults(t *testing.T) {
	t.Parallel()
	g, edges := measured(t)
	source := g.Put("source", nil)
	source.Metrics = []byte(`{"users":3,"faults":[{"fault":"join-words","users":2,"examples":9,"changed":8}]}`)
	var r Report
	must.Do(t, json.Unmarshal(g.Run(Cell, papers(), append(edges, taskstest.In(FaultsInput, source))...).Blob(CellBlob), &r))
	if want := (faults.Count{Fault: faults.JoinWords, Users: 2, Examples: 9, Changed: 8}); len(r.Faults) != 1 || r.Faults[0] != want {
		t.Errorf("the report has %+v, want %+v", r.Faults, want)
	}
}

func TestReportCountsRecordedUpdates(t *testing.T) {
	t.Parallel()
	g, edges := measured(t)
	for i := range 2 {
		gathered := g.Put(RecordedInput(i), nil)
		gathered.Metrics = []byte(`{"layout":{"layers":[{"name":"a","values":5},{"name":"b","values":2,"of":9}]},"rounds":3,"updates":12,"shards":[1],"bytes":500}`)
		edges = append(edges, taskstest.In(RecordedInput(i), gathered))
	}
	var r Report
	must.Do(t, json.Unmarshal(g.Run(Cell, papers(), edges...).Blob(CellBlob), &r))
	if r.Recorded == nil || r.Recorded.Rounds != 6 || r.Recorded.Updates != 24 || r.Recorded.Bytes != 1000 || r.Recorded.Values != 7 || len(r.Recorded.Layers) != 2 {
		t.Errorf("the report has %+v", r.Recorded)
	}
}

func TestCanariesHaveOutcomesOfAllAudits(t *testing.T) {
	t.Parallel()
	_, n := run(t, papers())
	nulls := `"rank_exact":null,"log_perplexity":null,"exposure":null,"exposure_se":null,"exposure_censored":null,"memorized":null,"beam_found":null`
	want := `"canaries":[{"words":["a","b"],"user_probability":0.0002,"example_probability":0.1,"users":3,"holders":2,"insertions":7,"rank":1,` + nulls + `,"likeness":0.5}],` +
		`"never_inserted":[{"words":["c","b"],"user_probability":0.02,"example_probability":1,"users":0,"holders":0,"insertions":0,"rank":2,` + nulls + `}],` +
		`"controls":[{"words":["d","b"],"user_probability":0,"example_probability":0,"users":0,"holders":0,"insertions":0,"rank":3,` + nulls + `}]}`
	if got := string(n.Blob(CellBlob)); !strings.Contains(got, want) {
		t.Errorf("report\n%s\nwant\n%s", got, want)
	}
}

func TestReportRoundTrip(t *testing.T) {
	t.Parallel()
	r, n := run(t, papers())
	again, err := json.Marshal(r)
	if err != nil || string(again) != string(n.Blob(CellBlob)) {
		t.Errorf("%v, report\n%s\nbecame\n%s", err, n.Blob(CellBlob), again)
	}
}

func TestReportWithoutCanaryAuditsListsNoCanaries(t *testing.T) {
	t.Parallel()
	p := papers()
	p.Audits = p.Audits[1:2]
	r, _ := run(t, p)
	if r.Audit != nil || r.Utility == nil {
		t.Errorf("audit %+v, utility %s", r.Audit, r.Utility)
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

func TestReportWithoutClippingClaimsNoPrivacy(t *testing.T) {
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
