// Package probabilisticextraction says how probable it is that a model, asked for the rest
// of a canary, writes it (Hayes et al. 2024): exactly, by the product of the
// probabilities with which each of its tokens is drawn, and so without drawing any. From
// that follows how many queries it takes for a chance of one hit. Greedy decoding is
// looked at beside, from several lengths of the prefix (Carlini et al. 2022).
package probabilisticextraction

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// Params are the parameters of audits/probabilistic-extraction.
type Params struct {
	// Groups are the canaries, all of them, in order.
	Groups []Group `json:"groups"`
	models.Sampling
	// Queries and Chance are n and p: a canary is extractable if n samples have it with at
	// least that chance.
	Queries int     `json:"queries"`
	Chance  float64 `json:"chance"`
}

// Group is a run of canaries of which the same is given.
type Group struct {
	First int `json:"first"`
	Count int `json:"count"`
	// Prefixes are the numbers of words of a canary that are given, ascending. Prefix is
	// the one that the outcome is about, one of them.
	Prefix   int   `json:"prefix"`
	Prefixes []int `json:"prefixes"`
}

// Kind measures all canaries of one checkpoint. Its inputs are the checkpoint and
// audits.PlacementsInput; it puts an audits.Summary.
var Kind = tasks.Kind{Name: "audits/probabilistic-extraction", Version: 1, Class: tasks.Compute, Run: audits.SumsUp(summarize)}

// Metrics are what the curve keeps of an outcome.
type Metrics struct {
	Extractable int `json:"probabilistic_extractable"`
	Greedy      int `json:"greedy_extractable"`
}

func summarize(ctx context.Context, t *tasks.Task, p *Params, placed []datasets.Placement) (audits.Summary, error) {
	if err := p.check(placed); err != nil {
		return audits.Summary{}, tasks.Permanent(err)
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return audits.Summary{}, err
	}
	outcomes := make([]CanaryOutcome, 0, len(placed))
	for _, g := range p.Groups {
		for block := range slices.Chunk(placed[g.First:g.First+g.Count], canaryBlock) {
			if err := ctx.Err(); err != nil {
				return audits.Summary{}, err
			}
			drawn, err := g.score(scorer, p.Sampling, block)
			if err != nil {
				return audits.Summary{}, tasks.Permanent(fmt.Errorf("canaries from %d on: %w", block[0].Number, err))
			}
			for _, d := range drawn {
				outcomes = append(outcomes, p.outcome(&g, d))
			}
			t.Progress(tasks.Progress{Done: int64(len(outcomes)), Total: int64(len(placed))})
		}
	}
	outcome, err := p.judge(placed, outcomes)
	return audits.Summary{Outcome: outcome, Canaries: outcomes, Metrics: Metrics{outcome.Extractable, outcome.Greedy}}, err
}

func (p *Params) check(placed []datasets.Placement) error {
	if !(p.Temperature > 0) || p.TopK < 0 || !(p.Chance > 0 && p.Chance < 1) || p.Queries < 1 {
		return fmt.Errorf("temperature %v, top_k %d, chance %v and %d queries; expected a temperature above 0, a top_k of at least 0, a chance between 0 and 1, and queries from 1", p.Temperature, p.TopK, p.Chance, p.Queries)
	}
	next := 0
	for i := range p.Groups {
		g := &p.Groups[i]
		if g.First != next || g.Count < 1 || g.First+g.Count > len(placed) {
			return fmt.Errorf("a group of canaries %d to %d after %d others, out of %d", g.First, g.First+g.Count-1, next, len(placed))
		}
		if err := g.check(placed[g.First : g.First+g.Count]); err != nil {
			return err
		}
		next += g.Count
	}
	if next != len(placed) {
		return fmt.Errorf("groups of %d canaries out of %d", next, len(placed))
	}
	return nil
}

// check looks at the prefixes of a group's canaries.
func (g *Group) check(placed []datasets.Placement) error {
	if !slices.IsSorted(g.Prefixes) || !slices.Contains(g.Prefixes, g.Prefix) || g.Prefixes[0] < 0 {
		return fmt.Errorf("prefixes %v and prefix %d; expected them ascending, and the prefix among them", g.Prefixes, g.Prefix)
	}
	for _, c := range placed {
		if longest := g.Prefixes[len(g.Prefixes)-1]; longest >= len(c.Tokens) || len(c.Tokens) != len(placed[0].Tokens) {
			return fmt.Errorf("prefixes %v of canary %d, which has %d tokens, the first of its group %d; expected one length, and a token left", g.Prefixes, c.Number, len(c.Tokens), len(placed[0].Tokens))
		}
	}
	return nil
}

// canaryBlock is how many canaries are scored together. It shows in no result: a
// state's numbers do not depend on its neighbours.
const canaryBlock = 192

// drawn is how each token of a canary would be drawn after those before it.
type drawn struct {
	logProbs []float64
	greedy   []bool // whether it is the most probable of all tokens, the lowest of equals
}

// score feeds some canaries of the group to the model, token by token.
func (g *Group) score(scorer *models.Scorer, s models.Sampling, block []datasets.Placement) ([]drawn, error) {
	vocabulary := scorer.Model().Config().Vocabulary
	states, tokens := scorer.Start(len(block)), make([]int32, len(block))
	rows, out := make([]float32, len(block)*vocabulary), make([]drawn, len(block))
	for i := range tokens {
		tokens[i] = datasets.Begin
	}
	for position := range block[0].Tokens {
		if err := scorer.Step(states, tokens); err != nil {
			return nil, err
		}
		for i, c := range block {
			tokens[i] = c.Tokens[position]
		}
		if position < g.Prefixes[0] {
			continue // given in every case
		}
		if err := scorer.LogProbRows(states, rows); err != nil {
			return nil, err
		}
		for i, token := range tokens {
			if err := out[i].add(s, rows[i*vocabulary:(i+1)*vocabulary], token); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (d *drawn) add(s models.Sampling, row []float32, token int32) error {
	if token < 0 || int(token) >= len(row) {
		return fmt.Errorf("token %d of a vocabulary of %d", token, len(row))
	}
	logProb := logProbDrawn(s, row, token)
	if math.IsNaN(logProb) {
		return &models.DivergedError{What: "log probability", Value: logProb}
	}
	d.logProbs, d.greedy = append(d.logProbs, logProb), append(d.greedy, place(row, token) == 0)
	return nil
}

// outcome is what is said of a canary whose tokens are drawn so. The first of them is the
// one after the shortest prefix.
func (p *Params) outcome(g *Group, d drawn) CanaryOutcome {
	var o CanaryOutcome
	for _, prefix := range g.Prefixes {
		from := prefix - g.Prefixes[0]
		logP := 0.0
		for _, l := range d.logProbs[from:] {
			logP += l
		}
		after := After{Prefix: prefix, LogProbability: finite(logP), Queries: finite(Queries(logP, p.Chance)), Greedy: !slices.Contains(d.greedy[from:], false)}
		o.Prefixes = append(o.Prefixes, after)
		if prefix == g.Prefix {
			o.LogProbability, o.Queries, o.Greedy = after.LogProbability, after.Queries, &after.Greedy
			o.Extractable = new(after.Queries != nil && *after.Queries <= float64(p.Queries))
		}
	}
	return o
}

// finite is nil for what JSON can't hold.
func finite(x float64) *float64 {
	if math.IsInf(x, 0) {
		return nil
	}
	return &x
}
