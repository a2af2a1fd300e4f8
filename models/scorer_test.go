package models

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"coalmine/internal/must"
)

func mustScorer(tb testing.TB, m *Language, params []float32) *Scorer {
	tb.Helper()
	return must.Get(m.NewScorer(params))(tb)
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// feed steps one state through tokens and returns log p of each but the first.
func feed(tb testing.TB, s *Scorer, tokens []int32) []float32 {
	tb.Helper()
	states := s.Start(1)
	logProbs := make([]float32, len(tokens)-1)
	for i := range logProbs {
		check(tb, s.Step(states, tokens[i:i+1]))
		check(tb, s.LogProbs(states, tokens[i+1:i+2], logProbs[i:i+1]))
	}
	return logProbs
}

func TestScorerEqualsReference(t *testing.T) {
	t.Parallel()
	rng := testRand(11)
	m := mustNew(t, 530, 13, 17)
	params := wideParams(m, rng)
	tokens := sentencesOf(rng, 530, 8)[0]
	scorer, ref := mustScorer(t, m, params), newReference(m, widen(params))
	states, row := scorer.Start(1), make([]float32, 530)
	state := ref.start()
	for _, token := range tokens {
		check(t, scorer.Step(states, []int32{token}))
		check(t, scorer.LogProbRows(states, row))
		for v, want := range ref.logProbs(ref.step(token, state)) {
			if !near(float64(row[v]), want, 1, 2e-5) {
				t.Fatalf("log p of %d: %v, want %v", v, row[v], want)
			}
		}
	}
}

func feedTogether(tb testing.TB, s *Scorer, sequences [][]int32, order []int) [][]float32 {
	tb.Helper()
	states, out := s.Start(len(order)), make([][]float32, len(order))
	tokens, logProbs := make([]int32, len(order)), make([]float32, len(order))
	column := func(t int) []int32 {
		for at, i := range order {
			tokens[at] = sequences[i][t]
		}
		return tokens
	}
	for t := range len(sequences[0]) - 1 {
		check(tb, s.Step(states, column(t)))
		check(tb, s.LogProbs(states, column(t+1), logProbs))
		for at, lp := range logProbs {
			out[at] = append(out[at], lp)
		}
	}
	return out
}

// wanderingStates are n states that have each seen three tokens.
func wanderingStates(tb testing.TB, s *Scorer, rng *rand.Rand, n int) *States {
	tb.Helper()
	states := s.Start(n)
	for range 3 {
		check(tb, s.Step(states, sentencesOf(rng, s.model.config.Vocabulary, n)[0]))
	}
	return states
}

func TestRowsAreDistributionsAndEqualSingleTargetsBitForBit(t *testing.T) {
	t.Parallel()
	rng := testRand(13)
	const vocabulary, n = 521, scoringBlock + 5
	m := mustNew(t, vocabulary, 10, 14)
	scorer := mustScorer(t, m, wideParams(m, rng))
	states := wanderingStates(t, scorer, rng, n)
	rows, targets, logProbs := make([]float32, n*vocabulary), make([]int32, n), make([]float32, n)
	check(t, scorer.LogProbRows(states, rows))
	for range 20 {
		for i := range targets {
			targets[i] = int32(rng.IntN(vocabulary))
		}
		check(t, scorer.LogProbs(states, targets, logProbs))
		for i, target := range targets {
			if logProbs[i] != rows[i*vocabulary+int(target)] {
				t.Fatalf("state %d, target %d: %v alone, %v in its row", i, target, logProbs[i], rows[i*vocabulary+int(target)])
			}
		}
	}
	for i := range n {
		var sum float64
		for _, lp := range rows[i*vocabulary : (i+1)*vocabulary] {
			sum += math.Exp(float64(lp))
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("state %d: probabilities sum to %v", i, sum)
		}
	}
}

func TestScorerServesSeveralGoroutines(t *testing.T) {
	t.Parallel()
	rng := testRand(15)
	m := mustNew(t, 300, 11, 13)
	scorer := mustScorer(t, m, wideParams(m, rng))
	sentences := mixedSentences(rng, 300, 30, 12)
	want, err := scorer.Evaluate(sentences, nil)
	check(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got, err := scorer.Evaluate(sentences, nil)
			if err != nil || got != want {
				t.Errorf("evaluation %+v, %v; want %+v", got, err, want)
			}
		})
	}
	all.Wait()
}

func TestMeanLossesMatchSingleEvaluations(t *testing.T) {
	t.Parallel()
	rng := testRand(17)
	m := mustNew(t, 60, 7, 9)
	params := wideParams(m, rng)
	scorer := mustScorer(t, m, params)
	sentences := mixedSentences(rng, 60, evaluationBlock+20, 9)
	losses, err := scorer.MeanLosses(sentences)
	check(t, err)
	for i, sentence := range sentences {
		alone, err := scorer.Evaluate([][]int32{sentence}, nil)
		check(t, err)
		if want := alone.All.Loss / float64(alone.All.Tokens); losses[i] != want {
			t.Fatalf("sentence %d of %d has mean loss %v among others, %v alone", i, len(losses), losses[i], want)
		}
	}
	params[0] = float32(math.NaN())
	if _, err := mustScorer(t, m, params).MeanLosses([][]int32{{0, 1}}); err == nil {
		t.Error("a loss that is not a number is no error")
	}
}

// isTop reports whether fewer than TopGuesses tokens go before one.
func isTop(row []float32, token int32) bool {
	before := 0
	for other, p := range row {
		if p > row[token] || p == row[token] && int32(other) < token {
			before++
		}
	}
	return before < TopGuesses
}

func TestEvaluationIsTheSumOfItsPredictions(t *testing.T) {
	t.Parallel()
	rng := testRand(16)
	const vocabulary = 2*tileWidth + 9
	m := mustNew(t, vocabulary, 8, 12)
	scorer := mustScorer(t, m, wideParams(m, rng))
	sentences := mixedSentences(rng, vocabulary, evaluationBlock+20, 9)
	even := func(token int32) bool { return token%2 == 0 }

	var want Evaluation
	row := make([]float32, vocabulary)
	for i, s := range sentences {
		states := scorer.Start(1)
		for at := range len(s) - 1 {
			check(t, scorer.Step(states, s[at:at+1]))
			check(t, scorer.LogProbRows(states, row))
			best := int32(slices.Index(row, slices.Max(row)))
			if i%3 == 0 {
				s[at+1] = best // so that there are hits
			}
			top := isTop(row, s[at+1])
			want.All.add(row[s[at+1]], s[at+1] == best, top)
			if even(s[at+1]) {
				want.Counted.add(row[s[at+1]], s[at+1] == best, top)
			}
		}
	}
	got, err := scorer.EvaluateTop(sentences, even)
	check(t, err)
	if got != want {
		t.Errorf("evaluation %+v, want %+v", got, want)
	}
	want.All.TopHits, want.Counted.TopHits = 0, 0
	if got, err = scorer.Evaluate(sentences, even); err != nil || got != want {
		t.Errorf("evaluation without first guesses %+v, want %+v, %v", got, want, err)
	}
	if want.All.Hits == 0 || want.All.Hits == want.All.Tokens {
		t.Errorf("%d hits of %d: the test needs both", want.All.Hits, want.All.Tokens)
	}
}

func TestEqualTokensHitAtTheLowestOnly(t *testing.T) {
	t.Parallel()
	const vocabulary = tileWidth + 10
	m := mustNew(t, vocabulary, 2, 2)
	scorer := mustScorer(t, m, make([]float32, m.Parameters())) // every token is as probable as the next
	for _, target := range []int32{0, 1, 4, 5, tileWidth, vocabulary - 1} {
		got, err := scorer.EvaluateTop([][]int32{{5, target}}, nil)
		check(t, err)
		if hit := got.All.Hits == 1; hit != (target == 0) {
			t.Errorf("target %d: hit %v", target, hit)
		}
		if top := got.All.TopHits == 1; top != (target < TopGuesses) {
			t.Errorf("target %d: among the first guesses: %v", target, top)
		}
		if !near(got.All.Perplexity(), vocabulary, vocabulary, 1e-6) {
			t.Errorf("perplexity %v of a uniform model, want %d", got.All.Perplexity(), vocabulary)
		}
	}
}

func TestEvaluationOfNothingIsZero(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 10, 2, 2)
	got, err := mustScorer(t, m, make([]float32, m.Parameters())).Evaluate(nil, nil)
	if err != nil || got != (Evaluation{}) {
		t.Errorf("evaluation %+v, error %v", got, err)
	}
}

func TestScorerRejectsBadShapes(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 10, 3, 4)
	params := make([]float32, m.Parameters())
	s := mustScorer(t, m, params)
	foreign := mustScorer(t, mustNew(t, 10, 3, 5), make([]float32, mustNew(t, 10, 3, 5).Parameters())).Start(1)
	two := s.Start(2)
	_, short := m.NewScorer(params[1:])
	_, token := s.Evaluate([][]int32{{1, 2}, {3, 11}}, nil)
	cases := []struct {
		err  error
		want string
	}{
		{short, "the parameter vector has"},
		{token, "sentence 1: token 1 has id 11: want 0 to 9"},
		{s.Step(two, []int32{1}), "1 tokens for 2 states: want one each"},
		{s.Step(two, []int32{1, 10}), "token 1 has id 10: want 0 to 9"},
		{s.Step(foreign, []int32{1}), "states of a model with 5 units"},
		{s.LogProbs(two, []int32{1, -2}, make([]float32, 2)), "token 1 has id -2"},
		{s.LogProbs(two, []int32{1, 2}, make([]float32, 3)), "the destination has 3 elements, want 2"},
		{s.LogProbRows(two, make([]float32, 19)), "the destination has 19 elements, want 20"},
		{s.Start(1).Gather(two, []int{2}), "state 2 cannot be gathered from 2 states"},
		{two.Gather(two, []int{0}), "gather into another batch"},
		{two.Gather(new(States), []int{0}), "state 0 cannot be gathered from 0 states"},
		{two.Set(2, two, 0), "state 2 of 2 cannot be set"},
		{two.Set(0, two, -1), "cannot be set to state -1 of 2"},
		{two.Set(0, foreign, 0), "cannot be set to one of 5 units"},
		{s.LogProbRows(new(States), nil), "states of a model with 0 units"},
	}
	for _, c := range cases {
		must.Say(t, c.err, c.want)
	}
}

func TestEvaluationOfDivergedParametersIsAnError(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 10, 3, 4)
	params := make([]float32, m.Parameters())
	params[len(params)-1] = float32(math.NaN())
	_, err := mustScorer(t, m, params).Evaluate([][]int32{{1, 2, 3}}, nil)
	var diverged *DivergedError
	if !errors.As(err, &diverged) {
		t.Errorf("error %v, want a DivergedError", err)
	}
}

// Rows of few distinct logits have many equal ones, even at the boundary of the leaders.
func TestLeadersMatchSort(t *testing.T) {
	t.Parallel()
	rng := testRand(17)
	for range 300 {
		row := make([]float32, 1+rng.IntN(40))
		for i := range row {
			row[i] = float32(rng.IntN(8))
		}
		var l leaders
		cut := rng.IntN(len(row) + 1)
		for _, tile := range [][2]int{{0, cut}, {cut, len(row)}} {
			if tile[0] < tile[1] {
				l.add(tile[0], row[tile[0]:tile[1]])
			}
		}
		for token := range row {
			if got := l.have(int32(token)); got != isTop(row, int32(token)) {
				t.Fatalf("token %d of %v leads: %v", token, row, got)
			}
		}
	}
}

// Log probabilities are those of Scorer.LogProbs, and moments those of the whole row.
func TestTokenScoresMatchRows(t *testing.T) {
	t.Parallel()
	rng := testRand(31)
	const vocabulary = 530
	m := mustNew(t, vocabulary, 13, 17)
	params := wideParams(m, rng)
	scorer := mustScorer(t, m, params)
	var lengths []int
	for range scoringBlock + 9 {
		lengths = append(lengths, 2+rng.IntN(6))
	}
	sentences := sentencesOf(rng, vocabulary, lengths...)
	scores, err := scorer.TokenScores(sentences)
	check(t, err)
	row := make([]float32, vocabulary)
	for i, sentence := range sentences {
		states, logProbs := scorer.Start(1), feed(t, scorer, sentence)
		for at, token := range sentence[:len(sentence)-1] {
			check(t, scorer.Step(states, []int32{token}))
			check(t, scorer.LogProbRows(states, row))
			var mean, square float64
			for _, l := range row {
				mean += math.Exp(float64(l)) * float64(l)
			}
			for _, l := range row {
				square += math.Exp(float64(l)) * (float64(l) - mean) * (float64(l) - mean)
			}
			got := scores[i][at]
			if got.LogProb != logProbs[at] || !near(got.Mean, mean, -mean, 1e-5) || !near(got.Deviation, math.Sqrt(square), math.Sqrt(square), 1e-5) {
				t.Fatalf("sentence %d, token %d: %+v, want %v, %v, %v", i, at, got, logProbs[at], mean, math.Sqrt(square))
			}
		}
	}
	params[0] = float32(math.NaN())
	diverged, err := m.NewScorer(params)
	if err == nil {
		_, err = diverged.TokenScores(sentences)
	}
	if failed := new(DivergedError); !errors.As(err, &failed) {
		t.Errorf("error %v, want a *DivergedError", err)
	}
}

// Moments of rows over several tiles, far from 0, flat or nearly certain, are those in float64 of the
// same logits: nothing cancels.
func TestMomentsOfHardRows(t *testing.T) {
	t.Parallel()
	rng := testRand(32)
	const width = 2*tileWidth + 37
	for _, offset := range []float32{0, 300, -300, 40_000} {
		for _, spread := range []float32{1.0 / 256, 1, 16} {
			for _, lead := range []float32{0, 12, 60} {
				logits := make([]float32, width)
				for i := range logits {
					logits[i] = offset + spread*float32(rng.NormFloat64())
				}
				logits[width-5] = offset + lead
				mean, deviation := momentsOf(logits)
				var z normaliser
				z.reset(1, 3)
				z.moments = grow(z.moments, 3)
				for k := range z.tiles {
					from, to := tileBounds(width, k)
					z.addMoments(0, k, logits[from:to])
				}
				z.finish()
				got, what := z.ofWhole(0), fmt.Sprintf("offset %v, spread %v, lead %v", offset, spread, lead)
				if !near(got.Mean, mean, max(1, -mean), 2e-7) || !near(got.Deviation, deviation, deviation, 5e-7) {
					t.Errorf("%s: mean %v, deviation %v; want %v, %v", what, got.Mean, got.Deviation, mean, deviation)
				}
			}
		}
	}
}

// momentsOf is the mean and the standard deviation of log p(z), in float64.
func momentsOf(logits []float32) (mean, deviation float64) {
	peak, total := float64(logits[0]), 0.0
	for _, l := range logits {
		peak = max(peak, float64(l))
	}
	for _, l := range logits {
		total += math.Exp(float64(l) - peak)
	}
	log := func(l float32) float64 { return float64(l) - peak - math.Log(total) }
	for _, l := range logits {
		mean += math.Exp(log(l)) * log(l)
	}
	for _, l := range logits {
		deviation += math.Exp(log(l)) * (log(l) - mean) * (log(l) - mean)
	}
	return mean, math.Sqrt(deviation)
}

// Losses after a text are those of the end of both as one text, bit for bit.
func TestLossesAfterAText(t *testing.T) {
	t.Parallel()
	rng := testRand(33)
	m := mustNew(t, 61, 9, 11)
	scorer := mustScorer(t, m, wideParams(m, rng))
	list := sentencesOf(rng, 61, 9, 3, 7, 2, 5)
	prefix, sentences := list[0], list[1:]
	states := scorer.Start(1)
	for _, token := range prefix {
		check(t, scorer.Step(states, []int32{token}))
	}
	got, err := scorer.LossesAfter(states, sentences)
	check(t, err)
	for i, sentence := range sentences {
		whole, want := feed(t, scorer, append(prefix[:len(prefix):len(prefix)], sentence...)), 0.0
		for _, p := range whole[len(prefix):] {
			want -= float64(p)
		}
		if got[i] != (Loss{Sum: want, Tokens: len(sentence) - 1}) {
			t.Errorf("sentence %d: %+v, want %v", i, got[i], want)
		}
	}
	if _, err := scorer.LossesAfter(scorer.Start(2), sentences); err == nil {
		t.Error("two states before a sentence are no error")
	}
}
