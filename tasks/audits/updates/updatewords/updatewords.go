// Package updatewords reads the words of a device from its updates, without an attack model.
//
//	audits/update-words  compares the words that each recorded update names with the device's
//
// An embedding that is not tied has gradients only in the rows of the words that were read
// (Melis et al. 2019, section 4.1; Gupta et al. 2022, section 4). The gradient of the output layer's
// bias is the predicted probability of each word minus its share of the targets, so that only targets
// can grow (Zhao et al. 2020, section 3; Wainakh et al. 2022, section 3).
package updatewords

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Layer is a layer from which words are read.
type Layer string

const (
	// Embedding names the words of changed rows, the longest change first.
	Embedding Layer = models.EmbeddingTensor
	// OutputBias names the words whose bias has grown, the most first.
	OutputBias Layer = models.OutputBiasTensor
)

func (Layer) Choices() []string { return []string{string(Embedding), string(OutputBias)} }

type Params struct {
	Layer Layer `json:"layer"`
	// Noise is the standard deviation in each element of an update. At the threshold, pure noise names at
	// most one word per device on average.
	Noise float64 `json:"noise,omitempty"`
}

// Kind measures every recorded update of an anonymous device. Its inputs are those of observed.Inputs,
// population.Input, ShardsInput and PartsInput, its metrics an Outcome.
var Kind = tasks.Kind{Name: "audits/update-words", Version: 2, Class: tasks.Compute, Run: audits.Measuring(measure)}

func measure(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	w, err := open(ctx, t, p)
	if err != nil {
		return nil, err
	}
	if err := w.reader.Each(ctx, func(o *observed.Observation) error {
		if o.Shadow {
			return nil
		}
		return w.add(ctx, o)
	}); err != nil {
		return nil, err
	}
	return w.outcome(ctx)
}

type measuring struct {
	reader     *observed.Reader
	population *population.Population
	naming     naming
	// placed are the canaries of the experiment, by their ordinary words; held are those of each device.
	placed [][]int32
	held   map[int][]int

	rounds   []Round
	frequent frequencies
	canaries Canaries
	found    map[int]bool
}

func open(ctx context.Context, t *tasks.Task, p *Params) (w *measuring, err error) {
	w = &measuring{found: map[int]bool{}}
	if w.reader, err = (observed.View{Layers: []string{string(p.Layer)}, Raw: true}).Open(ctx, t); err != nil {
		return nil, err
	}
	if w.population, err = population.Open(ctx, t, population.Input, population.ShardsInput); err != nil {
		return nil, err
	}
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return nil, err
	}
	if w.naming, err = newNaming(p, w.reader.Values(), vocabulary.Size()); err != nil {
		return nil, tasks.Permanent(err)
	}
	w.frequent = frequencies{devices: make([]int, vocabulary.Size()), updates: map[int]int{}}
	return w, w.readCanaries(ctx, t)
}

type naming struct {
	width     int // values per word
	threshold float64
	scores    []float32
}

// newNaming returns a naming for layers of a number of values. Without noise the threshold is 0, which no
// unused word exceeds.
func newNaming(p *Params, values, vocabulary int) (n naming, err error) {
	n = naming{width: values / vocabulary, scores: make([]float32, vocabulary)}
	rest := 1 / float64(vocabulary)
	switch {
	case n.width*vocabulary != values:
		return n, fmt.Errorf("the recorded layer %q has %d values, expected a number for each of %d words: record it as it is, without training.record.project", p.Layer, values, vocabulary)
	case p.Layer == OutputBias && n.width == 1:
		n.threshold = p.Noise * mathext.NormalQuantile(1-rest)
	case p.Layer == Embedding:
		n.threshold = p.Noise * p.Noise * 2 * mathext.GammaIncRegInv(float64(n.width)/2, 1-rest)
	default:
		return n, fmt.Errorf("words cannot be read off the layer %q of %d values a word; expected %q or %q", p.Layer, n.width, Embedding, OutputBias)
	}
	return n, nil
}

// score scores the words of an update. Higher scores are more certain.
func (n *naming) score(values []float32) {
	for word := range n.scores {
		if n.width == 1 {
			n.scores[word] = values[word]
		} else {
			n.scores[word] = float32(kernels.SquaredNorm(values[word*n.width : (word+1)*n.width]))
		}
	}
}

func (n *naming) names(word int32) bool { return float64(n.scores[word]) > n.threshold }

func (w *measuring) add(ctx context.Context, o *observed.Observation) error {
	words, err := w.words(ctx, o.Number)
	if err != nil || len(words) == 0 {
		return err
	}
	w.naming.score(o.Values)
	if len(w.rounds) == 0 || w.rounds[len(w.rounds)-1].Round != o.Round {
		w.rounds = append(w.rounds, Round{Round: o.Round})
	}
	r := &w.rounds[len(w.rounds)-1]
	r.Updates++
	r.Words += float64(len(words))
	hits, named := w.count(words)
	r.Named += float64(named)
	r.Hits += float64(hits)
	r.Recall += float64(hits) / float64(len(words))
	if named > 0 {
		r.Precision += float64(hits) / float64(named)
	}
	ap, err := averagePrecision(w.naming.scores[text.FirstWord:], words)
	if err != nil {
		return err
	}
	r.AP += ap
	w.frequent.add(o.Number, words)
	w.addCanaries(o.Number)
	return nil
}

// count returns the number of the device's words that are named, and the number of all named words.
func (w *measuring) count(words []int32) (hits, named int) {
	ordinary := w.naming.scores[text.FirstWord:]
	return lists.Count(words, w.naming.names), lists.Count(ordinary, func(score float32) bool { return float64(score) > w.naming.threshold })
}

// words returns the distinct ordinary words of a device, ascending.
func (w *measuring) words(ctx context.Context, device int) ([]int32, error) {
	sentences, err := w.population.ReadUser(ctx, device)
	if err != nil {
		return nil, err
	}
	words := lists.Distinct(lists.Filter(slices.Concat(sentences...), ordinary))
	if n := len(words); n > 0 && int(words[n-1]) >= len(w.naming.scores) {
		return nil, tasks.Permanent(fmt.Errorf("device %d has word %d, of a vocabulary of %d", device, words[n-1], len(w.naming.scores)))
	}
	return words, nil
}

// averagePrecision ranks all ordinary words by scores, with a device's words as the relevant ones.
func averagePrecision(scores []float32, words []int32) (float64, error) {
	has := make([]bool, len(scores))
	for _, word := range words {
		has[word-text.FirstWord] = true
	}
	return ranking.AveragePrecision(scores, has)
}

// frequencies count the devices with each word, and the updates of each device.
type frequencies struct {
	devices []int
	updates map[int]int
}

func (f *frequencies) add(device int, words []int32) {
	f.updates[device]++
	if f.updates[device] > 1 {
		return
	}
	for _, word := range words {
		f.devices[word]++
	}
}

// baseline returns the average precision of the ranking of words by their number of devices, for every
// device: a mean over updates.
func (w *measuring) baseline(ctx context.Context) (mean float64, err error) {
	scores := lists.Map(w.frequent.devices[text.FirstWord:], func(n int) float32 { return float32(n) })
	updates := 0
	for device := range w.population.Users() {
		sent := w.frequent.updates[device]
		if sent == 0 {
			continue
		}
		words, err := w.words(ctx, device)
		if err != nil {
			return 0, err
		}
		ap, err := averagePrecision(scores, words)
		if err != nil {
			return 0, err
		}
		mean += float64(float64(sent) * ap)
		updates += sent
	}
	return mean / float64(updates), nil
}

func (w *measuring) outcome(ctx context.Context) (*Outcome, error) {
	if len(w.rounds) == 0 {
		return nil, tasks.Permanent(errors.New("no recorded update of an anonymous device with a word; record more rounds"))
	}
	baseline, err := w.baseline(ctx)
	if err != nil {
		return nil, err
	}
	v := summarize(w.rounds)
	v.Devices, v.BaselineAP = len(w.frequent.updates), baseline
	if len(w.placed) > 0 {
		w.canaries.Found, v.Canaries = len(w.found), &w.canaries
	}
	return v, nil
}

// summarize takes means over all updates, and over those of ranges of rounds.
func summarize(rounds []Round) *Outcome {
	v := &Outcome{}
	size := (len(rounds) + maxRounds - 1) / maxRounds
	for some := range slices.Chunk(rounds, size) {
		sum := Round{Round: some[0].Round}
		for i := range some {
			sum.add(&some[i])
		}
		v.add(&sum)
		v.Rounds = append(v.Rounds, sum.mean())
	}
	v.Round = v.mean()
	v.Round.Round = rounds[len(rounds)-1].Round
	return v
}

// maxRounds is the maximum number of points of a curve.
const maxRounds = 100

// numbers returns the numbers that are summed over updates.
func (r *Round) numbers() []*float64 {
	return []*float64{&r.Words, &r.Named, &r.Hits, &r.Precision, &r.Recall, &r.AP}
}

func (r *Round) add(other *Round) {
	r.Updates += other.Updates
	for i, x := range other.numbers() {
		*r.numbers()[i] += *x
	}
}

func (r Round) mean() Round {
	for _, sum := range r.numbers() {
		*sum /= float64(r.Updates)
	}
	return r
}

func (w *measuring) readCanaries(ctx context.Context, t *tasks.Task) error {
	replacements := w.population.Replacements()
	if len(replacements) == 0 {
		return nil
	}
	placements, err := population.ReadPlacements(ctx, t, population.Input)
	if err != nil {
		return err
	}
	w.placed = lists.Map(placements, func(p population.Placement) []int32 { return lists.Filter(p.Tokens, ordinary) })
	w.held = map[int][]int{}
	for _, r := range replacements {
		if !slices.Contains(w.held[r.User], r.Canary) {
			w.held[r.User] = append(w.held[r.User], r.Canary)
		}
	}
	return nil
}

func ordinary(token int32) bool { return token >= text.FirstWord }

// addCanaries looks for every canary in a scored update.
func (w *measuring) addCanaries(device int) {
	for canary, words := range w.placed {
		if len(words) == 0 {
			continue
		}
		named := !slices.ContainsFunc(words, func(word int32) bool { return !w.naming.names(word) })
		if slices.Contains(w.held[device], canary) {
			w.canaries.Held.add(named)
			if named {
				w.found[canary] = true
			}
		} else {
			w.canaries.Others.add(named)
		}
	}
}

func (c *Count) add(named bool) {
	c.Of++
	if named {
		c.Named++
	}
	c.Share = float64(c.Named) / float64(c.Of)
}
