package results

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/chart"
	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// figuresOfResults are the figures of results by their file names.
func figuresOfResults(t *testing.T, r *Results) map[string]*chart.Figure {
	t.Helper()
	figures := must.Get(r.Figures())(t)
	all := map[string]*chart.Figure{}
	for _, f := range figures {
		all[FileName(f.Title)] = f.Chart
	}
	return all
}

// kinds has a figure of every kind that audits and comparisons draw.
func kinds(t *testing.T) map[string]*chart.Figure {
	t.Helper()
	kinds := map[string]*chart.Figure{}
	replicates := figuresOfResults(t, replicated(t))
	for _, name := range []string{
		"mean-exposure-of-canaries-bits-by-data-partition", "utility-against-mean-exposure-of-canaries-bits",
		"mean-exposure-bits-by-copies-in-the-training-data", "exposure-in-bits-against-copies-c01",
	} {
		kinds[name] = replicates[name]
	}
	mapped := figuresOfResults(t, inspectedAndMapped())
	for name, f := range mapped {
		if strings.HasPrefix(name, "average-precision-of-mlp") && kinds["heat-map"] == nil {
			kinds["heat-map"] = f
		}
	}
	kinds["canaries-memorized-by-round-c01"] = mapped["canaries-memorized-by-round-c01"]
	curves := figuresOfResults(t, trained())
	for _, name := range []string{"loss-by-round-training", "canaries-memorized-by-round"} {
		kinds[name] = curves[name]
	}
	kinds["bars-and-intervals"] = &newDrawing(&audits.Figure{
		X: audits.Axis{Title: "position of the word", Max: 4}, Y: audits.Axis{Title: "words out of vocabulary (%)"}, Filled: "by the model itself",
		Bars: []audits.Bar{{From: 0.6, To: 1.4, Y: 12}, {From: 1.6, To: 2.4, Y: 7}, {From: 2.6, To: 3.4, Y: 5}}, Ranges: []audits.Range{{X: 1, Low: 9, High: 15.5}, {X: 2, Low: 4, High: 9}, {X: 3, Low: 3, High: 7}},
		Dots: []audits.Dot{{X: 1, Y: 10.5, Filled: true}},
	}, "c01").Figure
	precision := make([]float64, 100)
	for i := range precision {
		precision[i] = 1 / (1 + float64(i)/30)
	}
	kinds["precision-and-recall"] = &newDrawing(audits.PrecisionRecall("Precision and recall", "", precision, 0.05), "c01").Figure
	return kinds
}

// trained are two settings of three trainings each that were measured at two rounds.
func trained() *Results {
	r := &Results{Run: "curves"}
	for i := range 6 {
		c := attacked(fmt.Sprintf("c%02d", i+1), 0.2, 3, "training.privacy.clip", []string{"0.1", "10"}[i/3], "seed", fmt.Sprint(i%3+1))
		c.Label, c.LossUnit = []string{"clip 0.1", "clip 10"}[i/3], "nats per token"
		c.Row = &experiment.Row{Name: fmt.Sprintf("r%02d", i/3+1), Label: c.Label}
		c.Report.Curve = nil
		_ = json.Unmarshal(fmt.Appendf(nil, `{"audit": {"random_sampling": {"memorized": %d, "of": 90, "references": 1000}, "canaries": []}, "curve": [
			{"round": 50, "training_loss": %v, "random_sampling_memorized": %d}, {"round": 100, "training_loss": %v, "random_sampling_memorized": %d}]}`,
			8+i*i, 4.5-float64(i)/9, i*i, 4.1-float64(i)/7, 8+i*i), c.Report)
		r.Cells = append(r.Cells, c)
	}
	return r
}

// Look at a picture that changes: results.html and replicates.html show others.
func TestFiguresMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, f := range kinds(t) {
		if f == nil {
			t.Errorf("there is no figure %s", name)
			continue
		}
		if f.X.Title == "" || f.Y.Title == "" {
			t.Errorf("%s has no titles of its axes", name)
		}
		taskstest.File(t, filepath.Join("testdata", "figures", name+".svg"), f.SVG(chart.OneColumn))
	}
}

// By scipy.stats.t.ppf(0.975, 2): the mean of 8, 9 and 12 is 9.667 and its interval 4.496 to 14.838.
func TestSettingsAreMeansOfTheirTrainings(t *testing.T) {
	t.Parallel()
	f := figuresOfResults(t, trained())["canaries-memorized-by-round"]
	if f == nil || len(f.Series) != 2 || f.Series[0].Name != "clip 0.1" || len(f.Series[0].Points) != 2 {
		t.Fatalf("%+v", f)
	}
	if first := f.Series[0].Points[0]; first.Low != 0 {
		t.Errorf("the interval of 0, 1 and 4 canaries begins at %g, want 0", first.Low)
	}
	p := f.Series[0].Points[1]
	for _, pair := range [][2]float64{{p.X, 100}, {p.Y, 9.6667}, {p.Low, 4.4958}, {p.High, 14.8375}} {
		if math.Abs(pair[0]-pair[1]) > 1e-3 {
			t.Errorf("%+v: %g, want %g", p, pair[0], pair[1])
		}
	}
}

// Many settings make several figures with equal axes.
func TestManySettingsAreSplit(t *testing.T) {
	t.Parallel()
	lines := make([]chart.Series, 19)
	for i := range lines {
		lines[i] = chart.Series{Name: fmt.Sprint(i), Kind: chart.Line, Points: []chart.Point{{X: 1, Y: float64(i)}, {X: 2, Y: 3}}}
	}
	c := comparison{drawing: drawing{Figure: chart.Figure{Title: "loss by round"}}}
	parts := c.split(lines)
	if len(parts) != 3 || len(parts[2].Series) != 3 || parts[1].Title != "loss by round, part 2" || parts[0].Y.Range != (chart.Range{High: 18}) || parts[2].Y.Range != parts[0].Y.Range {
		t.Errorf("%d parts, the last %+v", len(parts), parts[len(parts)-1])
	}
}

// Trainings of equally many epochs end after different numbers of steps.
func TestCurvesAverageTrainingsThatEndAtDifferentRounds(t *testing.T) {
	t.Parallel()
	r := trained()
	for i := range r.Cells {
		r.Cells[i].Report.Curve[1].Round += i % 3
	}
	f := figuresOfResults(t, r)["canaries-memorized-by-round"]
	if p := f.Series[0].Points; len(p) != 2 || p[1].X != 101 || math.Abs(p[1].Y-9.6667) > 1e-3 || math.Abs(p[1].High-14.8375) > 1e-3 {
		t.Errorf("the points are %+v, want the mean of 8, 9 and 12 at round 101", p)
	}
	r.Cells[0].Report.Curve = r.Cells[0].Report.Curve[:1]
	f = figuresOfResults(t, r)["canaries-memorized-by-round"]
	if p := f.Series[0].Points; len(p) != 3 || p[1].X != 101 || p[2].X != 102 {
		t.Errorf("the points are %+v, want one for each round, because a training was measured less often", p)
	}
}

// A training by SGD has steps, and a model of images a loss per image. Results that a server sends keep both.
func TestAxesOfCurvesNameTheirUnits(t *testing.T) {
	t.Parallel()
	r := trained()
	for i := range r.Cells {
		r.Cells[i].Unit, r.Cells[i].LossUnit = plan.Step, "nats per example"
	}
	sent := new(Results)
	must.Do(t, json.Unmarshal(must.Get(json.Marshal(r))(t), sent))
	found := figuresOfResults(t, sent)
	f := found["loss-by-step-training"]
	if f == nil || f.X.Title != "step" || f.Y.Title != "training: loss (nats per example)" {
		t.Errorf("of SGD: %+v", f)
	}
	if f = found["loss-by-step-c01"]; f == nil || f.X.Title != "step" || f.Y.Title != "loss (nats per example)" {
		t.Errorf("of a cell by SGD: %+v", f)
	}
	for i := range 3 {
		r.Cells[i].Unit, r.Cells[i].LossUnit = plan.Round, "nats per token"
	}
	f = figuresOfResults(t, r)["loss-by-round-or-step-training"]
	if f == nil || f.X.Title != "round or step" || f.Y.Title != "training: loss (nats per token, nats per example)" {
		t.Errorf("of federated training and SGD: %+v", f)
	}
	for kind, want := range map[models.Kind]string{models.CIFGLSTM: "nats per token", models.GAN: "", models.Regressor: "absolute error per token"} {
		e := experiment.Experiment{Model: experiment.Model{Kind: kind}}
		if got := lossUnit(&e); got != want {
			t.Errorf("the loss of %s is in %q, want %q", kind, got, want)
		}
	}
}

func TestAxisTitlesAreWordsWithUnits(t *testing.T) {
	t.Parallel()
	found := figuresOfResults(t, replicated(t))
	f := found["mean-exposure-of-canaries-bits-by-data-partition"]
	if f.X.Title != "data partition" || f.Y.Title != "mean exposure of canaries (bits)" {
		t.Errorf("the axes are %q and %q", f.X.Title, f.Y.Title)
	}
	for path, want := range map[string]string{"training.client.learning_rate": "client learning rate", "training": "training", "model.units": "model units"} {
		if got := wordsOfField(path); got != want {
			t.Errorf("%s is named %q, want %q", path, got, want)
		}
	}
}
