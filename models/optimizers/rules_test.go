package optimizers

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// fileField returns the field of RuleParameters with a JSON name.
func fileField(t *testing.T, name string) reflect.StructField {
	t.Helper()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[RuleParameters]()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f
		}
	}
	t.Fatalf("Given has no field %q", name)
	return reflect.StructField{}
}

func TestFileFieldsNameRulesThatUseThem(t *testing.T) {
	t.Parallel()
	for _, p := range parameters {
		if p.given == nil {
			continue
		}
		_, when, _ := strings.Cut(fileField(t, p.Name).Tag.Get("when"), "optimizer=")
		for _, rule := range Rules() {
			if says := slices.Contains(strings.Fields(when), string(rule.Kind)); says != rule.Uses(p.Name) {
				t.Errorf("the tag when of Given's %s says optimizer=%s, and the entry of %s: uses it: %v; make them agree",
					p.Name, when, rule.Kind, rule.Uses(p.Name))
			}
		}
	}
}

func TestEveryParameterIsListedOnce(t *testing.T) {
	t.Parallel()
	config := reflect.TypeFor[Config]()
	if n := config.NumField() - 1; n != len(parameters) {
		t.Errorf("Config has %d parameters, and %d are listed", n, len(parameters))
	}
	if n := reflect.TypeFor[RuleParameters]().NumField(); n != len(slices.DeleteFunc(slices.Clone(parameters), func(p Parameter) bool { return p.given == nil })) {
		t.Errorf("Given has %d parameters, which is not the number of those listed that a file can state", n)
	}
	for i, p := range parameters {
		var c Config
		*p.in(&c) = 7
		if f := reflect.ValueOf(c).Field(i + 1); f.Float() != 7 || !strings.HasPrefix(config.Field(i+1).Tag.Get("json"), p.Name+",") {
			t.Errorf("%s is not field %d of Config", p.Name, i+1)
		}
	}
}

func TestGivenParametersReplaceTheDefaultsOfTheirRule(t *testing.T) {
	t.Parallel()
	for _, rule := range Rules() {
		g := RuleParameters{Beta2: new(0.25)}
		if !rule.Uses("beta2") {
			g.Beta2 = nil
		}
		config := must.Get(g.Config(rule.Kind))(t)
		want := must.Get(Defaults(rule.Kind))(t)
		if rule.Uses("beta2") {
			want.Beta2 = 0.25
		}
		if config != want {
			t.Errorf("%s: %+v, want %+v", rule.Kind, config, want)
		}
		g.Complete(rule.Kind)
		if again, err := g.Config(rule.Kind); err != nil || again != config {
			t.Errorf("%s, completed: %+v (%v), want %+v", rule.Kind, again, err, config)
		}
		if (g.Momentum != nil) != rule.Uses("momentum") || (g.Epsilon != nil) != rule.Uses("epsilon") {
			t.Errorf("%s: completed to parameters that it does not use, or without some", rule.Kind)
		}
	}
	if _, err := (&RuleParameters{}).Config("newton"); err == nil {
		t.Error("parameters of an unknown rule")
	}
}

func TestRulesAndCoursesAreDescribed(t *testing.T) {
	t.Parallel()
	for _, r := range Rules() {
		if r.Title == "" || r.Summary == "" || r.Source == "" || r.start == nil {
			t.Errorf("the entry of %s lacks a title, a summary, a source or its constructor", r.Kind)
		}
		if config, err := Defaults(r.Kind); err != nil || config.Validate() != nil {
			t.Errorf("the defaults of %s are not valid: %v, %v", r.Kind, err, config.Validate())
		}
	}
	for _, c := range Courses() {
		if c.Summary == "" || c.check == nil || c.share == nil {
			t.Errorf("the entry of the schedule %s lacks a summary or a function", c.Kind)
		}
	}
}

// Half of the elements have a gradient in the first steps alone, as those of a unit that dies: their
// squares decay to subnormal numbers. Parameters are the same to the last bit whether these are flushed or
// not, also when the gradient comes back.
func TestFlushedSquaresShowInNoParameter(t *testing.T) {
	t.Parallel()
	config := must.Get(Defaults(RMSProp))(t)
	var results [2][]float32
	for i, flush := range []bool{false, true} {
		o := must.Get(New(config, 200))(t)
		rng, params, grad := rand.New(rand.NewPCG(1, 2)), make([]float32, 200), make([]float32, 200)
		subnormal := false
		for step := range 1500 {
			for k := range grad {
				grad[k] = float32(rng.NormFloat64())
				if k%2 == 0 && step > 10 && step < 1400 {
					grad[k] = 0
				}
			}
			o.Step(params, grad, 0.001)
			if flush {
				FlushSubnormals(o)
			}
			subnormal = subnormal || slices.ContainsFunc(o.State()[0].Values, func(x float32) bool { return x > 0 && x < minNormal })
		}
		if subnormal == flush {
			t.Errorf("flushed %v: subnormal squares %v", flush, subnormal)
		}
		results[i] = params
	}
	if !slices.Equal(results[0], results[1]) {
		t.Error("flushing changes parameters")
	}
}
