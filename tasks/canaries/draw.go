package canaries

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// Draw makes canaries: sequences of words drawn independently and uniformly over
// the ordinary words of the vocabulary, given that all first words differ. So
// canaries are distinct, and no two compete in a beam search that is prefixed by
// their first word.
//
// Over an alphabet there are too few first symbols for that. Canaries are then
// drawn given that they differ as a whole: several may begin alike, and of those
// whose prefix is the same a beam search can find one.
//
// Params: DrawParams. Input "parts": datasets/encode. Metrics: DrawMetrics.
// Blob "canaries": JSON array of datasets.Canary, PerConfiguration of each
// configuration in the order given, then those held back.
var Draw = tasks.Kind{Name: "canaries/draw", Version: 1, Class: tasks.Compute, Run: runDraw}

// DrawParams are the parameters of Draw.
type DrawParams struct {
	Seed uint64 `json:"seed"`
	// Configurations are distinct.
	Configurations []Configuration `json:"configurations"`
	// PerConfiguration canaries have the same configuration; at least 1.
	PerConfiguration int `json:"per_configuration"`
	Space
	// HeldBack canaries are drawn like the others and never inserted.
	HeldBack int `json:"held_back"`
}

// DrawMetrics says how many canaries there are.
type DrawMetrics struct {
	Canaries int `json:"canaries"` // those held back included
	HeldBack int `json:"held_back"`
}

// Canaries is the number of canaries, those held back included.
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
		if _, _, err := c.Parse(); err != nil {
			return err
		}
		if seen[c] {
			return fmt.Errorf("configuration (%s, %s) is given twice", c.UserProbability, c.ExampleProbability)
		}
		seen[c] = true
	}
	return nil
}

func runDraw(ctx context.Context, t *tasks.Task) error {
	var p DrawParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return tasks.Permanent(err)
	}
	vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
	if err != nil {
		return err
	}
	if err := p.fits(vocabulary); err != nil {
		return tasks.Permanent(err)
	}
	list := drawAll(seeds.Stream(p.Seed, seeds.Canaries), &p, vocabulary)
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := t.Put(ctx, datasets.CanariesBlob, data); err != nil {
		return err
	}
	return t.SetMetrics(DrawMetrics{Canaries: len(list), HeldBack: p.HeldBack})
}

// fits checks that the vocabulary has so many canaries.
func (p *DrawParams) fits(v *datasets.Vocabulary) error {
	n := v.Ordinary()
	if err := p.Space.Check(n); err != nil {
		return err
	}
	if p.Alphabet == "" {
		if n < p.Canaries() {
			return fmt.Errorf("%d canaries need as many different first words, and the vocabulary has %d; enlarge vocabulary.size or draw fewer canaries", p.Canaries(), n)
		}
		return nil
	}
	if room := p.Sequences(n, 0); float64(2*p.Canaries()) > room {
		return fmt.Errorf("%d different canaries of %d symbols; expected at most half of the %.0f sequences: make them longer or fewer", p.Canaries(), p.Words, room)
	}
	return nil
}

func drawAll(rng *rand.Rand, p *DrawParams, v *datasets.Vocabulary) []datasets.Canary {
	list := make([]datasets.Canary, p.Canaries())
	choices, taken, seen := p.Choices(v.Ordinary()), map[int32]bool{}, map[string]bool{}
	for i := range list {
		c := datasets.Canary{Number: i}
		if p.Alphabet == "" {
			c.Tokens = drawTokens(rng, choices, taken)
		} else {
			c.Tokens = DrawDistinct(rng, choices, seen)
		}
		for _, w := range c.Tokens {
			c.Words = append(c.Words, v.Words[w])
		}
		if n := i / p.PerConfiguration; n < len(p.Configurations) {
			c.UserProbability = p.Configurations[n].UserProbability
			c.ExampleProbability = p.Configurations[n].ExampleProbability
		} else {
			c.HeldBack = true
		}
		list[i] = c
	}
	return list
}

// drawTokens rejects first words that are taken, which leaves the others equally
// likely.
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

// DrawDistinct draws a sequence, again where it was seen.
func DrawDistinct(rng *rand.Rand, choices [][]int32, seen map[string]bool) []int32 {
	tokens := make([]int32, len(choices))
	for {
		for i, among := range choices {
			tokens[i] = drawOne(rng, among)
		}
		if name := fmt.Sprint(tokens); !seen[name] {
			seen[name] = true
			return tokens
		}
	}
}

func drawOne(rng *rand.Rand, among []int32) int32 { return among[rng.IntN(len(among))] }
