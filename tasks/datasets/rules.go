package datasets

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
)

// Rules is a version of the rules for reading a source. Keys of imported sources must not change,
// so changed rules are a new version. Only parameters of sources that it reads differently contain
// the version.
//
// 0 stands for FirstRules, except in the recipes of Survey: Survey reads by CurrentRules, and
// Facts.Rules reports whether FirstRules read the source differently.
type Rules int

// The versions of the rules.
const (
	// FirstRules drop the format characters of texts, and ignore the orientation of images.
	FirstRules Rules = 1
	// CurrentRules drop all default-ignorable characters of texts, variation selectors among them,
	// and turn and mirror images by their EXIF orientation.
	CurrentRules Rules = 2
)

func (r Rules) check() error {
	if r < 0 || r > CurrentRules {
		return fmt.Errorf("version %d of the rules of reading; expected %d or %d", r, FirstRules, CurrentRules)
	}
	return nil
}

// first reports whether a task reads by FirstRules.
func (r Rules) first() bool { return cmp.Or(r, FirstRules) == FirstRules }

// recordRules reads the parts of a record that depend on the rules. The zero value reads
// by CurrentRules.
type recordRules struct {
	first bool
	// differs, if not nil, is set when FirstRules read a record differently.
	differs *bool
}

func (r Reading) recordRules() recordRules {
	return recordRules{first: r.Rules.first(), differs: r.differs}
}

// comparing returns a reading that sets differs when FirstRules read a record differently.
func (r Reading) comparing(differs *bool) Reading {
	if !r.Rules.first() {
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
func (u recordRules) hasWord(text string) bool {
	if u.first {
		return hasWord(text, true)
	}
	has := hasWord(text, false)
	u.note(!has && u.differs != nil && hasWord(text, true))
	return has
}

// decode reads an image file of a shape.
func (u recordRules) decode(m Image, file []byte) ([]byte, error) {
	if u.first {
		return m.decodeStored(file)
	}
	pixels, err := m.Decode(file)
	if u.differs != nil && (err != nil || orientationOf(file) > 1) {
		stored, storedErr := m.decodeStored(file)
		u.note(!bytes.Equal(pixels, stored) || fmt.Sprint(err) != fmt.Sprint(storedErr))
	}
	return pixels, err
}

// hasNewlyDropped reports whether CurrentRules drop a character of a text that FirstRules keep.
func hasNewlyDropped(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return isFormat(r, false) && !isFormat(r, true) })
}

// firstLexicon returns the lexicon of FirstRules; nil if FirstRules and CurrentRules give the same
// words for every text.
func firstLexicon(r Reading, f FaultParams) *lexicon {
	level := r.Level.Scheme()
	if r.Rules.first() || level.Images || level.Fixed() && len(f.Faults) == 0 {
		return nil
	}
	r.Rules = FirstRules
	return newLexicon(r, f)
}

func sameWords(a, b *lexicon, as, bs []uint32) bool {
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if a.words.all[as[i]] != b.words.all[bs[i]] {
			return false
		}
	}
	return true
}
