package experiment

import (
	"reflect"
	"slices"
	"strings"

	"coalmine/models"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
)

// Setting returns the experiment as audits see it.
func (e *Experiment) Setting() *audits.Setting {
	s := &audits.Setting{
		Seed: e.Seed, Reading: e.Data.Reading(), Ordinary: e.Data.OrdinaryTokens(), TestFraction: e.Data.Test.Fraction, TestSplit: e.Data.Test.Split, Generator: e.Model.Kind == models.GAN,
		Prepared:     e.Prepare.classifier() != nil,
		Untied:       e.Model.Config(&e.Data).Untied,
		Owned:        e.Data.Partition == population.ByUser && e.Data.Sanitize == nil && e.Data.Disagreement == nil,
		HeldOutUsers: e.Data.HeldOutUsers.Fraction,
		Own:          e.Data.Select == nil && e.Data.Sanitize == nil && e.Data.Disagreement == nil && e.Data.Devices == nil,
		Training: audits.Training{
			Central: e.Training.Central(), Sampling: privacy.Sampling(e.Training.Sampling), Unit: e.Unit(), ClientNoise: e.Training.deviceNoise(),
			Rounds: e.Training.Rounds, Cohort: e.Training.Cohort, Recipe: e.unpopulated(), Quantized: e.Training.QuantizeBits != nil, Compressed: e.Training.Client.Compress != nil,
		},
	}
	s.Trained, s.TrainedTensors = e.trained()
	if c := e.Canaries; c != nil {
		s.Canaries = &audits.Canaries{Groups: c.groups(&e.Data), Inserted: len(c.AllFormats()) * c.insertedOfAFormat(), PerConfiguration: c.PerConfiguration}
	}
	if p := e.Training.Privacy; p != nil {
		s.Training.Clip, s.Training.NoiseMultiplier, s.Training.Delta = p.Clip, p.NoiseMultiplier, p.Delta
	}
	s.Program = e.ClientProgram()
	if e.Training.Algorithm == External {
		s.External = &external.ModelParams{Image: e.Data.Shape()}
		s.External.Code, _ = storage.ParseDigest(e.Training.scorerCode()) // zero without code; compiling rejects an invalid digest
	}
	s.Records, s.Recorded = e.Training.Record != nil, e.recorded()
	if d := e.Data.Devices; d != nil {
		s.Devices = &audits.Devices{Unseen: d.Unseen, HeldOut: d.HeldOut, IID: d.IID, Profiles: d.Profiles != nil}
	}
	for _, m := range e.Audit.Requested() {
		s.Audits = append(s.Audits, m.Fields)
	}
	return s
}

// unpopulated returns the recipe of a training with or without privacy. Its population is 0.
func (e *Experiment) unpopulated() privacy.Recipe {
	if e.Training.Privacy != nil {
		return e.recipe(0)
	}
	t := &e.Training
	return privacy.Recipe{
		Cohort: t.Cohort, Rounds: t.Rounds, Sampling: t.Sampling, Unit: e.Unit(), Separation: t.Separation, Participations: t.Participations,
	}
}

// trained returns the number of trained parameters and of the tensors that contain them.
func (e *Experiment) trained() (parameters, tensors int) {
	network, err := checkpoints.NewNetwork(e.Model.Config(&e.Data))
	if err != nil {
		return 0, 0 // Parse reports the error
	}
	return network.Trained(), len(models.TrainedTensors(network))
}

// Sender returns the audit whose canaries are vectors that members of the training send, or nil.
func (e *Experiment) Sender() audits.Sender {
	for _, m := range e.Audit.Requested() {
		if audits.Sends(m.Fields) {
			return m.Fields.(audits.Sender)
		}
	}
	return nil
}

// Replay returns the replay of training.command that an audit requests, or nil.
func (e *Experiment) Replay() *external.Replay {
	for _, m := range e.Audit.Requested() {
		if m.Replay != nil && e.Training.Command != "" {
			return m.Replay(m.Fields)
		}
	}
	return nil
}

// joining returns the number of users that audits add to the population.
func (e *Experiment) joining() int {
	if s := e.Sender(); s != nil {
		if c := s.Clients(e.Setting()); c.Coins == "" {
			return c.Count
		}
	}
	return 0
}

// completeAudits sets values of audits that follow from other fields.
func (d *decoder) completeAudits(e *Experiment, design canaries.Design) {
	s := e.Setting()
	s.Design = design
	given := func(path string) bool { return d.present[path] != nil }
	for _, m := range e.Audit.Requested() {
		if c, ok := m.Fields.(audits.Completer); ok {
			c.Complete(s, given)
		}
	}
	d.checkDrawn(e, design)
}

// audit checks the audit block.
func (c *checker) audit() {
	if c.Audit == nil {
		return
	}
	s, asked := c.Setting(), c.Audit.Requested()
	if len(asked) == 0 {
		c.fail([]string{"audit"}, "measures nothing; add %s, or remove audit", anyMethod())
	}
	for _, m := range asked {
		m.Check(s, c.fail)
	}
	if c.Audit.Control != "" {
		c.control(asked)
	}
}

// control rejects a deliberate fault of the training that no requested audit would detect, or that does not
// apply to the training.
func (c *checker) control(asked []Method) {
	const path = "audit.control"
	t, control := &c.Training, c.Audit.Control
	if !slices.ContainsFunc(asked, func(m Method) bool { return m.OfPrivacy }) {
		c.fail([]string{path}, "breaks the training on purpose, but no audit of privacy would detect it; add audit.one_run or audit.one_shot, or remove the control")
	}
	switch {
	case t.Central():
		c.fail([]string{path, "training.algorithm"}, "is a fault of federated training; expected training.algorithm: fedavg, or no control")
	case t.Privacy == nil || t.Privacy.NoiseMultiplier == 0:
		c.fail([]string{path, "training.privacy"}, "violates the guarantee of the training, but without noise there is none; set training.privacy.noise_multiplier, or remove the control")
	case t.Sampling == privacy.Separated:
		c.fail([]string{path, "training.sampling"}, "is a fault of trainings with independent cohorts and noise; expected a training.sampling other than %s", t.Sampling)
	case t.Privacy.NoiseBy == privacy.ByDevices:
		c.fail([]string{path, "training.privacy.noise_by"}, "is a fault of a server that draws the noise; expected training.privacy.noise_by: %s, or no control", privacy.ByServer)
	case control == privacy.PoissonAccounted && t.Sampling != privacy.Poisson:
		c.fail([]string{path, "training.sampling"}, "accounts for Poisson samples that are not drawn, but training.sampling is %s; expected %s", t.Sampling, privacy.Poisson)
	}
}

// Controlled returns the deliberate fault of the training, or "".
func (a *Audit) Controlled() privacy.Control {
	if a == nil {
		return ""
	}
	return a.Control
}

// WithoutAudits returns an audit block with only the cell's deliberate fault, or nil without one.
func (a *Audit) WithoutAudits() *Audit {
	if a.Controlled() == "" {
		return nil
	}
	return &Audit{Control: a.Control}
}

// WithOnly returns an audit block with one audit and the cell's deliberate fault.
func (a *Audit) WithOnly(fields audits.Fields) *Audit {
	alone := &Audit{Control: a.Controlled(), Methods: newMethods()}
	for i, other := range alone.Methods {
		if reflect.TypeOf(other) == reflect.TypeOf(fields) {
			alone.Methods[i] = fields
		}
	}
	return alone
}

// anyMethod returns a list such as "random_sampling, beam_search or utility: true".
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

// limits checks that each limit can be measured and met.
func (c *checker) limits() {
	if c.Audit == nil || c.Audit.FailIf == nil {
		return
	}
	s, given := c.Setting(), false
	for i, limits := range c.Audit.FailIf.Gates {
		if limits == nil {
			continue
		}
		d := &all.Audits()[i]
		if !c.sound(limitPaths(d)) {
			given = true
			continue
		}
		for _, l := range d.GivenLimits(limits) {
			given = true
			c.measured("audit.fail_if."+l.Name, d, c.Audit.Methods[i])
		}
		for _, l := range d.GivenLimits(limits) {
			l.Check(s, l.Value, c.fail)
		}
	}
	if !given {
		c.fail([]string{"audit.fail_if"}, "has no limit; expected one of %s", fieldNames(reflect.TypeFor[FailIf]()))
	}
}

func limitPaths(d *audits.Description) string {
	var paths []string
	for _, l := range d.Limits {
		paths = append(paths, "audit.fail_if."+l.Name)
	}
	return strings.Join(paths, " ")
}

// methodPaths returns the paths of the blocks of all audits.
func methodPaths() string {
	var paths []string
	for _, d := range all.Audits() {
		paths = append(paths, "audit."+d.Name)
	}
	return strings.Join(paths, " ")
}

// measured reports a limit if its audit is not requested.
func (c *checker) measured(path string, d *audits.Description, fields audits.Fields) {
	if fields != nil && !audits.Asked(fields) {
		other := "audit." + d.Name
		c.fail([]string{path, other}, "limits a number of %s, which is not requested; add it, or remove the limit", other)
	}
}

// Setting returns the experiment as audits see it, with the facts of the data once they are known.
func (c *Cell) Setting() *audits.Setting {
	s := c.Experiment.Setting()
	s.Data = c.data
	return s
}
