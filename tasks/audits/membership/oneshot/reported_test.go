package oneshot

import (
	"encoding/json"
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// told is a made-up training of others with the cosines.
func told(t *testing.T, g *taskstest.Graph, c external.Cosines) *taskstest.Node {
	t.Helper()
	data := must.Get(json.Marshal(c))(t)
	return g.Put("trained", map[string][]byte{external.FileBlob("one_shot.json"): data})
}

// waves are n cosines about a mean.
func waves(n int, mean float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = mean + math.Sin(float64(i))/50
	}
	return list
}

func TestReportedCosinesGiveEstimates(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	c := external.Cosines{Dimension: 5000, Unit: "example", Final: waves(40, 0.03), Largest: waves(40, 0.06), Unseen: waves(30, 0.02)}
	params := ReportParams{OneShot: external.OneShot{Canaries: 40, Unseen: 30, Final: true}, Delta: 1e-3}
	n := g.Run(ReportEstimator, params, taskstest.In(audits.ModelInput, told(t, g, c)))
	taskstest.Golden(t, n)
	var v Outcome
	must.Do(t, json.Unmarshal(n.Blob(OutcomeBlob), &v))
	final := must.Get(empirical.FinalIterate(c.Final, c.Dimension, params.Delta))(t)
	all := must.Get(empirical.AllIterates(c.Largest, c.Unseen, params.Delta))(t)
	if *v.Final != final || *v.AllIterates != all || len(v.Clients) != 70 || !v.Reported || v.Unit != "example" {
		t.Errorf("outcome %+v, %+v, %+v; want the estimates %+v and %+v", v, v.Final, v.AllIterates, final, all)
	}
}

func TestCosinesOfOtherCanariesAreRejected(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	node := told(t, g, external.Cosines{Dimension: 5000, Final: waves(40, 0.03)})
	if _, err := g.Try(ReportEstimator, ReportParams{OneShot: external.OneShot{Canaries: 41, Final: true}, Delta: 1e-3}, taskstest.In(audits.ModelInput, node)); !tasks.IsPermanent(err) {
		t.Errorf("got %v, want a permanent error", err)
	}
}
