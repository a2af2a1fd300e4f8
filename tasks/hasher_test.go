package tasks

import (
	"testing"

	"coalmine/storage"
)

func TestAStepHasherIsAHasherOfSteps(t *testing.T) {
	t.Parallel()
	recipe, before := NewHasher("recipe").Sum(), storage.Key{}
	steps := NewStepHasher(recipe)
	for step := range 300 {
		h := NewHasher("step")
		h.Key(recipe)
		h.Uint(uint64(step))
		h.Key(before)
		want := h.Sum()
		if got := steps.Next(step, before); got != want {
			t.Fatalf("step %d: %s, want %s", step, got, want)
		}
		before = want
	}
}
