package compile

import (
	"coalmine/tasks/aggregation"
	"coalmine/workflows/experiment"
)

// LearningRates returns the learning rates of a round (sgd: step), counted from 1: that of the
// optimizer on the data, and the server's. A rate is 0 if there is no such optimizer, or if an
// external program has it.
func LearningRates(e *experiment.Experiment) func(round int) (client, server float64) {
	t := &e.Training
	ours := t.Algorithm != experiment.External && e.ClientProgram() == nil
	trained, served := local(e, t.Cohort), aggregation.ServerParams{}
	if t.Server != nil {
		served = serverParams(e)
	}
	return func(round int) (client, server float64) {
		if ours {
			client = trained.Rate(round - 1)
		}
		return client, served.Rate(round)
	}
}
