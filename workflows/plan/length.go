package plan

// Unit is the unit of the length of a training, as in the experiment file's
// training.rounds.
type Unit string

// The units.
const (
	Round Unit = "round" // of federated averaging
	Step  Unit = "step"  // of central SGD, not of a chain
)

// Tail is the rest of a central training after its last whole chain step.
type Tail struct {
	After  int // chain steps of a cell whose Model is not a step of its chain
	Rounds int // length in SGD steps; 0 if there is no tail
	Node   Ref // standing node that runs these steps
}

// ChainSteps returns the number of steps of its chain that the cell wants; the
// chain may be longer for other cells.
func (c *Cell) ChainSteps() int {
	if c.Tail != (Tail{}) {
		return c.Tail.After
	}
	return c.Model.Step
}

// Rounds is the length of the cell's training in its Unit, the tail included.
func (c *Cell) Rounds() int { return c.roundsAt(c.ChainSteps()) + c.Tail.Rounds }

// RoundsDone returns the finished part of Rounds for a training whose chain is at a
// step, or whose model is available.
func (c *Cell) RoundsDone(step int, trained bool) int {
	if trained {
		return c.Rounds()
	}
	return c.roundsAt(min(max(step, 0), c.ChainSteps()))
}

func (c *Cell) roundsAt(step int) int {
	if c.Chain == nil {
		return 0
	}
	return step * c.Chain.StepRounds
}
