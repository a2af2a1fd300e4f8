// Package filters removes examples from the population of package datasets before models train
// on it: matches of patterns (Sanitize), sentences on which two models disagree (Disagree), and
// one half of the records (Half), on which such a model trains.
package filters

import "coalmine/tasks"

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Sanitize, Half, Disagree} }
