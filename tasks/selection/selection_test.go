package selection

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// shape is that of the images of these tests: three classes, so that a model that knows
// nothing gets a third of them right.
var shape = images.Shape{Width: 18, Height: 18, Channels: 1, Classes: 3}

// bench is a population of images, and a classifier that has not been trained.
type bench struct {
	*taskstest.Graph
	t                              *testing.T
	parts, population, predictions *taskstest.Node
}

func newBench(t *testing.T, seed uint64) *bench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	rng := rand.New(rand.NewPCG(seed, 0))
	var lines strings.Builder
	for range 150 {
		pixels := make([]byte, shape.Pixels())
		for i := range pixels {
			pixels[i] = byte(rng.IntN(256))
		}
		fmt.Fprintf(&lines, `{"user":"u%d","label":%d,"pixels":%q}`+"\n", rng.IntN(12), rng.IntN(3), base64.StdEncoding.EncodeToString(pixels))
	}
	b.load([]byte(lines.String()), source.Reading{Level: text.ImageLevel, Image: shape}, seed)
	return b
}

// load makes a population of a source, and has the classifier predict.
func (b *bench) load(lines []byte, reading source.Reading, seed uint64) {
	corpus := b.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{b.Import(lines)}, Reading: reading})
	b.parts = b.Run(datasets.Encode, datasets.EncodeParams{Level: text.ImageLevel}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := b.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, b.parts))
	b.population = b.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, b.parts), taskstest.In(population.BalancedInput, balanced))
	model := b.Run(training.Initial, training.InitialParams{Seed: seed, Model: models.Config{Kind: models.CNN, Image: models.Image{ImageShape: models.ImageShape(shape)}}})
	b.predictions = b.Run(Predictions, nil, append(b.data(), taskstest.In(ModelInput, model))...)
}

func (b *bench) data() []taskstest.Edge {
	return []taskstest.Edge{taskstest.In(population.Input, b.population), taskstest.In(population.ShardsInput, b.parts)}
}

func (b *bench) examples(p ExamplesParams) (*taskstest.Node, error) {
	return b.Try(Examples, p, append(b.data(), taskstest.In(PredictionsInput, b.predictions))...)
}

func (b *bench) users(p UsersParams) (*taskstest.Node, error) {
	return b.Try(Users, p, append(b.data(), taskstest.In(PredictionsInput, b.predictions), taskstest.In(CleanInput, b.predictions))...)
}

// read returns the examples of a population by user.
func (b *bench) read(pop, shards *taskstest.Node) (all [][]string) {
	b.t.Helper()
	p := must.Get(population.Open(b.t.Context(), b.Task(taskstest.In("p", pop), taskstest.In("s", shards)), "p", "s"))(b.t)
	for user := range p.Users() {
		sentences := must.Get(p.ReadUser(b.t.Context(), user))(b.t)
		var texts []string
		for _, s := range sentences {
			texts = append(texts, fmt.Sprint(s))
		}
		all = append(all, texts)
	}
	return all
}

// labels are those of the population's examples, by user.
func (b *bench) labels() (all [][]int) {
	for _, user := range b.read(b.population, b.parts) {
		var list []int
		for _, content := range user {
			var begin, label int
			must.Get(fmt.Sscanf(content, "[%d %d", &begin, &label))(b.t)
			list = append(list, label-text.FirstWord)
		}
		all = append(all, list)
	}
	return all
}

func decode[T any](t *testing.T, n *taskstest.Node, blob string) (v T) {
	t.Helper()
	must.Do(t, json.Unmarshal(n.Blob(blob), &v))
	return v
}

func TestPredictionsAreCountedByUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	classes := b.predictions.Blob(PredictionsBlob)
	var want []UserAccuracy
	for _, labels := range b.labels() {
		var u UserAccuracy
		for _, label := range labels {
			u.Examples++
			if int(classes[0]) == label {
				u.Correct++
			}
			classes = classes[1:]
		}
		want = append(want, u)
	}
	if got := decode[[]UserAccuracy](t, b.predictions, UsersBlob); len(want) == 0 || len(classes) != 0 || !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v; %d predictions are left", got, want, len(classes))
	}
	var metrics Accuracy
	b.predictions.DecodeMetrics(&metrics)
	if metrics.Users != len(want) || metrics.Examples != 150 || metrics.Correct < 10 || metrics.Correct > 140 {
		t.Errorf("metrics %+v", metrics)
	}
}

// The two outcomes share the examples of the users out between them.
func TestExamplesAreSelectedByTheirOutcome(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		b := newBench(t, seed)
		all, labels, classes := b.read(b.population, b.parts), b.labels(), b.predictions.Blob(PredictionsBlob)
		const atLeast = 5
		want := map[Criterion][][]string{}
		for user, examples := range all {
			by := map[Criterion][]string{}
			for i, text := range examples {
				outcome := Misclassified
				if int(classes[0]) == labels[user][i] {
					outcome = Correct
				}
				by[outcome], classes = append(by[outcome], text), classes[1:]
			}
			for outcome, texts := range by {
				if len(texts) >= atLeast {
					want[outcome] = append(want[outcome], texts)
				}
			}
		}
		for _, outcome := range []Criterion{Misclassified, Correct} {
			n, err := b.examples(ExamplesParams{Outcome: outcome, AtLeast: atLeast})
			if len(want[outcome]) == 0 {
				if err == nil || !strings.Contains(err.Error(), "leaves 0 of 12 users") {
					t.Errorf("seed %d: nobody has %d %s examples: error %v", seed, atLeast, outcome, err)
				}
				continue
			}
			must.Do(t, err)
			if got := b.read(n, n); fmt.Sprint(got) != fmt.Sprint(want[outcome]) {
				t.Errorf("seed %d: %s examples %v, want %v", seed, outcome, got, want[outcome])
			}
			s := decode[Selection](t, n, SelectionBlob)
			if s.Users != len(want[outcome]) || s.OfUsers != len(all) || s.Examples != len(slices.Concat(want[outcome]...)) {
				t.Errorf("seed %d: selection %+v of %d users, want %d", seed, s, len(all), len(want[outcome]))
			}
		}
	}
}

func TestUsersAreSelectedByAPercentileOfTheirAccuracy(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	all := b.read(b.population, b.parts)
	users := decode[[]UserAccuracy](t, b.predictions, UsersBlob)
	for _, p := range []UsersParams{{Below, 25}, {Above, 75}, {Above, 50}} {
		n := must.Get(b.users(p))(t)
		s := decode[Selection](t, n, SelectionBlob)
		var want [][]string
		for i, u := range users {
			if p.Side == Below && u.Share() <= s.Threshold || p.Side == Above && u.Share() >= s.Threshold {
				want = append(want, all[i])
			}
		}
		if got := b.read(n, b.parts); len(want) == 0 || len(want) == len(all) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: %d users, want %d", p, len(got), len(want))
		}
		if s.Users != len(want) || math.Abs(float64(s.Users)-12*min(p.Percentile, 100-p.Percentile)/100) > 3 {
			t.Errorf("%+v: selection %+v", p, s)
		}
		var m population.PartitionMetrics
		n.DecodeMetrics(&m)
		if m.Users != len(want) {
			t.Errorf("%+v: an account would count %d users, want %d", p, m.Users, len(want))
		}
	}
}

// The values are NumPy's: numpy.percentile([0, .25, .5, .5, 1], p).
func TestPercentileMatchesNumPy(t *testing.T) {
	t.Parallel()
	values := []float64{0, 0.25, 0.5, 0.5, 1}
	for percentile, want := range map[float64]float64{0: 0, 10: 0.1, 25: 0.25, 60: 0.5, 75: 0.5, 90: 0.8, 100: 1} {
		if got := Percentile(values, percentile); math.Abs(got-want) > 1e-12 {
			t.Errorf("percentile %v is %v, want %v", percentile, got, want)
		}
	}
	if got := Percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing is %v", got)
	}
}

func TestBadSelectionsAreRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	for _, p := range []ExamplesParams{{Outcome: "odd", AtLeast: 1}, {Outcome: Correct}} {
		if _, err := b.examples(p); err == nil || !strings.Contains(err.Error(), "expected one of [misclassified correct]") {
			t.Errorf("%+v: error %v", p, err)
		}
	}
	for _, p := range []UsersParams{{Side: "beside", Percentile: 3}, {Below, 0}, {Below, 100}} {
		if _, err := b.users(p); err == nil || !strings.Contains(err.Error(), "expected one of [below above]") {
			t.Errorf("%+v: error %v", p, err)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	taskstest.Golden(t, b.predictions)
	examples := must.Get(b.examples(ExamplesParams{Outcome: Misclassified, AtLeast: 2}))(t)
	taskstest.Golden(t, examples)
	users := must.Get(b.users(UsersParams{Side: Below, Percentile: 40}))(t)
	taskstest.Golden(t, users)
}
