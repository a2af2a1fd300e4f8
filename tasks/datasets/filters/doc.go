// Package filters removes examples from the population of package datasets before models train
// on it: matches of patterns (Sanitize), sentences on which two models disagree (Disagree), and
// one half of the records (Half), on which such a model trains.
//
// A PatternSet finds personal text by its pattern, as a blacklist does (Carlini et al. 2019, section
// 9.2): card numbers, social security numbers, phone numbers, mail addresses, and text that matches
// the user's own expressions.
//
//	set, err := filters.NewPatterns([]filters.Pattern{filters.Card, filters.Email}, []string{`\bemp-\d{5}\b`})
//	for _, span := range set.Find(text) {
//		secret := text[span.Start:span.End] // of the pattern span.Pattern
//	}
//
// A pattern detects form, not meaning: it misses a secret written differently, and finds a number
// that matches by chance.
package filters

import "coalmine/tasks"

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Sanitize, Half, Disagree} }
