package canaries

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/readable"
	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Draw makes canaries: for each of the spaces PerConfiguration of each configuration, and
// HeldBack more.
//
// If every position allows every ordinary word, words are drawn independently and uniformly, given
// that all first words differ. So canaries are distinct, and no two compete in a beam search
// prefixed by their first word.
//
// Over an alphabet, a format or listed words there are too few first symbols for that. Canaries are
// then drawn given that they differ as a whole: several may have the same prefix, and a beam search
// can find one of these.
//
// The first space has the stream of the seed, and each further space its own stream, so that its
// canaries do not depend on those of other spaces, except that no canary is drawn twice.
//
// Params: DrawParams. Input "parts": datasets/encode. Metrics: DrawMetrics. Blobs:
//
//	canaries  JSON array of population.Canary: those of the first space, which are
//	          PerConfiguration of each configuration in the order given and then those
//	          held back; then those of the next space, in the same order
//	spaces    SpacesBlob, where a space names words
var Draw = tasks.Kind{Name: "canaries/draw", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runDraw)}

// DrawParams are the parameters of Draw.
type DrawParams struct {
	Seed uint64 `json:"seed"`
	// Configurations are distinct.
	Configurations []Configuration `json:"configurations"`
	// PerConfiguration is the number of canaries of each space with the same configuration; at
	// least 1.
	PerConfiguration int `json:"per_configuration"`
	Space
	// HeldBack is the number of canaries of each space that are drawn but never inserted.
	HeldBack int `json:"held_back"`
	// More lists further spaces. All spaces differ.
	More []Space `json:"more,omitempty"`
}

// DrawMetrics counts the canaries.
type DrawMetrics struct {
	Canaries int `json:"canaries"` // including those held back
	HeldBack int `json:"held_back"`
}

// Spaces returns the spaces that canaries are drawn from, in order.
func (p *DrawParams) Spaces() []Space { return append([]Space{p.Space}, p.More...) }

// Canaries returns the number of canaries of each space, including those held back.
func (p *DrawParams) Canaries() int {
	return len(p.Configurations)*p.PerConfiguration + p.HeldBack
}

func (p *DrawParams) check() error {
	switch {
	case len(p.Configurations) == 0:
		return fmt.Errorf("no configuration of canaries; expected at least one")
	case p.PerConfiguration < 1:
		return fmt.Errorf("per_configuration is %d; expected at least 1", p.PerConfiguration)
	case p.HeldBack < 0:
		return fmt.Errorf("held_back is %d; expected at least 0", p.HeldBack)
	}
	seen := map[Configuration]bool{}
	for _, c := range p.Configurations {
		if err := c.Check(); err != nil {
			return err
		}
		if chosen := p.Configurations[0].Times > 0; chosen != (c.Times > 0) {
			return fmt.Errorf("configurations (%s) and (%s) together; expected probabilities alone, or numbers of times", p.Configurations[0], c)
		}
		if seen[c] {
			return fmt.Errorf("configuration (%s) is given twice", c)
		}
		seen[c] = true
	}
	spaces := p.Spaces()
	for i, s := range spaces {
		if slices.Contains(spaces[:i], s) {
			return fmt.Errorf("canaries %q are asked for twice; expected formats that differ", s)
		}
	}
	return nil
}

func runDraw(ctx context.Context, t *tasks.Task, p *DrawParams) error {
	if err := p.check(); err != nil {
		return tasks.Permanent(err)
	}
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return err
	}
	list, err := drawAll(p, vocabulary)
	if err != nil {
		return tasks.Permanent(err)
	}
	if err := t.PutJSON(ctx, population.CanariesBlob, list); err != nil {
		return err
	}
	if err := p.putSpaces(ctx, t, vocabulary); err != nil {
		return err
	}
	return t.SetMetrics(DrawMetrics{Canaries: len(list), HeldBack: p.HeldBack * len(p.Spaces())})
}

func (p *DrawParams) putSpaces(ctx context.Context, t *tasks.Task, v *text.Vocabulary) error {
	var resolved []Resolved
	for _, s := range p.Spaces() {
		if !s.NamesWords() {
			continue
		}
		r, err := s.Resolve(v)
		if err != nil {
			return tasks.Permanent(err)
		}
		resolved = append(resolved, r)
	}
	if resolved == nil {
		return nil
	}
	return t.PutJSON(ctx, SpacesBlob, resolved)
}

// fits checks that a space has enough sequences for its canaries.
func (p *DrawParams) fits(s Space, v *text.Vocabulary) error {
	n := v.Ordinary()
	if err := s.Check(n); err != nil {
		return err
	}
	if s.Free() {
		if n < p.Canaries() {
			return fmt.Errorf("%d canaries need as many different first words, and the vocabulary has %d; enlarge vocabulary.size or draw fewer canaries", p.Canaries(), n)
		}
		return nil
	}
	if room := s.Sequences(n, 0); float64(2*p.Canaries()) > room {
		return fmt.Errorf("%d different canaries of %s; expected at most half of the %.0f sequences: make them longer or fewer", p.Canaries(), readable.Count(s.Words, "symbol"), room)
	}
	return nil
}

func drawAll(p *DrawParams, v *text.Vocabulary) ([]population.Canary, error) {
	var list []population.Canary
	seen := map[string]bool{}
	for i, s := range p.Spaces() {
		if err := p.fits(s, v); err != nil {
			return nil, err
		}
		choices, err := s.ChoicesIn(v)
		if err != nil {
			return nil, err
		}
		draw := func(rng *rand.Rand) []int32 { return s.DrawDistinct(rng, choices, seen) }
		if s.Free() {
			taken := map[int32]bool{}
			draw = func(rng *rand.Rand) []int32 { return drawTokens(rng, choices, taken) }
		}
		rng := stream(p.Seed, i)
		for n := range p.Canaries() {
			c := p.canary(n, len(list), draw(rng), v)
			if len(p.More) > 0 {
				c.Format = s.String()
				if v.Level() == text.SubwordLevel {
					c.Format = s.ShortString()
				}
			}
			list = append(list, c)
		}
	}
	return list, nil
}

// stream returns the random numbers of a space, by its index.
func stream(seed uint64, space int) *rand.Rand {
	if space == 0 {
		return seeds.Stream(seed, seeds.Canaries)
	}
	return seeds.Stream(seed, seeds.Canaries, uint64(space))
}

// canary returns canary n of its space, with its overall number.
func (p *DrawParams) canary(n, number int, tokens []int32, v *text.Vocabulary) population.Canary {
	c := population.Canary{Number: number, Tokens: tokens, Words: text.WordsAt(v.Words, tokens)}
	if i := n / p.PerConfiguration; i < len(p.Configurations) {
		p.Configurations[i].set(&c)
	} else {
		c.HeldBack = true
	}
	return c
}

// drawTokens draws tokens with a first word that is not taken. It rejects taken words, so the others stay
// equally likely.
func drawTokens(rng *rand.Rand, choices [][]int32, taken map[int32]bool) []int32 {
	tokens := []int32{drawOne(rng, choices[0])}
	for taken[tokens[0]] {
		tokens[0] = drawOne(rng, choices[0])
	}
	taken[tokens[0]] = true
	for _, among := range choices[1:] {
		tokens = append(tokens, drawOne(rng, among))
	}
	return tokens
}

// DrawDistinct draws a sequence that has not been seen.
func (s Space) DrawDistinct(rng *rand.Rand, choices [][]int32, seen map[string]bool) []int32 {
	tokens, draw := make([]int32, len(choices)), s.Sampler(choices, 0)
	for {
		draw(rng, tokens)
		if name := fmt.Sprint(tokens); !seen[name] {
			seen[name] = true
			return tokens
		}
	}
}

// Sampler returns a function that draws the continuation of a prefix, all sequences of the space
// equally likely: a token from the choices of each position or, if symbols are whole words, a word.
// row has the length of choices.
func (s Space) Sampler(choices [][]int32, prefix int) func(rng *rand.Rand, row []int32) {
	if s.WholeWords() {
		return s.wordSampler(choices, prefix)
	}
	return func(rng *rand.Rand, row []int32) {
		for i, among := range choices {
			row[i] = drawOne(rng, among)
		}
		s.CompletePair(row, prefix)
	}
}

func (s Space) wordSampler(choices [][]int32, prefix int) func(rng *rand.Rand, row []int32) {
	places, symbols := s.places()[prefix:], s.symbols()
	return func(rng *rand.Rand, row []int32) {
		for i, place := range places {
			switch {
			case isBlank(place):
				for j, b := range []byte(symbols[rng.IntN(len(symbols))]) {
					row[i+j] = byteToken(b)
				}
			case place != rest:
				row[i] = choices[i][0]
			}
		}
		s.CompletePair(row, prefix)
	}
}

func drawOne(rng *rand.Rand, among []int32) int32 { return among[rng.IntN(len(among))] }
