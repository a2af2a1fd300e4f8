package text

import (
	"cmp"
	"fmt"
	"strings"
)

// Rules is a version of the rules for reading a source. Keys of imported sources must not change, so changed
// rules are a new version, which is only in the parameters of sources that it reads differently.
//
// 0 stands for FirstRules, except in the recipes of Survey: Survey reads by CurrentRules, and Facts.Rules
// reports whether FirstRules read the source differently.
type Rules int

// The versions of the rules.
const (
	// FirstRules drop the format characters of texts, and ignore the orientation of images.
	FirstRules Rules = 1
	// CurrentRules drop all default-ignorable characters of texts, variation selectors among them,
	// and turn and mirror images by their EXIF orientation.
	CurrentRules Rules = 2
)

func (r Rules) Check() error {
	if r < 0 || r > CurrentRules {
		return fmt.Errorf("version %d of the rules of reading; expected %d or %d", r, FirstRules, CurrentRules)
	}
	return nil
}

// First reports whether a task reads by FirstRules.
func (r Rules) First() bool { return cmp.Or(r, FirstRules) == FirstRules }

// RulesDiffer reports whether CurrentRules drop a character of the text that FirstRules keep.
func RulesDiffer(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return isFormat(r, false) && !isFormat(r, true) })
}
