package source

import (
	"bytes"
	"fmt"

	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
)

// recordRules reads the parts of a record that depend on the rules. The zero value reads
// by CurrentRules.
type recordRules struct {
	first bool
	// differs, if not nil, is set when FirstRules read a record differently.
	differs *bool
}

func (r Reading) recordRules() recordRules {
	return recordRules{first: r.Rules.First(), differs: r.differs}
}

// Comparing returns a reading that sets differs when FirstRules read a record differently.
func (r Reading) Comparing(differs *bool) Reading {
	if !r.Rules.First() {
		r.differs = differs
	}
	return r
}

func (u recordRules) note(differs bool) {
	if differs && u.differs != nil {
		*u.differs = true
	}
}

// hasWord reports whether a text has a word. Each word of CurrentRules is a word of FirstRules too.
func (u recordRules) hasWord(content string) bool {
	if u.first {
		return text.HasWord(content, true)
	}
	has := text.HasWord(content, false)
	u.note(!has && u.differs != nil && text.HasWord(content, true))
	return has
}

// decode reads an image file of a shape.
func (u recordRules) decode(m images.Shape, file []byte) ([]byte, error) {
	if u.first {
		return m.DecodeStored(file)
	}
	pixels, err := m.Decode(file)
	if u.differs != nil && (err != nil || images.Oriented(file)) {
		stored, storedErr := m.DecodeStored(file)
		u.note(!bytes.Equal(pixels, stored) || fmt.Sprint(err) != fmt.Sprint(storedErr))
	}
	return pixels, err
}
