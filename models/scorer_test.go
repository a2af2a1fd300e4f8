package models

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

func TestScorerEqualsTrainer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		rng := testRand(seed)
		m := mustNew(t, 2+rng.IntN(700), 1+rng.IntN(40), 1+rng.IntN(60))
		params := wideParams(m, rng)
		sentence := sentencesOf(rng, m.config.Vocabulary, 20)[0]
		loss, _ := mustGradient(t, m.NewTrainer(), params, [][]int32{sentence})
		var sum float64
		for _, lp := range feed(t, mustScorer(t, m, params), sentence) {
			sum -= float64(lp)
		}
		if !near(sum, loss.Sum, sum, 1e-6) {
			t.Errorf("seed %d, %+v: scorer %v, trainer %v", seed, m.config, sum, loss.Sum)
		}
	}
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

// The results for a state must not depend on its batch: the canary and its
// references may be scored in any blocks.
func TestStatesDoNotDependOnTheirBatch(t *testing.T) {
	t.Parallel()
	rng := testRand(12)
	m := mustNew(t, 613, 19, 29)
	scorer := mustScorer(t, m, wideParams(m, rng))
	const n, steps = 2*scoringBlock + 37, 4
	sequences := sentencesOf(rng, 613, slices.Repeat([]int{steps + 1}, n)...)
	alone := make([][]float32, n)
	for i, s := range sequences {
		alone[i] = feed(t, scorer, s)
	}
	for _, size := range []int{2, 7, scoringBlock, n} {
		order := rng.Perm(n)[:size]
		together := feedTogether(t, scorer, sequences, order)
		for at, i := range order {
			if !slices.Equal(together[at], alone[i]) {
				t.Fatalf("batch of %d: sequence %d has log probabilities %v, alone %v", size, i, together[at], alone[i])
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

func TestGatheredStatesContinueLikeTheirOrigin(t *testing.T) {
	t.Parallel()
	rng := testRand(14)
	m := mustNew(t, 60, 7, 9)
	scorer := mustScorer(t, m, wideParams(m, rng))
	states := wanderingStates(t, scorer, rng, 5)
	chosen := []int{4, 0, 0, 3, 4, 1, 2}
	var gathered States
	check(t, gathered.Gather(states, chosen))
	want, got := make([]float32, 5*60), make([]float32, len(chosen)*60)
	check(t, scorer.LogProbRows(states, want))
	check(t, scorer.Step(states, make([]int32, 5))) // the copies must not follow
	check(t, scorer.LogProbRows(&gathered, got))
	for at, i := range chosen {
		if !slices.Equal(got[at*60:(at+1)*60], want[i*60:(i+1)*60]) {
			t.Errorf("state %d gathered from %d differs from it", at, i)
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

func TestTheMeanLossOfASentenceIsThatOfItsOwnEvaluation(t *testing.T) {
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

func TestScorerRefusesWhatDoesNotFit(t *testing.T) {
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
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want %q in it", c.err, c.want)
		}
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
func TestLeadersAreTheFirstOfASort(t *testing.T) {
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
