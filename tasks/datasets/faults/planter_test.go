package faults

import (
	"coalmine/tasks/datasets/text"
	"slices"
	"testing"
)

func TestALargerShareOnlyAddsToASmaller(t *testing.T) {
	t.Parallel()
	small, large := NewPlanter(Params{Faults: []Planted{{Fault: KeepCase, Users: 0.3, Examples: 0.2}}}), NewPlanter(Params{Faults: []Planted{{Fault: KeepCase, Users: 0.4, Examples: 0.7}}})
	more := 0
	for i := range 2000 {
		user := i % 50
		small.Next(user)
		large.Next(user)
		if len(small.hits) > len(large.hits) {
			t.Fatalf("example %d is hit by the smaller share alone", i)
		}
		more += len(large.hits) - len(small.hits)
	}
	if more == 0 {
		t.Error("the larger share hits no example more")
	}
}

func TestFaultsAreLimitedToTheirLevels(t *testing.T) {
	t.Parallel()
	for _, s := range All() {
		p := Planted{Fault: s.Fault, Users: 1}
		if p.Fault == Truncate {
			p.Length = 1
		}
		for _, level := range text.Levels() {
			known := slices.Contains(s.Levels, level.Level)
			if err := p.check(level.Level); (err == nil) != known {
				t.Errorf("%s at the %s level: %v", s.Fault, level.Level, err)
			}
		}
		if images := slices.Contains(s.Levels, text.ImageLevel); images != (s.image != nil) || images && len(s.Levels) > 1 {
			t.Errorf("%s is a fault of %v, and changes images: %v", s.Fault, s.Levels, s.image != nil)
		}
	}
}
