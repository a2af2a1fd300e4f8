package compile_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
)

// However many steps of SGD fit into a task, a cell is as long as its file says.
func TestCellLengthMatchesTraining(t *testing.T) {
	t.Parallel()
	digest := storage.DigestOf(plantest.Text())
	rapid.Check(t, func(rt *rapid.T) {
		rounds, perTask := rapid.IntRange(1, 60).Draw(rt, "rounds"), rapid.IntRange(1, 70).Draw(rt, "steps a task")
		p := compiled(t, small, digest, fmt.Sprintf("audit.every=%d", rounds), "grid=null",
			"training={algorithm: sgd, client: {learning_rate: 0.1}}",
			fmt.Sprintf("training.rounds=%d", rounds), fmt.Sprintf("training.steps_per_task=%d", perTask))
		cell := &p.Cells[0]
		if cell.Rounds() != rounds || cell.Unit != plan.Step || cell.RoundsDone(cell.ChainSteps(), false) != rounds/perTask*perTask {
			rt.Fatalf("%d %ss, %d before the tail", cell.Rounds(), cell.Unit, cell.RoundsDone(cell.ChainSteps(), false))
		}
	})
	for i, cell := range compiled(t, small, digest).Cells {
		want, unit := 4, plan.Round
		if i%3 == 0 {
			want, unit = 7, plan.Step
		}
		if cell.Rounds() != want || cell.Unit != unit {
			t.Errorf("cell %s (%s) has %d %ss, want %d %ss", cell.Name, cell.Label, cell.Rounds(), cell.Unit, want, unit)
		}
	}
}
