package experiment

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// scope is a block that contains the current field; conditions look up their field in it.
type scope struct {
	value reflect.Value
	path  string
}

// complete sets defaults and clears fields that do not apply, such as those of another algorithm or
// optimizer. A cleared field is a mistake if it was given together with the choice that excludes it, but
// not if the field is in the body of the file and the choice in the grid.
func (d *decoder) complete(e *Experiment) {
	d.refused = d.bad
	d.completeBlock([]scope{{reflect.ValueOf(e).Elem(), ""}})
	t := &e.Training
	if whole := e.Data.Level.Scheme().Images || e.Data.Devices != nil || e.Data.Order == source.TimeOrder; whole && d.present["data.users.words"] == nil {
		e.Data.Users.Words = 0
	}
	if e.Data.Test.Split != "" && d.present["data.test.fraction"] == nil {
		e.Data.Test.Fraction = numbers.Probability{}
	}
	design := d.takeDesign(e)
	if e.Canaries != nil && d.sound("canaries data") {
		d.completeCanaries(e.Canaries, &e.Data)
	}
	if d.sound(setting) {
		d.completeAudits(e, design)
	}
	e.Model.complete(d.present["model.units"] != nil)
	if d := &e.Data; e.Model.Pretrained != "" && d.Level == text.SubwordLevel && d.Tokenizer == "" {
		d.Tokenizer = strings.TrimRight(e.Model.Pretrained, "/") + "/tokenizer.json"
	}
	for _, p := range e.Prepare.all() {
		p.Optimizer.complete(0.005)
	}
	e.Data.Select.complete()
	d.completeSampling(t)
	t.Privacy.complete(t.Cohort)
	if t.Algorithm == External {
		t.Rounds = max(1, t.Rounds)
		return
	}
	if t.Central() {
		t.Client.complete(0.005)
		return
	}
	if e.Model.Kind == models.External {
		t.Client = Client{Noise: t.Client.Noise, Compress: t.Client.Compress}
	} else {
		t.Client.complete(e.Model.clientRate())
	}
	t.Record.complete()
	if t.Server != nil {
		t.Server.complete(1)
	}
	if d.present["training.chunks"] == nil && t.Cohort > 0 {
		t.Chunks = min(t.Chunks, t.Cohort)
	}
}

func (m *Model) complete(unitsGiven bool) {
	if m.Kind == models.Transformer {
		if !unitsGiven {
			m.Units = 4 * m.Embedding
		}
		if m.Adapters != nil {
			m.Adapters = m.Adapters.plain()
		}
		return
	}
	if m.Projection == nil && m.Embedding > 0 && !m.Kind.ForLabels() {
		m.Projection = new(m.Embedding)
	}
	if m.Kind == models.GAN && m.Penalty == nil {
		m.Penalty = new(float64(models.DefaultPenalty))
	}
}

// plain omits fields that equal their defaults, so that equal cells have equal adapters.
func (a *Adapters) plain() *Adapters {
	plain := *a
	if plain.Alpha == float64(plain.Rank) {
		plain.Alpha = 0
	}
	order := models.AdaptedMatrix("").Choices()
	place := func(m models.AdaptedMatrix) int { return slices.Index(order, string(m)) }
	plain.Matrices = slices.SortedFunc(slices.Values(a.Matrices), func(x, y models.AdaptedMatrix) int { return place(x) - place(y) })
	if slices.Equal(plain.Matrices, models.DefaultAdapted) {
		plain.Matrices = nil
	}
	return &plain
}

// clientRate returns the default learning rate of clients: 0.5 for language models (Augenstein et al. 2020,
// appendix B.2), 0.0005 for a gan (table 9).
func (m *Model) clientRate() float64 {
	if m.Kind == models.GAN {
		return 0.0005
	}
	return 0.5
}

// completeSampling sets the default sampling of sgd: none without privacy, otherwise the sampling with the
// smallest epsilon.
func (d *decoder) completeSampling(t *Training) {
	const path = "training.sampling"
	switch {
	case !t.Central():
	case t.Privacy == nil:
		d.contradicts(path, "training.privacy", "null (training.algorithm: sgd)", nil)
		t.Sampling = ""
	case d.present[path] == nil:
		t.Sampling = privacy.Poisson
	}
}

// complete sets values that follow from other fields.
func (p *Privacy) complete(cohort int) {
	if p == nil {
		return
	}
	if p.Budget != nil && p.Budget.Delta == 0 {
		p.Budget.Delta = p.Delta
	}
	if p.Adaptive != nil && p.Adaptive.CountNoise == 0 {
		p.Adaptive.CountNoise = float64(cohort) / 20
	}
}

// Secret reports whether noise and cohorts come from a secret key.
func (p *Privacy) Secret() bool { return p != nil && p.Randomness == privacy.Secret }

// Accounting returns the conversion of epsilons, or "" for the classic one.
func (p *Privacy) Accounting() privacy.Conversion {
	if p.Conversion == privacy.Classic {
		return ""
	}
	return p.Conversion
}

// Prover returns the given or default accountant.
func (p *Privacy) Prover() privacy.Accountant { return cmp.Or(p.Accountant, privacy.Tightest) }

// ClipQuantile returns the adaptive clipping, or nil for a fixed clip norm.
func (p *Privacy) ClipQuantile() *privacy.ClipQuantile {
	if p.Adaptive == nil {
		return nil
	}
	return &privacy.ClipQuantile{
		Target: p.Adaptive.Quantile, LearningRate: p.Adaptive.LearningRate, CountNoise: p.Adaptive.CountNoise,
	}
}

// completeBlock completes the last of the scopes and the blocks in it.
func (d *decoder) completeBlock(scopes []scope) {
	here := scopes[len(scopes)-1]
	for _, f := range fieldsOf(here.value.Type()) {
		v, path := f.in(here.value), join(here.path, f.name)
		if !d.applies(f, scopes, path) {
			v.SetZero()
			continue
		}
		if d.present[path] == nil && f.hasDef {
			d.setDefault(v, &f)
		}
		if _, ok := f.blocks(); ok {
			for i := range v.Len() {
				d.completeBlock(append(slices.Clip(scopes), scope{v.Index(i), itemPath(path, i)}))
			}
		}
		if _, ok := f.block(); !ok || v.Kind() == reflect.Pointer && v.IsNil() {
			continue
		}
		d.completeBlock(append(slices.Clip(scopes), scope{reflect.Indirect(v), path}))
	}
}

func (d *decoder) setDefault(v reflect.Value, f *field) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return
	}
	d.leaf(&node{kind: scalarNode, text: f.fallback}, v, f, f.name)
}

// applies reports whether the condition of a field holds. It looks up the condition's field in the nearest
// block that has it.
func (d *decoder) applies(f field, scopes []scope, path string) bool {
	if f.when.field == "" {
		return true
	}
	for _, s := range slices.Backward(scopes) {
		_, chooser, ok := fieldAt(s.value, f.when.field)
		if !ok {
			continue
		}
		choice := cmp.Or(chooser.String(), absent)
		if slices.Contains(f.when.values, choice) || d.isBad(join(s.path, f.when.field)) {
			return true
		}
		d.contradicts(path, join(s.path, f.when.field), choice, f.when.values)
		return false
	}
	return true
}

// absent stands for an absent choice in the values of a condition.
const absent = "absent"

// contradicts reports a field given together with a choice that makes it useless.
func (d *decoder) contradicts(path, chooser, choice string, useful []string) {
	switch {
	case !d.givenTogether(path, chooser):
	case choice == absent:
		d.fail(d.present[path].at, path, "has no effect without %s: %s; add that, or remove the field", chooser, strings.Join(useful, " or "))
	default:
		d.fail(d.present[path].at, path, "has no effect with %s: %s; remove it", chooser, choice)
	}
}

// givenTogether reports whether a field is given in the same layer as another, or in the body if the other
// is not given.
func (d *decoder) givenTogether(path, other string) bool {
	given := d.present[path]
	if given == nil || given.kind == nullNode {
		return false
	}
	otherIn := bodyLayer
	if n := d.present[other]; n != nil {
		otherIn = n.layer
	}
	return given.layer == otherIn
}

// sound reports whether no field at, above or below the paths, which spaces separate, has a mistake of its own.
func (d *decoder) sound(paths string) bool {
	return !slices.ContainsFunc(strings.Fields(paths), func(path string) bool { return touches(d.refused, path) })
}

// isBad reports whether a mistake is at, below or above a path.
func (d *decoder) isBad(path string) bool { return touches(d.bad, path) }

// touches reports whether one of the paths is at, below or above other.
func touches(paths []string, other string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return within(path, other) || within(other, path)
	})
}
