package experiment

import (
	"fmt"

	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/selection"
)

// sourceLevel returns the level at which the source is read.
func (d *Data) sourceLevel() text.Level {
	if d.selectedWords() != nil {
		return text.WordLevel
	}
	return d.Reading().Level
}

// selectedWords returns the selection of words as examples, or nil if examples are sentences.
func (d *Data) selectedWords() *SelectWords {
	if d.Select == nil {
		return nil
	}
	return d.Select.Words
}

// Outside returns the selection of words as a parameter of tasks. It is zero without one.
func (d *Data) Outside() datasets.Outside {
	w := d.selectedWords()
	if w == nil {
		return datasets.Outside{}
	}
	o := datasets.Outside{Size: w.Outside, Sequence: w.Sequence}
	if o.Sequence == text.SentenceWords {
		o.Sequence = 0
	}
	return o
}

// Side returns the selected side of the percentile, and the percentile from 0 to 100.
func (u *SelectUsers) Side() (selection.Side, float64) {
	if u.Below.IsZero() {
		return selection.Above, 100 * u.Above.Float64()
	}
	return selection.Below, 100 * u.Below.Float64()
}

// minExamples is the default of data.select.at_least (Augenstein et al. 2020, appendix C.4).
const minExamples = 5

// complete sets the default of data.select.at_least.
func (s *Select) complete() {
	if s == nil || s.Examples == "" || s.AtLeast != 0 {
		return
	}
	switch s.Examples {
	case selection.AtRandom, selection.Unlabelled, selection.Labelled:
		s.AtLeast = 1
	case selection.Misclassified, selection.Correct, selection.OfLowChance:
		s.AtLeast = minExamples
	}
}

// label describes the selection, or returns "" without one.
func (s *Select) label(p *Prepare) string {
	switch {
	case s.unlikely() && p != nil && p.SecondLanguageModel != nil:
		return "unlikely examples by ratio"
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
	c.unlabelled()
	s := c.Data.Select
	if s == nil {
		return
	}
	if given := s.given(); given != 1 {
		c.fail([]string{"data.select"}, "has %d of words, examples and users; expected exactly one", given)
	}
	if s.Users != nil && s.Users.Below.IsZero() == s.Users.Above.IsZero() {
		c.fail([]string{"data.select.users"}, "expected either below or above, such as below: 25%%")
	}
	if s.AtLeast > 0 && s.Examples == "" {
		c.fail([]string{"data.select.at_least", "data.select.examples"}, "needs data.select.examples; add it, or remove the field")
	}
	if s.Words != nil && c.Data.Level != text.ByteLevel {
		c.fail([]string{"data.select.words", "data.level"}, "selects words, which become examples in bytes, but data.level is %s; expected byte", c.Data.Reading().Level)
	}
	c.selectedExamples(s)
	if s.predicted() && c.Prepare.classifier() == nil {
		c.fail([]string{"data.select", "prepare.classifier"}, "needs the predictions of a classifier; add prepare.classifier, such as {steps: 2000}")
	}
	if s.Words == nil {
		c.uncounted()
	}
}

// given returns how many of words, examples and users are given.
func (s *Select) given() int {
	given := 0
	for _, one := range []bool{s.Words != nil, s.Examples != "", s.Users != nil} {
		if one {
			given++
		}
	}
	return given
}

// predicted reports whether the selection uses predictions of a classifier.
func (s *Select) predicted() bool { return s != nil && (s.Examples.Predicted() || s.Users != nil) }

// unlikely reports whether the selection uses scores of a language model.
func (s *Select) unlikely() bool { return s != nil && s.Examples == selection.OfLowChance }

// selectedExamples checks the fields that a criterion for examples requires.
func (c *checker) selectedExamples(s *Select) {
	const path = "data.select.examples"
	switch s.Examples {
	case selection.AtRandom:
		c.random(s)
	case selection.Labelled, selection.Unlabelled:
		if !c.Data.Image.lacksLabels() {
			c.fail([]string{path, "data.image.unlabelled", "data.level"}, "is %s, but every image must have a label; add data.image.unlabelled: true", s.Examples)
		}
	case selection.OfLowChance:
		c.unlikely(s)
	case selection.Misclassified, selection.Correct: // require the same as users
	}
}

// unlikely checks that a language model and one threshold are given.
func (c *checker) unlikely(s *Select) {
	const path = "data.select.examples"
	if c.Prepare == nil || c.Prepare.LanguageModel == nil {
		c.fail([]string{path, "prepare.language_model"}, "needs the likelihoods of a language model; add prepare.language_model, such as {source: public.jsonl, steps: 2000}")
	}
	if s.Percentile.IsZero() == (s.Above == nil) {
		c.fail([]string{path, "data.select.percentile", "data.select.above"}, "is unlikely; add either data.select.percentile, such as 90%%, or data.select.above, such as 6 nats a token")
	}
}

// random checks that either a share or a number per user is given.
func (c *checker) random(s *Select) {
	if s.Share.IsZero() == (s.PerUser == 0) {
		c.fail([]string{"data.select.examples", "data.select.share", "data.select.per_user"}, "is random; add either data.select.share, such as 10%%, or data.select.per_user, such as 5")
	}
	if s.PerUser > 0 && s.AtLeast > s.PerUser {
		c.fail([]string{"data.select.at_least", "data.select.per_user"}, "is %d, but no user has more than the %s of data.select.per_user; expected at most that", s.AtLeast, readable.Count(s.PerUser, "example"))
	}
}

// unlabelled checks that no cnn trains on images without labels.
func (c *checker) unlabelled() {
	if !c.Data.Image.lacksLabels() || c.Model.Kind != models.CNN {
		return
	}
	if s := c.Data.Select; s == nil || s.Examples != selection.Labelled && !s.Examples.Predicted() {
		c.fail([]string{"data.image.unlabelled", "model.kind", "data.select.examples"}, "allows images without labels, but a cnn learns from labels; expected data.select.examples: labelled or model.kind: gan, or remove the field")
	}
}

// uncounted rejects fields that need the number of users or examples before the selection has run.
func (c *checker) uncounted() {
	if c.Training.Epochs > 0 {
		c.fail([]string{"training.epochs", "data.select"}, "cannot be converted to rounds, because the number of selected examples is known only during the run; use training.rounds")
	}
	if p := c.Training.Privacy; p != nil && p.Budget != nil {
		c.fail([]string{"training.privacy.budget", "data.select"}, "cannot be planned, because the number of selected users is known only during the run; remove it")
	}
}
