package experiment

import (
	"fmt"

	"coalmine/tasks/datasets"
	"coalmine/tasks/selection"
)

// sourceLevel is the level at which the source is read.
func (d *Data) sourceLevel() datasets.Level {
	if d.selectedWords() != nil {
		return datasets.WordLevel
	}
	return d.Reading().Level
}

// selectedWords says which words are examples of their own; nil where sentences are.
func (d *Data) selectedWords() *SelectWords {
	if d.Select == nil {
		return nil
	}
	return d.Select.Words
}

// Outside says which words are selected as tasks take it.
func (d *Data) Outside() datasets.Outside {
	w := d.selectedWords()
	if w == nil {
		return datasets.Outside{}
	}
	o := datasets.Outside{Size: w.Outside, Sequence: w.Sequence}
	if o.Sequence == datasets.SentenceWords {
		o.Sequence = 0
	}
	return o
}

// Side is the side of the percentile whose users are selected, and the percentile, 0 to 100.
func (u *SelectUsers) Side() (selection.Side, float64) {
	if u.Below.IsZero() {
		return selection.Above, 100 * u.Above.Float64()
	}
	return selection.Below, 100 * u.Below.Float64()
}

// label names what is selected by a classifier, for people; empty without.
func (s *Select) label() string {
	switch {
	case s != nil && s.Examples != "":
		return string(s.Examples) + " examples"
	case s == nil || s.Users == nil:
		return ""
	}
	side, percentile := s.Users.Side()
	return fmt.Sprintf("users %s %g%% in accuracy", side, percentile)
}

// selecting checks data.select.
func (c *checker) selecting() {
	s := c.Data.Select
	if s == nil {
		return
	}
	given := 0
	for _, one := range []bool{s.Words != nil, s.Examples != "", s.Users != nil} {
		if one {
			given++
		}
	}
	if given != 1 {
		c.fail([]string{"data.select"}, "has %d of words, examples and users; expected one of the three", given)
	}
	if s.Users != nil && s.Users.Below.IsZero() == s.Users.Above.IsZero() {
		c.fail([]string{"data.select.users"}, "expected one of below and above, such as below: 25%%")
	}
	if s.AtLeast > 0 && s.Examples == "" {
		c.fail([]string{"data.select.at_least", "data.select.examples"}, "is about selected examples; expected data.select.examples beside it")
	}
	if s.Words != nil && c.Data.Level != datasets.ByteLevel {
		c.fail([]string{"data.select.words", "data.level"}, "selects words, which are spelled in bytes, and data.level is %s; expected byte", c.Data.Reading().Level)
	}
	if s.predicted() {
		c.predicted()
	}
}

// predicted reports whether the choice goes by what a classifier predicts.
func (s *Select) predicted() bool { return s != nil && (s.Examples != "" || s.Users != nil) }

// predicted checks what a selection leaves open until its classifier is trained.
func (c *checker) predicted() {
	if c.Prepare.classifier() == nil {
		c.fail([]string{"data.select", "prepare.classifier"}, "goes by what a classifier predicts, and there is none; expected prepare.classifier, such as {steps: 2000}")
	}
	if c.Training.Epochs > 0 {
		c.fail([]string{"training.epochs", "data.select"}, "cannot be counted: how many are selected shows when the classifier is trained; expected training.rounds")
	}
	if p := c.Training.Privacy; p != nil && p.Budget != nil {
		c.fail([]string{"training.privacy.budget", "data.select"}, "cannot be planned: how many users are selected shows when the classifier is trained; expected none")
	}
}
