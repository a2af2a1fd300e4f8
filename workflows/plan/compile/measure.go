package compile

import (
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/reports"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// report compiles the measurements and the node that collects them.
func (c *cell) report() plan.Ref {
	params := reports.CellParams{Training: trainingParams(c.experiment), Measured: c.experiment.Measured(), Audits: []reports.AuditParams{}}
	edges := []edge{{reports.PopulationInput, c.population}}
	if data := c.experiment.Data; len(data.Faults) > 0 || !data.OnError.IsZero() {
		edges = append(edges, edge{reports.FaultsInput, c.corpus})
	}
	for _, optional := range []edge{
		{reports.SelectionInput, c.selected}, {reports.DevicesInput, c.divided}, {reports.SanitizedInput, c.sanitized},
		{reports.DisagreementInput, c.disagreed}, {reports.StoppingInput, c.best},
	} {
		if optional.ref != (plan.Ref{}) {
			edges = append(edges, optional)
		}
	}
	if c.experiment.Training.StopAt != nil {
		edges = append(edges, edge{reports.PursuitInput, c.model})
	}
	for i, gathered := range c.recorded {
		edges = append(edges, edge{reports.RecordedInput(i), gathered})
	}
	outcomes := false
	for _, m := range c.experiment.Audit.Requested() {
		params.Audits = append(params.Audits, reports.AuditParams{
			Name: m.Name, AtEnd: m.AtEnd, OutcomeBlob: m.OutcomeBlob, CanaryOutcomesBlob: m.CanaryOutcomesBlob,
		})
		outcomes = outcomes || m.CanaryOutcomesBlob != ""
		for _, round := range c.roundsOf(m, params.Measured) {
			node := m.Compile(builder{c}, round)
			edges = append(edges, edge{reports.AuditInput(m.Name, round), c.refs[node]})
		}
	}
	if outcomes {
		edges = append(edges, edge{reports.PlacementsInput, c.placements})
	}
	return c.node(reports.Cell, "report of "+c.spec.Label, params, edges...)
}

// roundsOf returns the rounds after which an audit measures.
func (c *cell) roundsOf(m experiment.Method, measured []int) []int {
	if m.AtEnd {
		return measured[len(measured)-1:]
	}
	return measured
}

func trainingParams(e *experiment.Experiment) reports.TrainingParams {
	t := &e.Training
	p := reports.TrainingParams{
		Algorithm: string(t.Algorithm), Rounds: t.Rounds, Cohort: t.Cohort, Partition: e.Data.Partition, WholeUsers: e.Data.Users.Words == 0,
		Devices: e.Data.Devices != nil, Control: e.Audit.Controlled(), Sampling: t.Sampling, Separation: t.Separation, Participations: t.Participations,
	}
	if t.QuantizeBits != nil {
		p.QuantizeBits = *t.QuantizeBits
	}
	if t.Privacy != nil {
		p.Clip, p.NoiseMultiplier, p.Delta = t.Privacy.Clip, t.Privacy.NoiseMultiplier, t.Privacy.Delta
		if t.Privacy.Secret() {
			p.Randomness = privacy.Secret
		}
		p.Conversion, p.Budget, p.Adaptive = t.Privacy.Accounting(), budget(t.Privacy), t.Privacy.ClipQuantile()
		if t.Privacy.Shared() > 0 {
			p.NoiseBy = privacy.ByDevices
		}
		p.Accountant, p.Mechanism = t.Privacy.Prover(), t.Privacy.Mechanism.Config()
	}
	return p
}

// builder implements audits.Builder for a cell.
type builder struct{ *cell }

var _ audits.Builder = builder{}

func (b builder) Setting() *audits.Setting { return b.setting }

func (b builder) Node(kind tasks.Kind, label string, params any, inputs ...tasks.Input) storage.Key {
	var edges []edge
	for _, in := range inputs {
		edges = append(edges, edge{in.Name, b.refs[in.Key]})
	}
	return b.given(b.node(kind, label, params, edges...))
}

// given returns the key of a node and records the node, because an audit refers to it by its key.
func (c *cell) given(r plan.Ref) storage.Key {
	c.refs[r.Key] = r
	return r.Key
}

// ifGiven is given for a node that the cell may lack. It then returns zero.
func (c *cell) ifGiven(r plan.Ref) storage.Key {
	if r == (plan.Ref{}) {
		return storage.Key{}
	}
	return c.given(r)
}

func (b builder) Parts() storage.Key { return b.given(b.parts) }

func (b builder) Canaries() storage.Key { return b.given(b.canaries) }

func (b builder) Placements() storage.Key { return b.given(b.placements) }

func (b builder) Population() storage.Key { return b.given(b.population) }

func (b builder) Shards() storage.Key { return b.given(b.shards) }

func (b builder) Users() (names, population storage.Key) {
	return b.given(b.corpus), b.given(b.undivided)
}

func (b builder) Devices() storage.Key { return b.ifGiven(b.divided) }

func (b builder) Files(path string) ([]storage.Digest, source.Limits) {
	return b.ofAudits[path], Limits(b.experiment)
}

func (b builder) Classifier() (model, clean storage.Key, ok bool) {
	apart, ok := b.classifier()
	if !ok {
		return model, clean, false
	}
	return b.given(apart.model), b.given(apart.parts), true
}

func (b builder) Predicted() (here, clean storage.Key, ok bool) {
	unselected := *b.cell
	unselected.population, unselected.shards = b.everything()
	first, second, ok := unselected.predicted()
	b.err = unselected.err
	if !ok {
		return here, clean, false
	}
	return b.given(first), b.given(second), true
}

func (b builder) Initial() storage.Key {
	if b.origin == (plan.Ref{}) { // a planter asks before the training is compiled
		b.origin = b.initial()
	}
	return b.given(b.origin)
}

func (b builder) Model(round int) storage.Key { return b.given(b.after(round)) }

func (b builder) Balanced() storage.Key { return b.given(b.balanced) }

func (b builder) Insertions() storage.Key { return b.ifGiven(b.insertions) }

func (b builder) Reference(reference int) storage.Key { return b.given(b.reference(reference)) }

func (b builder) Repeated(repetition int, fields audits.Fields) storage.Key {
	return b.given(b.repeated(repetition, fields))
}

func (b builder) Step() audits.Step {
	e := b.experiment
	switch {
	case e.Training.Algorithm == experiment.FedAvg:
		clients := clientsParams(e)
		if trainer, err := Trainer(e); err == nil {
			clients.Program = trainer
		} else {
			b.err = err
		}
		return audits.Step{Round: &audits.Round{Clients: clients, Server: serverParams(e)}}
	case e.Training.Privacy != nil && e.Training.Central():
		_, params := b.stretch(b.sgdParams())
		private := params.(training.DPSGDParams)
		private.Secret, private.Canaries, private.Watch = nil, nil, nil
		return audits.Step{Private: &private}
	case e.Training.Command != "":
		params := b.trainParams()
		return audits.Step{External: &params}
	}
	return audits.Step{}
}

func (b builder) Recorded() []storage.Key {
	var keys []storage.Key
	for _, r := range b.recorded {
		keys = append(keys, b.given(r))
	}
	return keys
}

func (b builder) Planted(p audits.Planter) storage.Key { return b.planted[p] }

// plant compiles an audit's insertion into the population.
func (c *cell) plant(p audits.Planter) plan.Ref {
	c.planted[p] = p.Plant(builder{c})
	return c.refs[c.planted[p]]
}
