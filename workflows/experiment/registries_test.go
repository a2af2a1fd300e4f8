package experiment

import (
	"reflect"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/models/optimizers"
	"coalmine/tasks/datasets/text"
)

func TestScheduleFieldsMatchTheirKinds(t *testing.T) {
	t.Parallel()
	for _, f := range fieldsOf(reflect.TypeFor[Schedule]()) {
		if f.when.field != "kind" {
			continue
		}
		for _, c := range optimizers.Courses() {
			if says := slices.Contains(f.when.values, string(c.Kind)); says != slices.Contains(c.Fields, f.name) {
				t.Errorf("the tag when of %s says kind=%v, and the entry of %s has the fields %v; make them agree", f.name, f.when.values, c.Kind, c.Fields)
			}
		}
	}
}

// A range of the file and the bounds of the rule's own check end at the same numbers.
func TestOptimizerRangesMatchRules(t *testing.T) {
	t.Parallel()
	for _, rule := range optimizers.Rules() {
		for _, f := range fieldsOf(reflect.TypeFor[optimizers.RuleParameters]()) {
			if !rule.Uses(f.name) {
				continue
			}
			low, _ := f.limits.low.Float64()
			high, _ := f.limits.high.Float64()
			for _, end := range []struct {
				value  float64
				within bool
			}{{low, !f.limits.openLow}, {high, !f.limits.openHigh}, {low - 1, false}, {high + 1, false}} {
				var given optimizers.RuleParameters
				f.in(reflect.ValueOf(&given).Elem()).Set(reflect.ValueOf(&end.value))
				config := must.Get(given.Config(rule.Kind))(t)
				if err := config.Validate(); (err == nil) != end.within {
					t.Errorf("%s %s %v: the file's range takes it: %v; the rule says %v", rule.Kind, f.name, end.value, end.within, err)
				}
			}
		}
	}
}

func TestVocabularySizeMatchesCountingLevels(t *testing.T) {
	t.Parallel()
	f, ok := lookup("data.vocabulary.size")
	if !ok {
		t.Fatal("there is no data.vocabulary.size")
	}
	for _, l := range text.Levels() {
		if counted := l.Symbols == nil; counted != slices.Contains(f.when.values, string(l.Level)) {
			t.Errorf("the tag when of data.vocabulary.size says level=%v, and the entry of %s: counted: %v; make them agree", f.when.values, l.Level, counted)
		}
		if l.Summary == "" || l.Unit == "" || l.Sequence < 1 {
			t.Errorf("the entry of %s lacks a summary, a unit or a length", l.Level)
		}
	}
}
