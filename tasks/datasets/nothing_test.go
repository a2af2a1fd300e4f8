package datasets

import (
	"strings"
	"testing"

	"coalmine/tasks/datasets/population"
)

func TestTheAdviceWhereAPartHasNothingToPredictFitsTheCause(t *testing.T) {
	t.Parallel()
	if err := population.NothingToPredict(population.Test, false); !strings.Contains(err.Error(), "raise data.test.fraction, or name a split with examples by data.test.split") {
		t.Errorf("an empty part: %v", err)
	}
	if err := population.NothingToPredict(population.Validation, true); strings.Contains(err.Error(), "fraction") || !strings.Contains(err.Error(), "the validation part has words, but none of them is in the vocabulary: raise data.vocabulary.size") {
		t.Errorf("a part of unknown words: %v", err)
	}
}
