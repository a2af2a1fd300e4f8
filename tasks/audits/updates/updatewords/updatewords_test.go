package updatewords

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

const vocabulary = 230

// bench is a population of eight users, the first of whom has canaries.
type bench struct {
	*taskstest.Graph
	t                 *testing.T
	parts, population *taskstest.Node
}

func newBench(t *testing.T) *bench {
	t.Helper()
	g := taskstest.NewGraph(t)
	rng := rand.New(rand.NewPCG(2, 1))
	var text strings.Builder
	for i := range 8 * 14 {
		words := make([]string, 7)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", int(float64(vocabulary+40)*math.Pow(rng.Float64(), 2)))
		}
		fmt.Fprintf(&text, `{"user":"u%d","text":%q}`+"\n", i%8, strings.Join(words, " "))
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text.String()))}})
	parts := g.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: vocabulary}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, parts))
	drawn := g.Run(canaries.Draw, canaries.DrawParams{
		Seed: 1, PerConfiguration: 3, Space: canaries.Space{Words: 5},
		Configurations: []canaries.Configuration{{UserProbability: "1/3", ExampleProbability: "1/4"}},
	}, taskstest.In(population.PartsInput, parts))
	inserted := g.Run(canaries.Insert, canaries.InsertParams{Seed: 3}, taskstest.In(population.BalancedInput, balanced), taskstest.In(canaries.CanariesInput, drawn))
	population := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced), taskstest.In(population.InsertionsInput, inserted))
	return &bench{g, t, parts, population}
}

// train records two rounds of all users, the second from the first one's model.
func (b *bench) train(untied bool, change func(*training.ClientsParams)) *taskstest.Node {
	b.t.Helper()
	origin := b.Run(training.Initial, training.InitialParams{Seed: 4, Model: models.Config{
		Kind: models.LSTM, Vocabulary: vocabulary + text.FirstWord, Embedding: 8, Units: 10, Untied: untied,
	}})
	p := training.ClientsParams{
		Seed: 7, Cohort: 8, Chunks: 1, Sampling: privacy.FixedSize, Epochs: 1,
		Local:  training.Local{Optimizer: optimizers.Config{Kind: optimizers.SGD}, LearningRate: 0.3, Batch: 4},
		Record: &updates.Recording{Every: 1, Layers: []string{"embedding", "output.bias"}},
	}
	change(&p)
	var rounds []taskstest.Edge
	for round := 1; round <= 2; round++ {
		spec := must.Get(tasks.NewSpec(training.Clients, p,
			tasks.Input{Name: tasks.PreviousInput, Key: origin.Key}, tasks.Input{Name: training.PopulationInput, Key: b.population.Key},
			tasks.Input{Name: training.ShardsInput, Key: b.parts.Key}))(b.t)
		h := tasks.NewHasher("test round")
		h.Key(spec.Key)
		h.Uint(uint64(round))
		spec.Key, spec.Step = h.Sum(), round
		n := must.Get(b.TrySpec(training.Clients, spec))(b.t)
		rounds = append(rounds, taskstest.In(updates.RoundInput(round), n))
	}
	return b.Run(updates.Gather, updates.GatherParams{Chunks: 1}, rounds...)
}

func (b *bench) try(p Params, recorded *taskstest.Node) (*taskstest.Node, error) {
	b.t.Helper()
	return b.Try(Kind, p, taskstest.In(observed.RecordedInput(0), recorded), taskstest.In(population.Input, b.population),
		taskstest.In(population.ShardsInput, b.parts), taskstest.In(population.PartsInput, b.parts))
}

func (b *bench) measure(p Params, recorded *taskstest.Node) (v Outcome) {
	b.t.Helper()
	n := must.Get(b.try(p, recorded))(b.t)
	n.DecodeMetrics(&v)
	return v
}

func plain(*training.ClientsParams) {}

func TestRowsOfAnUntiedEmbeddingAreTheWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.measure(Params{Layer: Embedding}, b.train(true, plain))
	if v.Precision != 1 || v.Recall != 1 || v.AP != 1 || v.Updates != 16 || v.Devices != 8 || v.Words < 30 || v.Words > 90 || v.Named != v.Words {
		t.Errorf("outcome %+v, want exactly the words", v)
	}
	if v.BaselineAP > 0.8 {
		t.Errorf("the words' frequency alone gives %v", v.BaselineAP)
	}
	if c := v.Canaries; c == nil || c.Held.Share != 1 || c.Held.Of == 0 || c.Held.Of%2 != 0 || c.Others.Named > c.Others.Of/10 || c.Found < 1 || c.Found > 3 {
		t.Errorf("canaries %+v", c)
	}
}

// No word that was not a target grows; a target falls only where it was expected more often
// than it came.
func TestTheOutputBiasNamesWordsOfTiedModels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	recorded := b.train(false, plain)
	v := b.measure(Params{Layer: OutputBias}, recorded)
	if v.Precision != 1 || v.Recall < 0.95 || v.AP < 0.99 {
		t.Errorf("outcome %+v, want few words missed and none named wrongly", v)
	}
	if v := b.measure(Params{Layer: Embedding}, recorded); v.Recall != 1 || v.Precision > 0.4 {
		t.Errorf("outcome %+v of a tied embedding, all of whose rows change", v)
	}
}

// A clip changes only the size of updates, and so not the words found. Noise hides words;
// the threshold bounds the words that it names by itself.
func TestNoiseHidesWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	clip := func(noise float64) func(*training.ClientsParams) {
		return func(p *training.ClientsParams) { p.Clip, p.Noise = 0.5, noise }
	}
	for _, c := range []struct {
		untied bool
		layer  Layer
	}{{true, Embedding}, {false, OutputBias}} {
		clipped := b.measure(Params{Layer: c.layer}, b.train(c.untied, clip(0)))
		if clipped.Precision != 1 || clipped.Recall < 0.95 {
			t.Errorf("%s: %+v with a clip", c.layer, clipped)
		}
		little := b.measure(Params{Layer: c.layer, Noise: 0.002}, b.train(c.untied, clip(0.002)))
		much := b.measure(Params{Layer: c.layer, Noise: 0.5}, b.train(c.untied, clip(0.5)))
		if little.Recall <= much.Recall || little.AP <= much.AP || much.Recall > 0.1 {
			t.Errorf("%s: %+v with little noise, %+v with much", c.layer, little.Round, much.Round)
		}
		// One word a device in the mean is named by noise alone. The sum over 16 updates is
		// about Poisson with mean 16: 40 are passed with probability 2e-7.
		if wrong := (much.Named - much.Hits) * 16; wrong > 40 {
			t.Errorf("%s: %v words are named by noise", c.layer, wrong)
		}
	}
}

func TestUnusableLayersAreRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	recorded := b.train(true, func(p *training.ClientsParams) { p.Record.Project, p.Record.Layers = 100, []string{"embedding"} })
	for want, p := range map[string]Params{"training.record.project": {Layer: Embedding}, "there is no layer \"output.bias\"": {Layer: OutputBias}} {
		if _, err := b.try(p, recorded); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives %v, want a word of %q", p, err, want)
		}
	}
}

// The words of one device are named by all of its updates, and the AP of both ways is a mean over
// these: 3 updates of a device with 1 word and 1 of a device with 3.
func TestMeansAreOverUpdates(t *testing.T) {
	t.Parallel()
	f := frequencies{devices: make([]int, 5), updates: map[int]int{}}
	for range 3 {
		f.add(0, []int32{1})
	}
	f.add(1, []int32{1, 2, 3})
	if f.updates[0] != 3 || f.updates[1] != 1 || !slices.Equal(f.devices, []int{0, 2, 1, 1, 0}) {
		t.Errorf("counted %+v", f)
	}
	v := summarize([]Round{{Round: 1, Updates: 1, Words: 1, Recall: 1, Hits: 1}, {Round: 2, Updates: 1, Words: 9, Recall: 0}})
	if want := "name 0.5 of their devices' 5.0 words"; !strings.Contains(v.Note(nil), want) {
		t.Errorf("note %q, want %q", v.Note(nil), want)
	}
}

func TestManyRoundsAreSummedUp(t *testing.T) {
	t.Parallel()
	var rounds []Round
	for i := range 250 {
		rounds = append(rounds, Round{Round: i + 1, Updates: 2, Recall: 1, Precision: 2, Words: float64(2 * i)})
	}
	v := summarize(rounds)
	if len(v.Rounds) > maxRounds || v.Rounds[1].Round != 4 || v.Rounds[1].Updates != 6 || v.Rounds[1].Words != 4 {
		t.Errorf("%d points, the second %+v", len(v.Rounds), v.Rounds[1])
	}
	if v.Updates != 500 || v.Recall != 0.5 || v.Precision != 1 || v.Words != 124.5 || v.Round.Round != 250 {
		t.Errorf("means %+v", v.Round)
	}
	if figure := v.Figure(nil); len(figure.Lines[0].Points) != len(v.Rounds) || figure.Lines[0].Points[1] != (audits.Point{X: 4, Y: 0.5}) {
		t.Errorf("figure %+v", figure)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := must.Get(b.try(Params{Layer: OutputBias}, b.train(false, plain)))(t)
	taskstest.Golden(t, n)
}

func TestLimitIsOnRatioToFrequencyBaseline(t *testing.T) {
	t.Parallel()
	v := &Outcome{BaselineAP: 0.4}
	v.AP = 0.8
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.5: {"the AP of words read off updates, over that by their frequency alone, is 2, above the limit of 1.5"},
		2.5: nil,
	})
}

// Of eight devices five take part in each of two rounds, so that some send two updates and others one. Words are ranked by noisy
// updates, and by the number of devices with them; both average precisions are means over the updates, computed here from the
// values as they were recorded.
func TestBothPrecisionsAreMeansOverUnequalNumbersOfUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	recorded := b.train(true, func(p *training.ClientsParams) { p.Cohort, p.Clip, p.Noise = 5, 0.5, 0.02 })
	v := b.measure(Params{Layer: Embedding, Noise: 0.02}, recorded)
	sent, words := b.raw(recorded)
	numbers, holders := map[int]int{}, make([]float64, vocabulary)
	for _, u := range sent {
		numbers[u.Device]++
	}
	if devices := len(numbers); len(sent) != 10 || devices == 5 || devices > 8 {
		t.Fatalf("%d updates of %d devices: their numbers are equal", len(sent), devices)
	}
	for device := range numbers {
		for word := range words[device] {
			holders[word]++
		}
	}
	ap, baseline, perDevice := 0.0, 0.0, 0.0
	for _, u := range sent {
		lengths := make([]float64, vocabulary)
		for word := range lengths {
			at := (word + int(text.FirstWord)) * 8
			for _, x := range u.Values[at : at+8] {
				lengths[word] += float64(float64(x) * float64(x))
			}
		}
		ap += precisionOf(lengths, words[u.Device]) / float64(len(sent))
		baseline += precisionOf(holders, words[u.Device]) / float64(len(sent))
	}
	for device := range numbers {
		perDevice += precisionOf(holders, words[device]) / float64(len(numbers))
	}
	if math.Abs(v.AP-ap) > 1e-9 || math.Abs(v.BaselineAP-baseline) > 1e-9 || ap > 0.99 {
		t.Errorf("AP %v and %v by frequency, want %v and %v", v.AP, v.BaselineAP, ap, baseline)
	}
	if math.Abs(perDevice-baseline) < 1e-4 {
		t.Errorf("the mean over devices is %v, that over updates %v: the test cannot tell them apart", perDevice, baseline)
	}
}

// raw returns the recorded updates, and the ordinary words of each device, counted from 0.
func (b *bench) raw(recorded *taskstest.Node) (sent []updates.Update, words []map[int]bool) {
	b.t.Helper()
	task := b.Task(taskstest.In("recorded", recorded), taskstest.In(population.Input, b.population), taskstest.In(population.ShardsInput, b.parts))
	for _, ref := range must.Get(updates.Refs(b.t.Context(), task, []string{"recorded"}))(b.t) {
		must.Do(b.t, ref.Each(b.t.Context(), task, func(u updates.Update) error {
			u.Values = slices.Clone(u.Values)
			sent = append(sent, u)
			return nil
		}))
	}
	p := must.Get(population.Open(b.t.Context(), task, population.Input, population.ShardsInput))(b.t)
	for device := range p.Users() {
		words = append(words, map[int]bool{})
		for _, sentence := range must.Get(p.ReadUser(b.t.Context(), device))(b.t) {
			for _, token := range sentence {
				if token >= text.FirstWord {
					words[device][int(token-text.FirstWord)] = true
				}
			}
		}
	}
	return sent, words
}

// precisionOf is the mean over relevant items of the share of relevant ones among those with at least the item's score.
func precisionOf(scores []float64, relevant map[int]bool) (mean float64) {
	for item := range relevant {
		above, found := 0, 0
		for other, score := range scores {
			if score >= scores[item] {
				above++
				if relevant[other] {
					found++
				}
			}
		}
		mean += float64(found) / float64(above) / float64(len(relevant))
	}
	return mean
}
