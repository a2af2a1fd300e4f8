package plan

// Unit is what the length of a training is counted in, as in the experiment file's
// training.rounds.
type Unit string

// The units.
const (
	Round Unit = "round" // of federated averaging
	Step  Unit = "step"  // of central SGD, not of a chain
)

// Tail is what a central training takes after its last whole chain step.
type Tail struct {
	After  int // chain steps of a cell whose Model is no step of its chain
	Rounds int // its length in SGD steps; 0 if there is no tail
	Node   Ref // the standing node that takes them, if there are any
}

// ChainSteps is how many steps of its chain the cell wants; the chain may go on for
// other cells.
func (c *Cell) ChainSteps() int {
	if c.Tail != (Tail{}) {
		return c.Tail.After
	}
	return c.Model.Step
}

// Rounds is the length of the cell's training in its Unit, the tail included.
func (c *Cell) Rounds() int { return c.roundsAt(c.ChainSteps()) + c.Tail.Rounds }

// RoundsDone is how much of Rounds is behind a training whose chain stands at a step,
// or whose model is there.
func (c *Cell) RoundsDone(step int, trained bool) int {
	if trained {
		return c.Rounds()
	}
	return c.roundsAt(min(max(step, 0), c.ChainSteps()))
}

// roundsAt are those of so many steps of the chain.
func (c *Cell) roundsAt(step int) int {
	if c.Chain == nil {
		return 0
	}
	return step * c.Chain.StepRounds
}
