package linking_test

import (
	"testing"

	"coalmine/workflows/experiment/experimenttest"
)

// What can't be measured is refused before anything runs, every mistake with its place.
func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	experimenttest.Mistakes(t)
}
