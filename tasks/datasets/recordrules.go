package datasets

import (
	"bytes"
	"fmt"

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

// comparing returns a reading that sets differs when FirstRules read a record differently.
func (r Reading) comparing(differs *bool) Reading {
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
func (u recordRules) decode(m Image, file []byte) ([]byte, error) {
	if u.first {
		return m.decodeStored(file)
	}
	pixels, err := m.Decode(file)
	if u.differs != nil && (err != nil || Oriented(file)) {
		stored, storedErr := m.decodeStored(file)
		u.note(!bytes.Equal(pixels, stored) || fmt.Sprint(err) != fmt.Sprint(storedErr))
	}
	return pixels, err
}
