package probabilisticextraction

import (
	"encoding/json"
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
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
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
func TestOutcomeCountsExtractableCanaries(t *testing.T) {
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

func TestParametersAreChecked(t *testing.T) {
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

// A translation is drawn token by token after the source, so that minus the logarithm of its
// probability is the log-perplexity of its rest, which training and evaluation compute.
func TestATranslationIsDrawnWithTheProbabilityOfItsTokens(t *testing.T) {
	t.Parallel()
	pair := slices.Concat(bytesOf("pin?"), []int32{text.Separator}, bytesOf("pin 12"))
	g := taskstest.NewGraph(t)
	model := taskstest.In(audits.ModelInput, translator(g))
	placed := auditstest.Canaries(t, g, []population.Placement{{Canary: population.Canary{Tokens: pair, InsertedTimes: 1}, Insertions: 1}})
	node := g.Run(Kind, Params{
		Groups: []Group{{Count: 1, Prefix: 9, Prefixes: []int{5, 9}}}, Sampling: models.Sampling{Temperature: 1}, Queries: 1000, Chance: 0.5,
	}, model, taskstest.In(audits.PlacementsInput, placed))
	var outcomes []CanaryOutcome
	must.Do(t, json.Unmarshal(node.Blob(audits.CanaryOutcomesBlob), &outcomes))
	scorer := must.Get(checkpoints.ReadScorer(t.Context(), g.Task(model), audits.ModelInput))(t)
	for _, after := range outcomes[0].Prefixes {
		want := costOf(t, scorer, pair, after.Prefix)
		if got := -*after.LogProbability; math.Abs(got-want) > 1e-5*want {
			t.Errorf("after %d tokens the rest costs %v nats, want %v", after.Prefix, got, want)
		}
	}
}

// translator is an untrained model of pairs of bytes.
func translator(g *taskstest.Graph) *taskstest.Node {
	return g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{
		Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 8, Units: 12, Layers: 2, Projection: models.Unprojected, Untied: true,
		Separator: text.Separator,
	}})
}

func bytesOf(content string) []int32 {
	var tokens []int32
	for _, b := range []byte(content) {
		tokens = append(tokens, int32(text.FirstWord)+int32(b))
	}
	return tokens
}

// costOf is the loss of a pair less that of its first tokens, in nats. A source alone costs none.
func costOf(t *testing.T, s *models.Scorer, pair []int32, prefix int) float64 {
	t.Helper()
	whole := slices.Concat([]int32{text.Begin}, pair)
	pairs := [][]int32{whole}
	if pair[prefix-1] != text.Separator {
		pairs = append(pairs, whole[:1+prefix])
	}
	losses := must.Get(s.Losses(pairs))(t)
	rest := losses[0].Sum
	for _, first := range losses[1:] {
		rest -= first.Sum
	}
	return rest
}

// near says whether two numbers agree to a relative 1e-12, or to 1e-12 near 0.
func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-12*max(1, math.Abs(a)) }

func by(temperature float64, topK int) models.Sampling {
	return models.Sampling{Temperature: temperature, TopK: topK}
}

func normalised(logits []float64) []float32 {
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(l)
	}
	out := make([]float32, len(logits))
	for i, l := range logits {
		out[i] = float32(l - math.Log(sum))
	}
	return out
}

// The probabilities of all tokens sum to 1, and are those of the definition: exp(l/T) over
// its sum, here over the tokens kept.
func TestTokenProbabilityIsShareOfKeptTokens(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 50 {
		logits := make([]float64, 30)
		for i := range logits {
			logits[i] = 6 * rng.NormFloat64()
		}
		row := normalised(logits)
		for _, s := range []models.Sampling{by(1, 0), by(0.5, 0), by(2.5, 7), by(1, 1), by(1, 29), by(0.01, 30), by(1, 1000)} {
			kept := make([]int, len(row))
			for i := range kept {
				kept[i] = i
			}
			slices.SortStableFunc(kept, func(a, b int) int { return int(math.Copysign(1, float64(row[b]-row[a]))) })
			if s.TopK > 0 {
				kept = kept[:min(s.TopK, len(kept))]
			}
			sum, total := 0.0, 0.0
			for _, i := range kept {
				sum += math.Exp((float64(row[i]) - float64(row[kept[0]])) / s.Temperature)
			}
			for i := range row {
				got, want := logProbDrawn(s, row, int32(i)), math.Inf(-1)
				if slices.Contains(kept, i) {
					want = (float64(row[i])-float64(row[kept[0]]))/s.Temperature - math.Log(sum)
				}
				if s == by(1, 0) {
					want = float64(row[i]) // already normalised, in float32
				}
				if !near(got, want) {
					t.Errorf("%+v: token %d has %v, by definition %v", s, i, got, want)
				}
				total += math.Exp(got)
			}
			if math.Abs(total-1) > 1e-5 {
				t.Errorf("%+v: the probabilities sum to %v", s, total)
			}
		}
	}
}

func TestTopKKeepsLowerOfEqualTokens(t *testing.T) {
	t.Parallel()
	row := normalised([]float64{0, 2, 2, 2, 1})
	for token, want := range []float64{math.Inf(-1), -math.Ln2, -math.Ln2, math.Inf(-1), math.Inf(-1)} {
		if got := logProbDrawn(by(3, 2), row, int32(token)); !near(got, want) && !math.IsInf(want, -1) || math.IsInf(want, -1) != math.IsInf(got, -1) {
			t.Errorf("token %d has %v, want %v", token, got, want)
		}
	}
}

// chanceOf is the chance that one of n samples is a sequence of probability p.
func chanceOf(n, p float64) float64 { return -math.Expm1(n * math.Log1p(-p)) }

func TestQueriesAreTheFewestThatHaveTheChance(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{0.9, 0.5, 0.3, 0.25, 0.1, 1e-3, 1.0 / 3, 0.999} {
		for _, chance := range []float64{0.001, 0.1, 0.5, 0.75, 0.9, 0.99, 0.999999} {
			n := Queries(math.Log(p), chance)
			if n < 1 || n != math.Trunc(n) || chanceOf(n, p) < chance*(1-1e-12) || n > 1 && chanceOf(n-1, p) >= chance*(1+1e-12) {
				t.Errorf("p %v, chance %v: %v samples have a chance of %v, one less of %v", p, chance, n, chanceOf(n, p), chanceOf(n-1, p))
			}
		}
	}
}

// Values of mpmath with 50 digits: ceil(log(1-chance)/log(1-p)), rounded to float64.
func TestQueriesAreRightForSmallProbabilities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ logP, chance, want float64 }{
		{0, 0.5, 1}, {-1e-300, 0.999, 1}, {math.Log(0.5), 0.5, 1}, {math.Log(0.5), 0.75, 2},
		{-30, 0.5, 7407299726309}, {-690.77552789821370521, 0.5, 6.9314718055992888519e299},
		{-690.77552789821370521, 0.999, 6.9077552789819724835e300}, {-708, 0.9, 6.9615969584195110466e307}, {-709, 0.9, math.Inf(1)},
		{math.Inf(-1), 0.1, math.Inf(1)}, {-750, 0.5, math.Inf(1)}, {-1e6, 0.5, math.Inf(1)},
	} {
		if got := Queries(c.logP, c.chance); got != c.want && !(math.Abs(got-c.want) <= 2e-13*c.want) {
			t.Errorf("log p %v, chance %v: %v, want %v", c.logP, c.chance, got, c.want)
		}
	}
}
