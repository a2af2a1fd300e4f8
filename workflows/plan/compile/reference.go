package compile

import (
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// reference compiles the cell's training on half of all users, including held-out users,
// without canaries and with a separate seed, and returns its last model. Otherwise equal cells
// share it.
func (c *cell) reference(number int) plan.Ref {
	apart, e := *c, *c.experiment
	users := c.node(datasets.ReferenceUsers, fmt.Sprintf("users of reference model %d", number+1),
		datasets.ReferenceParams{Seed: e.Seed, Model: number}, edge{datasets.BalancedInput, c.balanced})
	e.Seed = seeds.Stream(e.Seed, seeds.ReferenceModel, uint64(number)).Uint64()
	if e.Training.Algorithm == experiment.External {
		e.Seed >>= 11 // every language's JSON keeps numbers below 2^53
	}
	e.Canaries, e.Training.Record, e.Audit = nil, nil, e.Audit.Apart()
	apart.experiment = &e
	apart.population, apart.shards = apart.arrange(users, plan.Ref{})
	if apart.err == nil {
		apart.training()
	}
	c.err = apart.err
	if apart.err != nil {
		return plan.Ref{}
	}
	return apart.after(e.Training.Rounds)
}

// repeated compiles the cell's training with a separate seed and a single audit, on the data of the cell, and
// returns the audit's node.
func (c *cell) repeated(number int, fields audits.Fields) plan.Ref {
	apart, e := *c, *c.experiment
	e.Seed = seeds.Stream(e.Seed, seeds.RepeatedTraining, uint64(number)).Uint64()
	e.Training.Record, e.Audit = nil, e.Audit.Alone(fields)
	apart.experiment, apart.setting, apart.recorded = &e, e.Setting(), nil
	apart.refs, apart.planted = map[storage.Key]plan.Ref{}, map[audits.Planter]storage.Key{}
	apart.population = apart.undivided
	if p, ok := fields.(audits.Planter); ok {
		apart.population = apart.plant(p)
	}
	if apart.err == nil {
		apart.training()
	}
	if c.err = apart.err; c.err != nil {
		return plan.Ref{}
	}
	return apart.refs[fields.Compile(builder{&apart}, e.Training.Rounds)]
}
