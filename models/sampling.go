package models

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling is the distribution of the next token: the softmax of the logits divided by Temperature,
// over the TopK most probable tokens; in a tie, lower tokens first.
type Sampling struct {
	// Temperature is above 0; 1 draws from the model unchanged.
	Temperature float64 `json:"temperature" doc:"temperature of the samples"`
	// TopK limits the draw to the most probable tokens; 0 is no limit.
	TopK int `json:"top_k,omitempty" doc:"number of most probable tokens that are drawn from"`
}

// Check returns an error for an invalid temperature or number of tokens.
func (s Sampling) Check() error {
	if !(s.Temperature > 0) || math.IsInf(s.Temperature, 1) || s.TopK < 0 {
		return fmt.Errorf("sampling with temperature %v and top_k %d: want a temperature above 0, and a top_k of at least 0, 0 being all tokens", s.Temperature, s.TopK)
	}
	return nil
}

// Sample is a sequence drawn from a model.
type Sample struct {
	// Tokens are the tokens after the prefix. The last is Draw.End, unless the sample was
	// truncated.
	Tokens []int32
	// LogProbability is the natural logarithm of the joint probability of the tokens after the
	// prefix under the model, for any sampling: the float64 sum of their LogProbs, in order.
	LogProbability float64
}

// Draw describes the beginning and the end of samples.
type Draw struct {
	Sampling
	// Prefix is fed before the first drawn token: the begin token, and any after it.
	Prefix []int32
	// End is the token that ends a sample. A sample without End is truncated to AtMost tokens.
	End    int32
	AtMost int
}

func (d *Draw) check(vocabulary int) error {
	if err := d.Check(); err != nil {
		return err
	}
	if len(d.Prefix) == 0 || d.AtMost < 1 {
		return fmt.Errorf("samples of %d tokens after a prefix of %d: want at least one of each, the prefix being at least the begin token", d.AtMost, len(d.Prefix))
	}
	if err := checkTokens(d.Prefix, vocabulary); err != nil {
		return fmt.Errorf("prefix of samples: %w", err)
	}
	return nil
}

// Sample draws one sequence per stream, each token from the model's distribution given the previous
// tokens (ancestral sampling; Augenstein et al. 2020, equation 1). A token takes one float64 u from
// the stream: the token is the first at which the cumulative probability exceeds u, in the order of
// tokens or, with TopK, from the most probable on.
//
// A sample depends only on the parameters, the draw and its own stream, bit for bit, not on other
// samples. Samples with a common beginning share a state. Parameters that are not finite give a
// *DivergedError.
func (s *Scorer) Sample(d Draw, streams []*rand.Rand) ([]Sample, error) {
	if err := d.check(s.model.config.Vocabulary); err != nil || len(streams) == 0 {
		return nil, err
	}
	r := &sampler{scorer: s, draw: d, streams: streams, samples: make([]Sample, len(streams)), states: s.Start(1), next: new(States)}
	if err := s.Feed(r.states, d.Prefix); err != nil {
		return nil, err
	}
	for i := range streams {
		r.going = append(r.going, going{sample: i})
	}
	for {
		if err := r.drawTokens(); err != nil {
			return nil, err
		}
		r.going = slices.DeleteFunc(r.going, r.ended)
		if len(r.going) == 0 {
			return r.samples, nil
		}
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
}

// sampler holds the samples in progress.
type sampler struct {
	scorer       *Scorer
	draw         Draw
	streams      []*rand.Rand
	samples      []Sample
	going        []going // the unfinished samples, in the order of their states
	states, next *States // after each distinct beginning of samples
	rows         []float32
	tokens       distribution
}

// going is an unfinished sample: its state and the newest token.
type going struct {
	sample, state int
	token         int32
}

func (r *sampler) ended(g going) bool {
	return g.token == r.draw.End || len(r.samples[g.sample].Tokens) == r.draw.AtMost
}

// drawTokens draws the next token of every unfinished sample.
func (r *sampler) drawTokens() error {
	w := r.scorer.workspaces.Get().(*workspace)
	defer r.scorer.workspaces.Put(w)
	rest := r.going
	for from := 0; from < r.states.Len(); from += scoringBlock {
		to := min(from+scoringBlock, r.states.Len())
		r.logits(w, from, to)
		for state := from; state < to; state++ {
			n := 0
			for n < len(rest) && rest[n].state == state {
				n++
			}
			if err := r.drawAfter(&w.normaliser, state-from, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	return nil
}

// logits computes the rows of a block of states, and their normalisers.
func (r *sampler) logits(w *workspace, from, to int) {
	width := r.scorer.model.config.outputWidth()
	r.rows = grow(r.rows, (to-from)*r.scorer.model.config.Vocabulary)
	r.scorer.logitRows(w, r.states.top()[from*width:to*width], r.rows)
}

// drawAfter draws the next token of samples at one state, that of row i.
func (r *sampler) drawAfter(z *normaliser, i int, samples []going) error {
	logits := row(r.rows, i, r.scorer.model.config.Vocabulary)
	if err := r.tokens.set(r.draw.Sampling, logits, z, i); err != nil {
		return err
	}
	for at := range samples {
		g := &samples[at]
		g.token = r.tokens.draw(r.streams[g.sample].Float64())
		s := &r.samples[g.sample]
		s.Tokens = append(s.Tokens, g.token)
		s.LogProbability += float64(z.logProb(i, logits[g.token]))
	}
	return nil
}

// advance computes the states after the newest tokens, one per distinct sequence.
func (r *sampler) advance() error {
	slices.SortFunc(r.going, compareGoing)
	var parents []int
	var tokens []int32
	for i, g := range r.going {
		if last := len(parents) - 1; last < 0 || parents[last] != g.state || tokens[last] != g.token {
			parents, tokens = append(parents, g.state), append(tokens, g.token)
		}
		r.going[i].state = len(parents) - 1
	}
	if err := r.next.Gather(r.states, parents); err != nil {
		return err
	}
	r.states, r.next = r.next, r.states
	return r.scorer.Step(r.states, tokens)
}

func compareGoing(a, b going) int {
	return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.token, b.token), cmp.Compare(a.sample, b.sample))
}
