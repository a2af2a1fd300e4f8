package plan

import "testing"

func TestALengthCountsWholeStepsAndTheTail(t *testing.T) {
	t.Parallel()
	chain := &Chain{Recipe: keyOf("r"), Steps: 60, StepRounds: 100}
	node := Ref{Key: keyOf("tail")}
	for _, c := range []struct {
		what   string
		cell   Cell
		rounds int
		done   []int // at the steps 0, 3, 4 and 60 of the chain
	}{
		{"rounds", Cell{Chain: &Chain{StepRounds: 1}, Model: Ref{Step: 4}}, 4, []int{0, 3, 4, 4}},
		{"whole tasks", Cell{Chain: chain, Model: chain.At(4)}, 400, []int{0, 300, 400, 400}},
		{"with a tail", Cell{Chain: chain, Model: node, Tail: Tail{After: 4, Rounds: 99}}, 499, []int{0, 300, 400, 400}},
		{"nothing but a tail", Cell{Model: node, Tail: Tail{Rounds: 99}}, 99, []int{0, 0, 0, 0}},
		{"a choice after whole tasks", Cell{Chain: chain, Model: node, Tail: Tail{After: 4}}, 400, []int{0, 300, 400, 400}},
		{"no training", Cell{}, 0, []int{0, 0, 0, 0}},
	} {
		if got := c.cell.Rounds(); got != c.rounds {
			t.Errorf("%s: %d rounds, want %d", c.what, got, c.rounds)
		}
		for i, step := range []int{0, 3, 4, 60} {
			if got := c.cell.RoundsDone(step, false); got != c.done[i] {
				t.Errorf("%s: %d rounds are done at step %d, want %d", c.what, got, step, c.done[i])
			}
		}
		if got := c.cell.RoundsDone(0, true); got != c.rounds {
			t.Errorf("%s: %d rounds are done when the model is there, want %d", c.what, got, c.rounds)
		}
	}
}
