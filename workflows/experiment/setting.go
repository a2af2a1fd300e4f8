package experiment

import (
	"reflect"
	"strings"

	"coalmine/models"
	"coalmine/models/architectures"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/datasets"
)

// Setting is the experiment as its audits see it.
func (e *Experiment) Setting() *audits.Setting {
	s := &audits.Setting{
		Seed: e.Seed, Reading: e.Data.Reading(), Ordinary: e.Data.Ordinary(), TestFraction: e.Data.Test.Fraction, Generator: e.Model.Kind == models.GAN,
		Prepared:     e.Prepare.classifier() != nil,
		Untied:       e.Model.Config(&e.Data).Untied,
		Trained:      e.trained(),
		Owned:        e.Data.Partition == datasets.ByUser && e.Data.Sanitize == nil && e.Data.Disagreement == nil,
		HeldOutUsers: e.Data.HeldOutUsers.Fraction,
		Own:          e.Data.Select == nil && e.Data.Sanitize == nil && e.Data.Disagreement == nil && e.Data.Devices == nil,
		Training: audits.Training{
			Central: e.Training.Central(), Sampling: privacy.Sampling(e.Training.Sampling), Unit: e.Unit(), ClientNoise: e.Training.deviceNoise(),
			Rounds: e.Training.Rounds, Cohort: e.Training.Cohort, Recipe: e.unpopulated(), Quantized: e.Training.QuantizeBits != nil,
		},
	}
	if c := e.Canaries; c != nil {
		s.Canaries = &audits.Canaries{Groups: c.groups(e.Data.Level), Inserted: len(c.Forms()) * c.insertedOfAForm()}
	}
	if p := e.Training.Privacy; p != nil {
		s.Training.Clip, s.Training.NoiseMultiplier, s.Training.Delta = p.Clip, p.NoiseMultiplier, p.Delta
	}
	s.Records, s.Recorded = e.Training.Record != nil, e.recorded()
	if d := e.Data.Devices; d != nil {
		s.Devices = &audits.Devices{Unseen: d.Unseen, HeldOut: d.HeldOut, IID: d.IID, Profiles: d.Profiles != nil}
	}
	for _, m := range e.Audit.Asked() {
		s.Audits = append(s.Audits, m.Fields)
	}
	return s
}

// unpopulated is the recipe of the training without a population, clipped or not.
func (e *Experiment) unpopulated() privacy.Recipe {
	if e.Training.Privacy != nil {
		return e.recipe(0)
	}
	t := &e.Training
	return privacy.Recipe{
		Cohort: t.Cohort, Rounds: t.Rounds, Sampling: t.Sampling, Unit: e.Unit(), Separation: t.Separation, Participations: t.Participations,
	}
}

// trained is the number of parameters that learn from data.
func (e *Experiment) trained() int {
	network, err := architectures.New(e.Model.Config(&e.Data))
	if err != nil {
		return 0 // Parse reports the error
	}
	return network.Trained()
}

// Joiner is the audit that sends clients of its own into the training; nil without one.
func (e *Experiment) Joiner() audits.Joiner {
	for _, m := range e.Audit.Asked() {
		if j, ok := m.Fields.(audits.Joiner); ok {
			return j
		}
	}
	return nil
}

// joining is the number of users that audits add to the population.
func (e *Experiment) joining() int {
	if j := e.Joiner(); j != nil {
		return j.Clients().Count
	}
	return 0
}

// completeAudits fills in what follows from other fields.
func (d *decoder) completeAudits(e *Experiment) {
	s := e.Setting()
	given := func(path string) bool { return d.present[path] != nil }
	for _, m := range e.Audit.Asked() {
		if c, ok := m.Fields.(audits.Completer); ok {
			c.Complete(s, given)
		}
	}
}

// audit checks each audit beside the experiment around it.
func (c *checker) audit() {
	s, asked := c.Setting(), c.Audit.Asked()
	if len(asked) == 0 {
		c.fail([]string{"audit"}, "measures nothing; add %s, or remove audit", anyMethod())
	}
	for _, m := range asked {
		m.Check(s, c.fail)
	}
}

// anyMethod is "random_sampling, beam_search or utility: true".
func anyMethod() string {
	var words []string
	for _, f := range fieldsOf(reflect.TypeFor[Audit]()) {
		if f.added == nil {
			continue
		}
		if _, ok := f.block(); ok {
			words = append(words, f.name)
		} else {
			words = append(words, f.name+": true")
		}
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// limits checks that every limit can be measured, and can be passed.
func (c *checker) limits() {
	if c.Audit.FailIf == nil {
		return
	}
	s, given := c.Setting(), false
	for i, limits := range c.Audit.FailIf.Gates {
		if limits == nil {
			continue
		}
		for _, f := range fieldsOf(reflect.TypeOf(limits).Elem()) {
			if f.in(reflect.ValueOf(limits).Elem()).IsNil() {
				continue
			}
			given = true
			c.measured("audit.fail_if."+f.name, &all.Audits()[i], c.Audit.Methods[i])
		}
		if l, ok := limits.(audits.LimitChecker); ok {
			l.Check(s, c.fail)
		}
	}
	if !given {
		c.fail([]string{"audit.fail_if"}, "has no limit; expected one of %s", fieldNames(reflect.TypeFor[FailIf]()))
	}
}

// measured reports a limit of an audit that could be asked for, and isn't.
func (c *checker) measured(path string, d *audits.Description, fields audits.Fields) {
	if fields != nil && !fields.Asked() {
		other := "audit." + d.Name
		c.fail([]string{path, other}, "limits what %s measures, which is not there; add it, or remove the limit", other)
	}
}
