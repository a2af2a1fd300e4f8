package selection

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// texts is a population of texts, and losses of its records that a test gives.
func newTexts(t *testing.T, lines ...string) *bench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	corpus := b.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{b.Import([]byte(strings.Join(lines, "\n")))}, Reading: source.Reading{Level: text.ByteLevel}})
	b.parts = b.Run(datasets.Encode, datasets.EncodeParams{Level: text.ByteLevel}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := b.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, b.parts))
	b.population = b.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, b.parts), taskstest.In(population.BalancedInput, balanced))
	return b
}

// someTexts are n texts of up to 12 users, all different.
func someTexts(t *testing.T, seed uint64, n int) *bench {
	rng := rand.New(rand.NewPCG(seed, 9))
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"user":"u%d","text":"text %d"}`, rng.IntN(12), i))
	}
	return newTexts(t, lines...)
}

func (b *bench) random(p RandomParams) (*taskstest.Node, error) { return b.Try(Random, p, b.data()...) }

// The draws are a set without replacement, and those of one user do not depend on the other users.
func TestARandomNumberOfEachUsersExamplesIsSelected(t *testing.T) {
	t.Parallel()
	b := someTexts(t, 1, 100)
	all := b.read(b.population, b.parts)
	n := must.Get(b.random(RandomParams{Seed: 3, PerUser: 7, AtLeast: 6}))(t)
	got, place := b.read(n, n), 0
	for _, texts := range all {
		if len(texts) < 6 {
			continue
		}
		if want := min(7, len(texts)); len(got[place]) != want || !isSubset(got[place], texts) {
			t.Errorf("selected %v of %v, want %d of them in their order", got[place], texts, want)
		}
		place++
	}
	s := decode[Selection](t, n, SelectionBlob)
	if place != len(got) || s.Users != place || s.OfUsers != len(all) || s.Outcome != AtRandom || s.Examples != len(slices.Concat(got...)) {
		t.Errorf("%d users are selected, want %d; %+v", len(got), place, s)
	}
	for _, l := range s.Left {
		want := 0
		for _, texts := range all {
			if min(7, len(texts)) >= l.AtLeast {
				want++
			}
		}
		if l.Users != want {
			t.Errorf("%s; want %d", l, want)
		}
	}
}

// isSubset reports whether part has some of whole, each once and in its order.
func isSubset(part, whole []string) bool {
	for _, text := range part {
		i := slices.Index(whole, text)
		if i < 0 {
			return false
		}
		whole = whole[i+1:]
	}
	return true
}

// Of 4,000 examples 30% are 1,200; five standard deviations are 145. A right program fails
// this once in a million seeds, and this seed is fixed.
func TestARandomShareOfTheExamplesIsSelected(t *testing.T) {
	t.Parallel()
	b := someTexts(t, 2, 4000)
	n := must.Get(b.random(RandomParams{Seed: 4, Share: 0.3, AtLeast: 1}))(t)
	if s := decode[Selection](t, n, SelectionBlob); s.Examples < 1055 || s.Examples > 1345 || s.Users != 12 {
		t.Errorf("a share of 30%% selects %+v of 4000", s)
	}
	// A larger share only adds to a smaller one.
	more := must.Get(b.random(RandomParams{Seed: 4, Share: 0.5, AtLeast: 1}))(t)
	few, many := b.read(n, n), b.read(more, more)
	for user := range few {
		if !isSubset(few[user], many[user]) {
			t.Errorf("user %d: 30%% are not among the 50%%", user)
		}
	}
}

func TestImagesAreSelectedByWhetherTheyHaveALabel(t *testing.T) {
	t.Parallel()
	b := newUnlabelledBench(t)
	all := b.read(b.population, b.parts)
	for criterion, prefix := range map[Criterion]string{Unlabelled: fmt.Sprintf("[%d %d ", text.Begin, text.Unknown), Labelled: fmt.Sprintf("[%d %d ", text.Begin, text.FirstWord+1)} {
		var want [][]string
		for _, texts := range all {
			texts = slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return !strings.HasPrefix(s, prefix) })
			if len(texts) >= 2 {
				want = append(want, texts)
			}
		}
		n := must.Get(b.Try(Labels, LabelsParams{Criterion: criterion, AtLeast: 2}, b.data()...))(t)
		if got := b.read(n, n); len(want) == 0 || len(want) == len(all) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", criterion, got, want)
		}
	}
}

// newUnlabelledBench has images of which some lack a label, and the others have the label 1.
func newUnlabelledBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	rng := rand.New(rand.NewPCG(5, 5))
	var lines []string
	for range 40 {
		label := ""
		if rng.IntN(2) == 0 {
			label = `"label":1,`
		}
		pixels := make([]byte, shape.Pixels())
		pixels[rng.IntN(len(pixels))] = byte(rng.Uint32())
		lines = append(lines, fmt.Sprintf(`{"user":"u%d",%s"pixels":%q}`, rng.IntN(12), label, base64.StdEncoding.EncodeToString(pixels)))
	}
	b.load([]byte(strings.Join(lines, "\n")), source.Reading{Level: text.ImageLevel, Image: shape, Unlabelled: true}, 1)
	return b
}

// An example without a label is neither right nor wrong.
func TestUnlabelledExamplesAreNotClassified(t *testing.T) {
	t.Parallel()
	b := newUnlabelledBench(t)
	labelled := 0
	for _, texts := range b.read(b.population, b.parts) {
		for _, content := range texts {
			if !strings.HasPrefix(content, fmt.Sprintf("[%d %d ", text.Begin, text.Unknown)) {
				labelled++
			}
		}
	}
	var accuracy Accuracy
	b.predictions.DecodeMetrics(&accuracy)
	selected := 0
	for _, outcome := range []Criterion{Misclassified, Correct} {
		n, err := b.examples(ExamplesParams{Outcome: outcome, AtLeast: 1})
		if err != nil {
			continue // the untrained classifier gets all of them right, or wrong
		}
		selected += decode[Selection](t, n, SelectionBlob).Examples
	}
	if accuracy.Examples != labelled || selected != labelled {
		t.Errorf("%d are classified and %d selected; want %d, those with a label", accuracy.Examples, selected, labelled)
	}
}

// unlikely selects by losses that stand for those under a model, and a second one.
func (b *bench) unlikely(p UnlikelyParams, losses ...[]float64) (*taskstest.Node, error) {
	edges := b.data()
	for i, name := range []string{LossesInput, SecondInput}[:len(losses)] {
		edges = append(edges, taskstest.In(name, b.Put(fmt.Sprint(name, i, losses[i]), map[string][]byte{population.LossesBlob: population.EncodeLosses(losses[i])})))
	}
	return b.Try(Unlikely, p, edges...)
}

func TestUnlikelySelectsHighSurprise(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		b := someTexts(t, seed, 120)
		rng := rand.New(rand.NewPCG(seed, 1))
		first, second := make([]float64, 120), make([]float64, 120)
		for i := range first {
			first[i], second[i] = 2+float64(rng.IntN(40))/8, 2+float64(rng.IntN(40))/8
		}
		for _, p := range []UnlikelyParams{{Percentile: 70, AtLeast: 2}, {Percentile: 50, AtLeast: 1, Ratio: true}, {Above: new(4.5), AtLeast: 1}, {Above: new(0.0), AtLeast: 3, Ratio: true}} {
			losses := [][]float64{first}
			surprises := slices.Clone(first)
			if p.Ratio {
				losses = append(losses, second)
				for i := range surprises {
					surprises[i] -= second[i]
				}
			}
			n := must.Get(b.unlikely(p, losses...))(t)
			s := decode[Selection](t, n, SelectionBlob)
			if p.Above == nil && s.Threshold != Percentile(slices.Sorted(slices.Values(surprises)), p.Percentile) || p.Above != nil && s.Threshold != *p.Above {
				t.Errorf("%+v: threshold %v", p, s.Threshold)
			}
			var want [][]string
			record := 0
			for _, texts := range b.read(b.population, b.parts) {
				var kept []string
				for _, text := range texts {
					if surprises[record] >= s.Threshold {
						kept = append(kept, text)
					}
					record++
				}
				if len(kept) >= p.AtLeast {
					want = append(want, kept)
				}
			}
			if got := b.read(n, n); fmt.Sprint(got) != fmt.Sprint(want) || s.Users != len(want) || s.Examples != len(slices.Concat(want...)) {
				t.Errorf("%+v selects %v, want %v; %+v", p, got, want, s)
			}
		}
	}
}

func TestEmptySelectionReportsRemainingUsers(t *testing.T) {
	t.Parallel()
	b := newTexts(t, `{"user":"a","text":"x"}`, `{"user":"a","text":"y"}`, `{"user":"b","text":"z"}`)
	_, err := b.random(RandomParams{PerUser: 9, AtLeast: 4})
	if want := "leaves 0 of 2 users; at_least 1: 2 users, at_least 2: 1 user, at_least 3: 0 users, at_least 4: 0 users"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// The numbers are those of counting by hand.
func TestCountRemainingByPercentile(t *testing.T) {
	t.Parallel()
	clean := []UserAccuracy{{10, 1}, {10, 3}, {10, 5}, {10, 7}, {10, 9}}
	faulty := []UserAccuracy{{10, 1}, {10, 1}, {10, 5}, {0, 0}, {10, 9}}
	got := Leaves(CountRemaining(faulty, clean, UsersParams{Side: Below, Percentile: 60}))
	if want := "below 5%: 2 users, below 10%: 2 users, below 25%: 2 users, below 50%: 3 users, below 60%: 3 users, below 75%: 3 users, below 90%: 3 users, below 95%: 3 users"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestBadSelectionsOfExamplesAreRejected(t *testing.T) {
	t.Parallel()
	b := newTexts(t, `{"user":"a","text":"x"}`)
	try := func(n *taskstest.Node, err error, want string) {
		t.Helper()
		must.Say(t, err, want)
	}
	for _, p := range []RandomParams{{AtLeast: 1}, {Share: 0.5, PerUser: 2, AtLeast: 1}, {Share: 1, AtLeast: 1}, {PerUser: 2}} {
		n, err := b.random(p)
		try(n, err, "expected a share above 0 and below 1 or at least 1 of each user")
	}
	for _, p := range []LabelsParams{{Criterion: "odd", AtLeast: 1}, {Criterion: Labelled}} {
		n, err := b.Try(Labels, p, b.data()...)
		try(n, err, "expected one of [unlabelled labelled]")
	}
	for _, p := range []UnlikelyParams{{AtLeast: 1}, {Above: new(1.0), Percentile: 5, AtLeast: 1}, {Percentile: 100, AtLeast: 1}, {Percentile: 5}} {
		n, err := b.unlikely(p, []float64{1})
		try(n, err, "expected a percentile above 0 and below 100 or a number of nats")
	}
	n, err := b.unlikely(UnlikelyParams{Percentile: 5, AtLeast: 1}, nil)
	try(n, err, "losses of 0 records")
	n, err = b.unlikely(UnlikelyParams{Percentile: 5, AtLeast: 1, Ratio: true}, []float64{1}, []float64{1, 2})
	try(n, err, "losses of 1 and 2 records of one population")
}

func TestGoldenBytesOfExamples(t *testing.T) {
	t.Parallel()
	b := someTexts(t, 1, 60)
	number := must.Get(b.random(RandomParams{Seed: 1, PerUser: 2, AtLeast: 1}))(t)
	taskstest.Golden(t, number)
	losses := make([]float64, 60)
	for i := range losses {
		losses[i] = float64(i*i%17) / 4
	}
	unlikely := must.Get(b.unlikely(UnlikelyParams{Percentile: 60, AtLeast: 1}, losses))(t)
	taskstest.Golden(t, unlikely)
	images := newUnlabelledBench(t)
	labels := must.Get(images.Try(Labels, LabelsParams{Criterion: Unlabelled, AtLeast: 1}, images.data()...))(t)
	taskstest.Golden(t, labels)
}
