// Package probabilisticextraction computes the probability that a model, given the beginning of a
// canary, completes it by sampling (Hayes et al. 2024): the product of the probabilities of its
// tokens, without drawing samples, and the number of queries for a chance of one hit. It also
// decodes greedily from several lengths of the prefix (Carlini et al. 2022).
package probabilisticextraction

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Params struct {
	// Groups are all canaries, in order.
	Groups []Group `json:"groups"`
	models.Sampling
	// Queries and Chance are n and p: a canary is extractable if n samples contain it with at least that
	// chance.
	Queries int     `json:"queries"`
	Chance  float64 `json:"chance"`
}

// Group is a run of canaries with the same prefixes.
type Group struct {
	First int `json:"first"`
	Count int `json:"count"`
	// Prefix is the number of words for the outcome, Prefixes are all given numbers, ascending.
	Prefix   int   `json:"prefix"`
	Prefixes []int `json:"prefixes"`
}

// Kind measures all canaries of one checkpoint. Inputs: the checkpoint and
// audits.PlacementsInput.
var Kind = tasks.Kind{Name: "audits/probabilistic-extraction", Version: 1, Class: tasks.Compute, Run: audits.SummaryRun(measures, summarize)}

func summarize(ctx context.Context, t *tasks.Task, p *Params, placed []population.Placement) (*Outcome, []CanaryOutcome, error) {
	if err := p.check(placed); err != nil {
		return nil, nil, tasks.Permanent(err)
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, nil, err
	}
	outcomes := make([]CanaryOutcome, 0, len(placed))
	for _, g := range p.Groups {
		for block := range slices.Chunk(placed[g.First:g.First+g.Count], canaryBlock) {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			drawn, err := g.score(scorer, p.Sampling, block)
			if err != nil {
				return nil, nil, tasks.Permanent(fmt.Errorf("canaries from %d on: %w", block[0].Number, err))
			}
			for _, d := range drawn {
				outcomes = append(outcomes, p.outcome(&g, d))
			}
			t.Progress(tasks.Progress{Done: int64(len(outcomes)), Total: int64(len(placed))})
		}
	}
	v, err := p.judge(placed, outcomes)
	return v, outcomes, err
}

func (p *Params) check(placed []population.Placement) error {
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

func (g *Group) check(placed []population.Placement) error {
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

// canaryBlock is the number of canaries that are scored together. It does not affect results.
const canaryBlock = 192

// drawn holds, for each token of a canary, its log probability in a sample and whether it is the
// greedy choice.
type drawn struct {
	logProbs []float64
	greedy   []bool // whether it is the most probable token, the lowest of equals
}

func (g *Group) score(scorer *models.Scorer, s models.Sampling, block []population.Placement) ([]drawn, error) {
	vocabulary := scorer.Model().Config().Vocabulary
	states, tokens := scorer.Start(len(block)), make([]int32, len(block))
	rows, out := make([]float32, len(block)*vocabulary), make([]drawn, len(block))
	for i := range tokens {
		tokens[i] = text.Begin
	}
	for position := range block[0].Tokens {
		if err := scorer.Step(states, tokens); err != nil {
			return nil, err
		}
		for i, c := range block {
			tokens[i] = c.Tokens[position]
		}
		if position < g.Prefixes[0] {
			continue // given with every prefix
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
		return &models.DivergedError{Name: "log probability", Value: logProb}
	}
	d.logProbs, d.greedy = append(d.logProbs, logProb), append(d.greedy, ranking.Place(row, int(token)) == 0)
	return nil
}

// outcome summarizes a canary. The first drawn token is the one after the shortest prefix.
func (p *Params) outcome(g *Group, d drawn) CanaryOutcome {
	var o CanaryOutcome
	for _, prefix := range g.Prefixes {
		from := prefix - g.Prefixes[0]
		logP := 0.0
		for _, l := range d.logProbs[from:] {
			logP += l
		}
		after := After{Prefix: prefix, LogProbability: numbers.Finite(logP), Queries: numbers.Finite(Queries(logP, p.Chance)), Greedy: !slices.Contains(d.greedy[from:], false)}
		o.Prefixes = append(o.Prefixes, after)
		if prefix == g.Prefix {
			o.LogProbability, o.Queries, o.Greedy = after.LogProbability, after.Queries, &after.Greedy
			o.Extractable = new(after.Queries != nil && *after.Queries <= float64(p.Queries))
		}
	}
	return o
}

func (p *Params) judge(placed []population.Placement, outcomes []CanaryOutcome) (*Outcome, error) {
	sampled, err := audits.Count(placed, func(canary int) bool { return *outcomes[canary].Extractable })
	if err != nil {
		return nil, err
	}
	greedy, err := audits.Count(placed, func(canary int) bool { return *outcomes[canary].Greedy })
	if err != nil {
		return nil, err
	}
	v := &Outcome{
		Extractable: sampled.Memorized, Greedy: greedy.Memorized, Of: sampled.Of, Queries: p.Queries, Chance: p.Chance,
		Sampling: p.Sampling, Lowest: sampled.Lowest,
	}
	v.Curves, err = curves(placed, outcomes)
	return v, err
}

// curves groups the canaries by configuration, in order of first occurrence.
func curves(placed []population.Placement, outcomes []CanaryOutcome) ([]Curve, error) {
	var out []Curve
	var of [][]CanaryOutcome
	for i, p := range placed {
		c, err := audits.NewConfiguration(&p.Canary)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(out, func(o Curve) bool {
			return (o.Configuration == nil) == (c == nil) && (c == nil || *c == *o.Configuration)
		})
		if at < 0 {
			at, out, of = len(out), append(out, Curve{Configuration: c}), append(of, nil)
		}
		of[at] = append(of[at], outcomes[i])
	}
	for i := range out {
		out[i].Canaries, out[i].Points = len(of[i]), points(of[i])
	}
	return out, nil
}

// points returns the shares of the canaries that n samples extract, for n of 1, 10, ...
func points(outcomes []CanaryOutcome) []Point {
	out := make([]Point, 0, curvePowers+1)
	for n, power := 1.0, 0; power <= curvePowers; n, power = 10*n, power+1 {
		point := Point{Queries: n}
		for _, chance := range Chances {
			extractable := lists.Count(outcomes, func(o CanaryOutcome) bool {
				return o.LogProbability != nil && Queries(*o.LogProbability, chance) <= n
			})
			point.Shares = append(point.Shares, float64(extractable)/float64(len(outcomes)))
		}
		out = append(out, point)
	}
	return out
}

// logProbDrawn returns the natural logarithm of the probability that a sample takes the token, or -Inf.
func logProbDrawn(s models.Sampling, logProbs []float32, token int32) float64 {
	if s.Temperature == 1 && s.TopK == 0 {
		return min(0, float64(logProbs[token])) // rounding may exceed 0
	}
	among := logProbs
	if s.TopK > 0 && s.TopK < len(logProbs) {
		if ranking.Place(logProbs, int(token)) >= s.TopK {
			return math.Inf(-1)
		}
		among = slices.Clone(logProbs)
		slices.SortFunc(among, func(a, b float32) int { return cmp.Compare(b, a) })
		among = among[:s.TopK]
	}
	return min(0, float64(logProbs[token])/s.Temperature-logSum(s, among))
}

// logSum returns the logarithm of the sum of exp(l/Temperature).
func logSum(s models.Sampling, logProbs []float32) float64 {
	most, sum := float64(slices.Max(logProbs)), 0.0
	for _, l := range logProbs {
		sum += math.Exp((float64(l) - most) / s.Temperature)
	}
	return most/s.Temperature + math.Log(sum)
}

// EvenChance is the chance of Queries outside an experiment.
const EvenChance = 0.5

// Queries returns the smallest number n of independent samples that contain the sequence with the chance: 1 -
// (1-p)^n >= chance (Hayes et al. 2024), for log p the logarithm of its probability in one sample. It is a
// whole number, to a relative 1e-14. It is +Inf if p is 0 or n exceeds float64.
func Queries(logP, chance float64) float64 {
	if math.IsInf(logP, -1) {
		return math.Inf(1)
	}
	var n float64
	if none := numbers.LogOneMinusExp(logP); none < 0 {
		n = math.Log1p(-chance) / none
	} else { // p underflows float64
		n = math.Exp(math.Log(-math.Log1p(-chance)) - logP)
	}
	return max(1, math.Ceil(n*(1-1e-14)))
}
