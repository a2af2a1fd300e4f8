package onerun

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Learned exchanges words of canaries until their gradients at the initial model hardly overlap. The change
// of the model along a canary's gradient shows the canary. Gradients of others hide it, each by the square of
// its cosine with the canary's. The task lowers the sum of these squares over all pairs of canaries, and over
// canaries and users, by greedy exchange. It starts from own words (canaries.OwnWord). In each pass and for
// each canary it proposes a random word for all places, another for every second place and one for each
// place, and takes a proposal if the sum falls.
//
// The objective follows the idea of canaries optimized for an audit (Boglioni et al. 2025, arXiv 2507.15836),
// the exchange of tokens that of HotFlip (Ebrahimi et al. 2018). Both choose tokens by second derivatives,
// which the trainer does not compute; here the proposals are random. The task knows the initial model and
// users' data, but neither the coins nor a trained model.
//
// Cosines are those of sketches: element i of a gradient, with a random sign, is added to element i modulo
// sketchLength. A sketched cosine has the right mean, and an error of about 1/sqrt(sketchLength).
//
// Params: LearnedParams. Inputs: "initial", the model before training; "population", "shards", "parts" as of
// Coins. Metrics: LearnedMetrics. Blob:
//
//	canaries  JSON array of the tokens of each canary; all differ
var Learned = tasks.Kind{Name: "canaries/learned", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runLearned)}

// LearnedInput is the input of Coins for the design learned.
const LearnedInput = "learned"

// LearnedParams are the parameters of Learned.
type LearnedParams struct {
	Seed     uint64 `json:"seed"`
	Canaries int    `json:"canaries"`
	// Space has no alphabet.
	canaries.Space
	// Passes is the number of passes over all canaries.
	Passes int `json:"passes"`
}

// LearnedMetrics has the mean over canaries of the sum of squared cosines with the gradients of all other
// canaries and users, before and after the exchange.
type LearnedMetrics struct {
	Before    float64 `json:"overlap_before"`
	After     float64 `json:"overlap_after"`
	Exchanged int     `json:"exchanged"` // accepted proposals
}

const (
	learnedPasses = 2
	// widerProposals are those of a word for more than one place.
	widerProposals = 2
	// maxLearned bounds the comparison of all pairs of canaries.
	maxLearned = 5000
	// learnedUsers is the largest number of users whose gradients are avoided.
	learnedUsers = 100
	sketchLength = 4096
	signsOfWord  = 64 // divides sketchLength
)

func runLearned(ctx context.Context, t *tasks.Task, p *LearnedParams) error {
	vocabulary, pop, err := readData(ctx, t)
	if err != nil {
		return err
	}
	model, err := checkpoints.Read(ctx, t, InitialInput)
	if err != nil {
		return err
	}
	l := newLearning(p, model)
	if err := l.begin(vocabulary.Ordinary(), pop.Index().Sequence); err != nil {
		return tasks.Permanent(err)
	}
	if err := l.avoid(ctx, pop); err != nil {
		return err
	}
	metrics := LearnedMetrics{Before: l.overlap()}
	for range p.Passes {
		for i := range l.canaries {
			if err := ctx.Err(); err != nil {
				return err
			}
			exchanged, err := l.exchange(i)
			if err != nil {
				return tasks.Permanent(err)
			}
			metrics.Exchanged += exchanged
		}
	}
	metrics.After = l.overlap()
	if err := t.PutJSON(ctx, population.CanariesBlob, l.canaries); err != nil {
		return err
	}
	return t.SetMetrics(metrics)
}

// learning holds canaries and the sketches of their unit gradients.
type learning struct {
	params   *LearnedParams
	learner  models.Learner
	at       []float32 // the trained parameters
	gradient []float32
	signs    []uint64
	words    *rand.Rand

	choices  [][]int32
	canaries [][]int32
	seen     map[string]bool
	longest  int
	sketches [][]float32 // of canaries
	users    [][]float32
}

func newLearning(p *LearnedParams, model *checkpoints.Model) *learning {
	trained := model.Network.Trained()
	l := &learning{
		params: p, learner: model.Network.NewLearner(model.Params[trained:]), at: model.Params[:trained], gradient: make([]float32, trained),
		signs: make([]uint64, (trained+signsOfWord-1)/signsOfWord), words: seeds.Stream(p.Seed, seeds.LearnedCanaries), seen: map[string]bool{},
	}
	source := seeds.Source(p.Seed, seeds.LearnedCanaries, 1)
	for i := range l.signs {
		l.signs[i] = source.Uint64()
	}
	return l
}

// begin sets the canaries to own words. Sequences are cut to longest words.
func (l *learning) begin(ordinary, longest int) error {
	p := l.params
	if err := p.Space.Check(ordinary); err != nil {
		return err
	}
	if p.Canaries < 1 || p.Canaries > ordinary {
		return fmt.Errorf("%d learned canaries; expected from 1 to %d, the words of the vocabulary: each begins as a word of its own", p.Canaries, ordinary)
	}
	l.choices, l.longest = p.Choices(ordinary), longest
	for i := range p.Canaries {
		tokens := p.DrawDistinct(l.words, canaries.OwnWord.Choose(l.choices, i), l.seen)
		sketch, err := l.sketchOf(i, tokens)
		if err != nil {
			return err
		}
		l.canaries, l.sketches = append(l.canaries, tokens), append(l.sketches, sketch)
	}
	return nil
}

// sketchOf returns the sketch of a canary, as an example of a user.
func (l *learning) sketchOf(canary int, tokens []int32) ([]float32, error) {
	sketch, err := l.sketch([][]int32{text.Frame(nil, tokens, l.longest)})
	if err != nil {
		return nil, fmt.Errorf("canary %d: %w", canary, err)
	}
	return sketch, nil
}

// avoid sketches the gradients of users: all, or learnedUsers of them, drawn.
func (l *learning) avoid(ctx context.Context, pop *population.Population) error {
	users := seeds.Stream(l.params.Seed, seeds.LearnedCanaries, 2).Perm(pop.Users())
	for _, u := range users[:min(len(users), learnedUsers)] {
		sentences, err := pop.ReadUser(ctx, u)
		if err != nil {
			return err
		}
		if len(sentences) == 0 {
			continue
		}
		sketch, err := l.sketch(sentences)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("user %d: %w", u, err))
		}
		l.users = append(l.users, sketch)
	}
	return nil
}

// sketch returns the sketch of the gradient of sentences over its norm; zeros for a gradient of 0.
func (l *learning) sketch(sentences [][]int32) ([]float32, error) {
	if _, err := l.learner.Gradient(l.at, sentences, l.gradient); err != nil {
		return nil, fmt.Errorf("gradient at the initial model: %w", err)
	}
	sums := make([]float64, sketchLength)
	for block, signs := range l.signs {
		first := block * signsOfWord
		part := l.gradient[first:min(first+signsOfWord, len(l.gradient))]
		into := sums[first%sketchLength:][:len(part)]
		for i, v := range part {
			into[i] += float64(math.Float32frombits(math.Float32bits(v) ^ uint32(signs&1)<<31))
			signs >>= 1
		}
	}
	out := make([]float32, sketchLength)
	if norm := math.Sqrt(kernels.SquaredNorm(l.gradient)); norm > 0 {
		for i, v := range sums {
			out[i] = float32(v / norm)
		}
	}
	return out, nil
}

// overlaps returns the sum of squared cosines of a sketch with those of the users, and of the canaries other
// than the given one.
func (l *learning) overlaps(sketch []float32, except int) float64 {
	sum := 0.0
	add := func(other []float32) {
		cosine := kernels.Dot(sketch, other)
		sum += float64(cosine * cosine)
	}
	for i, other := range l.sketches {
		if i != except {
			add(other)
		}
	}
	for _, other := range l.users {
		add(other)
	}
	return sum
}

func (l *learning) overlap() float64 {
	sum := 0.0
	for i, sketch := range l.sketches {
		sum += l.overlaps(sketch, i)
	}
	return sum / float64(len(l.sketches))
}

// propose puts a random word into all places of a canary (proposal 0), into the second and every second after it
// (1), or into one place.
func (l *learning) propose(canary, proposal int) []int32 {
	tokens, among := slices.Clone(l.canaries[canary]), l.choices[0]
	place, step := proposal, 1+proposal
	if proposal >= widerProposals {
		place, step = proposal-widerProposals, len(tokens)
	}
	for word := among[l.words.IntN(len(among))]; place < len(tokens); place += step {
		tokens[place] = word
	}
	return tokens
}

// exchange makes all proposals for a canary, and returns the number of accepted ones.
func (l *learning) exchange(canary int) (exchanged int, err error) {
	least := l.overlaps(l.sketches[canary], canary)
	for proposal := range widerProposals + l.params.Words {
		tokens := l.propose(canary, proposal)
		if l.seen[fmt.Sprint(tokens)] {
			continue
		}
		sketch, err := l.sketchOf(canary, tokens)
		if err != nil {
			return 0, err
		}
		if overlap := l.overlaps(sketch, canary); overlap < least {
			delete(l.seen, fmt.Sprint(l.canaries[canary]))
			l.seen[fmt.Sprint(tokens)] = true
			l.canaries[canary], l.sketches[canary], least = tokens, sketch, overlap
			exchanged++
		}
	}
	return exchanged, nil
}
