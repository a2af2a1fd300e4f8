package probabilisticextraction

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

const vocabulary = 7

// allCanaries are all sequences of three tokens after token 4, special ones too.
func allCanaries() [][]int32 {
	var all [][]int32
	for i := range int32(vocabulary * vocabulary * vocabulary) {
		all = append(all, []int32{4, i / vocabulary / vocabulary, i / vocabulary % vocabulary, i % vocabulary})
	}
	return all
}

// measure audits an untrained model for canaries, of which the odd ones are held back.
func measure(t *testing.T, p Params, canaries [][]int32) (*taskstest.Node, Outcome, []CanaryOutcome, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	model := g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{Kind: models.GRU, Vocabulary: vocabulary, Embedding: 6, Units: 9}})
	var list []population.Placement
	for i, tokens := range canaries {
		c := population.Canary{Number: i, Tokens: tokens, UserProbability: "1/10", ExampleProbability: "1"}
		if c.HeldBack = i%2 == 1; c.HeldBack {
			c.UserProbability, c.ExampleProbability = "", ""
		}
		list = append(list, population.Placement{Canary: c, Users: 3, Insertions: 5})
	}
	node, err := g.Try(Kind, p, taskstest.In(audits.ModelInput, model), taskstest.In(audits.PlacementsInput, auditstest.Canaries(t, g, list)))
	if err != nil {
		return nil, Outcome{}, nil, err
	}
	v, outcomes := auditstest.Summarized[Outcome, CanaryOutcome](t, node)
	return node, v, outcomes, nil
}

// params are those of n canaries, in two groups if n is large.
func params(s models.Sampling, canaries int) Params {
	p := Params{Sampling: s, Queries: 300, Chance: 0.5}
	for first := 0; first < canaries; first += 200 {
		p.Groups = append(p.Groups, Group{First: first, Count: min(200, canaries-first), Prefix: 1, Prefixes: []int{1, 2, 3}})
	}
	return p
}

func measured(t *testing.T, s models.Sampling) (Outcome, []CanaryOutcome) {
	t.Helper()
	_, v, outcomes, err := measure(t, params(s, vocabulary*vocabulary*vocabulary), allCanaries())
	if err != nil {
		t.Fatal(err)
	}
	return v, outcomes
}

// A sample is one of all sequences, and greedy decoding gives one.
func TestTheProbabilitiesOfAllSequencesSumToOne(t *testing.T) {
	t.Parallel()
	for _, s := range []models.Sampling{{Temperature: 1}, {Temperature: 0.3}, {Temperature: 2, TopK: 3}, {Temperature: 1, TopK: 1}} {
		_, outcomes := measured(t, s)
		sum, greedy, possible := 0.0, 0, 0
		for i, o := range outcomes {
			if o.LogProbability != nil {
				possible++
				sum += math.Exp(*o.LogProbability)
			}
			if *o.Greedy {
				greedy++
				if s.TopK == 1 && *o.LogProbability != 0 {
					t.Errorf("%+v: sequence %d is what greedy decoding gives, at log probability %v", s, i, *o.LogProbability)
				}
			}
		}
		kept := vocabulary
		if s.TopK > 0 {
			kept = s.TopK
		}
		if possible != kept*kept*kept {
			t.Errorf("%+v: %d sequences are possible, want %d to the third", s, possible, kept)
		}
		if math.Abs(sum-1) > 1e-5 || greedy != 1 {
			t.Errorf("%+v: probabilities sum to %v, greedy decoding gives %d sequences; want 1 and 1", s, sum, greedy)
		}
	}
}

// Of 40,000 samples that are drawn token by token with a fixed seed, each sequence has
// its share: the chi-square statistic with 124 degrees of freedom exceeds 215 with
// probability 1e-6.
func TestSamplesHaveTheProbabilitiesThatAreComputed(t *testing.T) {
	t.Parallel()
	const samples, kept = 40_000, 5
	m := must.Get(models.New(models.Config{Kind: models.GRU, Vocabulary: vocabulary, Embedding: 6, Units: 9}))(t)
	scorer := must.Get(m.NewScorer(m.Init(rand.New(rand.NewPCG(3, 3)))))(t)
	rng, seen := rand.New(rand.NewPCG(11, 2)), map[string]float64{}
	for range samples {
		seen[fmt.Sprint(sample(t, scorer, rng, 0.7, kept))]++
	}
	var block []population.Placement
	for _, tokens := range allCanaries() {
		block = append(block, population.Placement{Canary: population.Canary{Tokens: tokens}})
	}
	p := params(models.Sampling{Temperature: 0.7, TopK: kept}, len(block))
	g := &p.Groups[0]
	scored := must.Get(g.score(scorer, p.Sampling, block))(t)
	chi, possible := 0.0, 0
	for i, c := range block {
		o := p.outcome(g, scored[i])
		if o.LogProbability == nil {
			continue
		}
		possible++
		expected := samples * math.Exp(*o.LogProbability)
		chi += math.Pow(seen[fmt.Sprint(c.Tokens[1:])]-expected, 2) / expected
		delete(seen, fmt.Sprint(c.Tokens[1:]))
	}
	if chi > 215 || possible != 125 || len(seen) > 0 {
		t.Errorf("chi-square %v over %d sequences, and samples %v of probability 0", chi, possible, seen)
	}
}

// sample draws three tokens after token 4.
func sample(t *testing.T, scorer *models.Scorer, rng *rand.Rand, temperature float64, kept int) []int32 {
	t.Helper()
	state := must.Get(audits.PrefixState(scorer, []int32{4}))(t)
	var out []int32
	for range 3 {
		row := make([]float32, vocabulary)
		must.Do(t, scorer.LogProbRows(state, row))
		least := slices.Sorted(slices.Values(row))[vocabulary-kept]
		weights, sum := make([]float64, vocabulary), 0.0
		for i, l := range row {
			if l >= least {
				weights[i] = math.Exp(float64(l) / temperature)
				sum += weights[i]
			}
		}
		token, rest := int32(0), rng.Float64()*sum
		for rest >= weights[token] {
			rest -= weights[token]
			token++
		}
		out = append(out, token)
		must.Do(t, scorer.Step(state, []int32{token}))
	}
	return out
}

// A longer prefix leaves fewer tokens to draw: its outcome is that of the rest alone.
func TestALongerPrefixLeavesLessToExtract(t *testing.T) {
	t.Parallel()
	_, outcomes := measured(t, models.Sampling{Temperature: 1.5})
	for i, o := range outcomes {
		if len(o.Prefixes) != 3 || o.Prefixes[0].Prefix != 1 || *o.Prefixes[0].LogProbability != *o.LogProbability || *o.Prefixes[0].Queries != *o.Queries || o.Prefixes[0].Greedy != *o.Greedy {
			t.Fatalf("sequence %d: %+v after its prefixes, %v after the first", i, o.Prefixes, *o.LogProbability)
		}
		for k := 1; k < 3; k++ {
			before, after := o.Prefixes[k-1], o.Prefixes[k]
			if *after.LogProbability < *before.LogProbability || *after.Queries > *before.Queries || before.Greedy && !after.Greedy {
				t.Errorf("sequence %d: %+v, and then %+v", i, before, after)
			}
		}
	}
}

// The outcome and its curves count the canaries' outcomes.
func TestTheOutcomeCountsWhatIsExtractable(t *testing.T) {
	t.Parallel()
	v, outcomes := measured(t, models.Sampling{Temperature: 1})
	extractable := 0
	for i, o := range outcomes {
		if *o.Extractable != (*o.Queries <= 300) {
			t.Errorf("sequence %d needs %v queries, extractable: %v", i, *o.Queries, *o.Extractable)
		}
		if i%2 == 0 && *o.Extractable {
			extractable++
		}
	}
	if v.Extractable != extractable || v.Of != 172 || v.Queries != 300 || v.Chance != 0.5 || v.Greedy > 1 {
		t.Errorf("outcome %+v of %d extractable ones", v, extractable)
	}
	if len(v.Curves) != 2 || v.Curves[0].Configuration.UserProbability != 0.1 || v.Curves[0].Canaries != 172 || v.Curves[1].Configuration != nil || v.Curves[1].Canaries != 171 {
		t.Fatalf("curves %+v, want one of the configuration and one of those held back", v.Curves)
	}
	for _, c := range v.Curves {
		if first, last := c.Points[0].Shares, c.Points[len(c.Points)-1].Shares; slices.Max(first) > 0.05 || slices.Min(last) != 1 || len(first) != len(Chances) {
			t.Errorf("shares %v for one sample, %v for 1e12", first, last)
		}
		for i := 1; i < len(c.Points); i++ {
			for j, share := range c.Points[i].Shares {
				if share < c.Points[i-1].Shares[j] || j > 0 && share > c.Points[i].Shares[j-1] {
					t.Errorf("shares fall with n, or rise with p: %+v", c.Points)
				}
			}
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	node, _, _, err := measure(t, params(models.Sampling{Temperature: 0.8, TopK: 5}, 30), allCanaries()[100:130])
	if err != nil {
		t.Fatal(err)
	}
	taskstest.Golden(t, node)
}

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(p *Params){
		"temperature 0":       func(p *Params) { p.Temperature = 0 },
		"top_k -1":            func(p *Params) { p.TopK = -1 },
		"chance 1 ":           func(p *Params) { p.Chance = 1 },
		"prefix among them":   func(p *Params) { p.Groups[0].Prefix = 5 },
		"which has 4 tokens":  func(p *Params) { p.Groups[0].Prefixes = []int{1, 4} },
		"0 to 1 after 0":      func(p *Params) { p.Groups[0].Count = 2 },
		"groups of 0":         func(p *Params) { p.Groups = nil },
		"vocabulary of 7":     nil,
		"expected them ascen": func(p *Params) { p.Groups[0].Prefixes = []int{3, 1} },
	} {
		p, canaries := params(models.Sampling{Temperature: 1}, 1), [][]int32{{4, 5, 6, 5}}
		if change == nil {
			canaries[0][3] = 7
		} else {
			change(&p)
		}
		if _, _, _, err := measure(t, p, canaries); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// For any model: of all sequences of the space, at most the bound's share is extractable.
func TestNoModelMakesMoreSequencesExtractableThanTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 8), 1, 200).Draw(rt, "weights")
		queries := rapid.IntRange(1, 300).Draw(rt, "queries")
		chance := rapid.Float64Range(0.01, 0.99).Draw(rt, "chance")
		total := 0.0
		for _, w := range weights {
			total += math.Exp2(w)
		}
		extractable := 0
		for _, w := range weights {
			if Queries(math.Log(math.Exp2(w)/total), chance) <= float64(queries) {
				extractable++
			}
		}
		share, bound := float64(extractable)/float64(len(weights)), extractableByChance(queries, chance, float64(len(weights)))
		if share > bound*(1+1e-9) {
			rt.Fatalf("%d of %d sequences are extractable, above the bound of %v", extractable, len(weights), bound)
		}
	})
}

// A model that writes m sequences alone, all alike, reaches it where m is 1/p.
func TestTheBoundIsReached(t *testing.T) {
	t.Parallel()
	const sequences, written, chance = 1000, 8, 0.5
	queries := int(Queries(-math.Log(written), chance)) // 6: 1 - (7/8)^6 is 0.551
	if bound := extractableByChance(queries, chance, sequences); bound < written/1000.0 || bound > (written+1.5)/1000 {
		t.Errorf("bound %v, want hardly more than %v", bound, written/1000.0)
	}
}
