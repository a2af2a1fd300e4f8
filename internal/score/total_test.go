package score

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A model of letters has probabilities of all texts. Its answers to any question add up to at most
// 1, and logarithms to base 10 of the same do not.
func TestProbabilitiesOfAModelAddUpToOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		logs, sum := make([]float64, 4), 0.0
		for i := range logs {
			logs[i] = rng.ExpFloat64()
			sum += logs[i]
		}
		for i := range logs {
			logs[i] = math.Log(logs[i] / sum)
		}
		var pairs []Pair
		var answers []Answer
		for range rapid.IntRange(0, 60).Draw(rt, "pairs") {
			text, log := "", 0.0
			for range 1 + rng.IntN(4) {
				letter := rng.IntN(4)
				text, log = text+string(rune('a'+letter)), log+logs[letter]
			}
			pairs, answers = append(pairs, Pair{fmt.Sprint(rng.IntN(3)), text}), append(answers, Answer{LogProb: log})
		}
		if err := CheckTotal(pairs, answers); err != nil {
			rt.Fatal(err)
		}
	})
}

// "a" begins "april", and is left out of the 16 words.
func TestNonProbabilityScoresAreReported(t *testing.T) {
	t.Parallel()
	words := strings.Fields("the people of united states are free it was a bright cold day in april clocks")
	answers := func(of func(i int) float64) []Answer {
		list := make([]Answer, len(words))
		for i := range list {
			list[i].LogProb = of(i)
		}
		return list
	}
	uniform := func(i int) float64 { return -math.Log(16) - 0.001*float64(i) }
	for name, c := range map[string]struct {
		of   func(i int) float64
		want bool
	}{
		"natural logarithms":    {uniform, false},
		"logarithms to base 10": {func(i int) float64 { return uniform(i) / math.Ln10 }, true},
		"unknown words":         {func(int) float64 { return -0.5 }, false},
		"impossible words":      {func(int) float64 { return math.Inf(-1) }, false},
	} {
		err := CheckTotal(After("it is", words), answers(c.of))
		if (err != nil) != c.want || err != nil && !strings.Contains(err.Error(), `15 continuations of "it is" that exclude each other have probabilities that add up to`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
