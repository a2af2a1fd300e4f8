package attributes_test

import (
	"testing"

	"coalmine/workflows/experiment/experimenttest"
)

// Invalid experiments are refused before anything runs, each mistake with its place.
func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	experimenttest.Mistakes(t)
}
