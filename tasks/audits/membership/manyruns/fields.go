package manyruns

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
)

// Fields of the audit block.
type Fields struct {
	// Lower bound on epsilon from many trainings of Coalmine, each with a seed of its own and one canary, which a
	// fair coin puts in or leaves out as in one_run. Half of the trainings choose the score that tells the
	// coin, the others prove the bound. Each costs as much as the cell's own training.
	ManyRuns *Block `json:"many_runs,omitempty"`
}

type Block struct {
	// Trainings. Every second one proves.
	Runs int `json:"runs" default:"200" range:"[20,10000]" unit:"trainings"`
	// What carries the coin: text in the data; an update (fedavg); or a gradient (sgd, with privacy). As in
	// one_run, vectors are scored by the likelihood of all released sums.
	CanariesOf onerun.CanariesOf `json:"canaries_of,omitempty"`
	// Words of a text canary, at most data.sequence; 5 by default.
	Words int `json:"words,omitempty" range:"[2,1000]" unit:"words (byte level: bytes)"`
	// Words of a text canary, as in one_run.
	Design onerun.Design `json:"design,omitempty"`
	// The delta of the bound, by default training.privacy.delta, which it must equal with noise; 1e-5
	// without.
	Delta float64 `json:"delta" range:"(0,1)"`
	// Probability with which the bound holds.
	Confidence numbers.Probability `json:"confidence" default:"95%" range:"(0,1)"`
}

const path = "audit.many_runs"

const defaultWords = 5

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	o := f.ManyRuns
	if !given(path + ".delta") {
		o.Delta = s.DefaultDelta()
	}
	if text := o.CanariesOf == "" || o.CanariesOf == onerun.Text; text && !given(path+".words") {
		o.Words = defaultWords
	}
}

func (o *Block) oneRun() *onerun.Fields {
	b := &onerun.Block{
		Canaries: 1, CanariesOf: o.CanariesOf, Words: o.Words, Design: o.Design, Guesses: onerun.Guesses{KPlus: 1},
		Delta: o.Delta, Confidence: o.Confidence,
	}
	if b.Vectors() {
		b.Statistic = onerun.AllIterates
	}
	return &onerun.Fields{OneRun: b}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	o := f.ManyRuns
	switch {
	case fail.If(s.External != nil, []string{path, "training.algorithm"}, "repeats a training of Coalmine, and the training is external; remove one of them"),
		fail.If(s.Program != nil, []string{path, "training.client_command"}, "repeats a training of Coalmine, and training.client_command trains clients by a program; remove one of them"),
		fail.If(s.Devices != nil, []string{path, "data.devices"}, "puts a canary in the place of a user, and data.devices divides users into devices; remove one of them"),
		fail.If(s.Training.Quantized, []string{path, "training.quantize_bits"}, "measures the model as the training leaves it, and training.quantize_bits rounds its weights; remove one of them"),
		fail.If(slices.ContainsFunc(s.Audits, onerun.SendsToo), []string{path, "audit.one_shot"}, "repeats the training without the clients of audit.one_shot, whose cohorts are others; ask for them in two experiments"):
	case o.oneRun().OneRun.CheckTraining(s, asOneRun(fail)):
		s.CheckDelta(fail, path+".delta", o.Delta, "the two bounds")
	}
}

// asOneRun reports mistakes of each training's audit as mistakes of this audit's fields.
func asOneRun(fail audits.Fail) audits.Fail {
	return func(paths []string, format string, args ...any) {
		own := func(text string) string { return strings.ReplaceAll(text, "audit.one_run", path) }
		fail(lists.Map(paths, own), "%s", own(fmt.Sprintf(format, args...)))
	}
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	o, s := f.ManyRuns, b.Setting()
	one := o.oneRun()
	inputs := []tasks.Input{{Name: PopulationInput, Key: b.Population()}}
	inputs = append(inputs, lists.Make(o.Runs, func(run int) tasks.Input { return tasks.Input{Name: RunInput(run), Key: b.Repeated(run, one)} })...)
	params := Params{
		Runs: o.Runs, Delta: o.Delta, Confidence: o.Confidence.Float64(), Neighbouring: one.OneRun.Neighbouring(s), Unit: s.Training.Unit,
		Null: onerun.NewNull(&s.Training),
	}
	return b.Node(Bound, "many-run audit", params, inputs...)
}

func (f *Fields) States(s *audits.Setting) float64 {
	return float64(f.ManyRuns.Runs) * f.ManyRuns.oneRun().States(s)
}

func (f *Fields) Work(s *audits.Setting) float64 { return onerun.SearchWork(&s.Training) }
