package modelaudit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// uniform gives each of n tokens nearly the same probability, as a logarithm to a base.
type uniform struct{ tokens, base float64 }

func (u uniform) costs(_ context.Context, list []sequence, _ int) ([]float64, error) {
	costs := make([]float64, len(list))
	for i, s := range list {
		costs[i] = float64(len(s.suffix)) * (math.Log(u.tokens) + 0.001*float64(s.suffix[0])) / math.Log(u.base)
	}
	return costs, nil
}

func (uniform) logProbs(context.Context, []sequence, int) ([][]float64, error) { return nil, nil }

func (uniform) requests() int64 { return 0 }

// Logarithms to another base than e rank canaries as well, and their sums show them.
func TestNonProbabilityScoresAreReported(t *testing.T) {
	t.Parallel()
	words := make([]string, 1000)
	for i := range words {
		words[i] = fmt.Sprintf(`"w%d"`, i)
	}
	v := must.Get(ReadVocabulary(strings.NewReader("["+strings.Join(words, ",")+"]"), -1))(t)
	if n, err := checkTotal(t.Context(), uniform{1000, math.E}, v, nil, 10); err != nil || n != 256 {
		t.Errorf("%d tokens asked, error %v; want 256, and none", n, err)
	}
	const want = "the model gives 256 tokens probabilities that add up to 12.0"
	if _, err := checkTotal(t.Context(), uniform{1000, 10}, v, nil, 10); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	of := Membership{Members: []Owner{{Texts: []string{"[1, 2]"}}}, NonMembers: []Owner{{Texts: []string{"[3, 4]"}}}}
	if _, err := of.judge(t.Context(), v.lexicon(), lossesBy(uniform{1000, 10}, v, 0, 10)); err == nil || !strings.Contains(err.Error(), "add up to") {
		t.Errorf("of members: error %v", err)
	}
}
