package updatewords_test

import (
	"testing"

	"coalmine/workflows/plan/compile/compiletest"
)

// Invalid experiments are refused before anything runs, each mistake with its place.
func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	compiletest.Mistakes(t)
}
