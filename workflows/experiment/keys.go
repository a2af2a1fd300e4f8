package experiment

import (
	"bytes"
	"slices"
)

// Keys returns the distinct fingerprints of the cells' secret keys, in the order of the cells.
func (s *Spec) Keys() []string {
	var keys []string
	for i := range s.Cells {
		if p := s.Cells[i].Experiment.Training.Privacy; p.Secret() && p.Key != "" && !slices.Contains(keys, p.Key) {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

// SameButKeys reports whether two experiments differ only in their secret keys.
func (s *Spec) SameButKeys(other *Spec) bool {
	return s.Name == other.Name && bytes.Equal(s.withoutKeys().Canonical(), other.withoutKeys().Canonical())
}

func (s *Spec) withoutKeys() *Spec {
	without := *s
	without.Cells = slices.Clone(s.Cells)
	for i := range without.Cells {
		if t := &without.Cells[i].Experiment.Training; t.Privacy != nil {
			p := *t.Privacy
			p.Key = ""
			t.Privacy = &p
		}
	}
	return &without
}
