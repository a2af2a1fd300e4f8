package experiment

import (
	"fmt"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/internal/readable"
)

// Measured lists the distinct rounds (sgd: steps) after which the model is measured, ascending: the
// multiples of audit.every and the rounds of audit.at, moved up to the end of a task, and the last.
// It is empty without an audit block.
func (e *Experiment) Measured() []int {
	if e.Audit == nil {
		return nil
	}
	rounds := append(e.regularly(), e.chosen()...)
	slices.Sort(rounds)
	return slices.Compact(append(rounds, e.Training.Rounds))
}

// regularly returns the multiples of audit.every before the last round.
func (e *Experiment) regularly() []int {
	every := e.Audit.Every.Of(e.Training.Rounds)
	if every == 0 {
		return nil
	}
	var rounds []int
	for round := every; round < e.Training.Rounds; {
		end := e.Training.endOfTask(round)
		rounds = append(rounds, end)
		round = end/every*every + every
	}
	return rounds
}

// chosen returns the rounds of audit.at.
func (e *Experiment) chosen() []int {
	var rounds []int
	for _, share := range e.Audit.At {
		rounds = append(rounds, e.Training.endOfTask(share.Of(e.Training.Rounds)))
	}
	return rounds
}

// endOfTask returns the last round of the task that contains a round: models are stored only there.
func (t *Training) endOfTask(round int) int {
	task := max(1, t.StepsPerTask)
	return min((round+task-1)/task*task, t.Rounds)
}

// checkAt compares audit.at with a training of the given number of rounds, and returns the mistake,
// or "".
func (a *Audit) checkAt(rounds int) string {
	before := numbers.Share{}
	for _, share := range a.At {
		switch round := share.Of(rounds); {
		case round > rounds:
			return fmt.Sprintf("has %s; expected at most the %s of the training (sgd: steps)", share, readable.Count(rounds, "round"))
		case round <= before.Of(rounds):
			return fmt.Sprintf("has %s after %s, which are rounds %d and %d; expected each round once, the earliest first", share, before, round, before.Of(rounds))
		}
		before = share
	}
	return ""
}

// measuring checks the rounds of measurements, as far as the file determines them. With epochs the
// rounds are unknown; Resolve checks them.
func (c *checker) measuring() {
	if c.Audit == nil || c.Training.Rounds == 0 {
		return
	}
	if wrong := c.Audit.checkAt(c.Training.Rounds); wrong != "" {
		c.fail([]string{"audit.at", "training.rounds"}, "%s", wrong)
	}
}

// measuring performs the same checks once the rounds are known.
func (c *dataChecker) measuring(rounds int) {
	if c.Experiment.Audit == nil || rounds == 0 {
		return
	}
	if wrong := c.Experiment.Audit.checkAt(rounds); wrong != "" {
		c.fail("audit.at", "%s", wrong)
	}
}

// measuringWarnings lists measurements at rounds other than the requested ones.
func (c *Cell) measuringWarnings() []string {
	e := &c.Experiment
	if e.Audit == nil || !e.Training.Central() {
		return nil
	}
	var warnings []string
	every, task := e.Audit.Every.Of(e.Training.Rounds), e.Training.StepsPerTask
	if every > 0 && every < task {
		warnings = append(warnings, fmt.Sprintf("audit.every is %s, but models are measured only between tasks, so after every %d: set training.steps_per_task to %d or a divisor of it", readable.Count(every, "step"), task, every))
	}
	for _, share := range e.Audit.At {
		if step := share.Of(e.Training.Rounds); e.Training.endOfTask(step) != step {
			return append(warnings, fmt.Sprintf("audit.at has step %d, but models are measured only between tasks, so after step %d: set training.steps_per_task to a divisor of %d", step, e.Training.endOfTask(step), step))
		}
	}
	return warnings
}
