package experiment

import (
	"fmt"
	"slices"

	"coalmine/tasks/datasets"
)

// listCanaryWords lists the words from which canaries at the subword level are drawn, in the
// formats that list none.
func (s *Spec) listCanaryWords(facts []Facts) {
	for i := range s.Cells {
		e := &s.Cells[i].Experiment
		if e.Canaries == nil || e.Data.Level != datasets.SubwordLevel {
			continue
		}
		c := *e.Canaries
		c.Formats = slices.Clone(c.Formats)
		for j := range c.Formats {
			c.Formats[j].list(facts[i].CanaryWords)
		}
		if len(c.Formats) == 0 {
			c.list(facts[i].CanaryWords)
		}
		e.Canaries = &c
	}
}

func (f *CanaryFormat) list(words []string) {
	if len(f.Symbols) == 0 {
		f.Symbols = words
	}
}

// checkCanaryWords checks that there are words to draw canaries from.
func (c *dataChecker) checkCanaryWords() {
	e := &c.Experiment
	if e.Canaries == nil || e.Data.Level != datasets.SubwordLevel {
		return
	}
	if e.Canaries.Spaces(&e.Data)[0].Symbols == "" {
		c.fail("canaries.symbols", "missing, and %s has no words of one token each; list words that are", e.Data.Tokenizer)
		return
	}
}

// checkSubwords repeats the checks of a file that depend on the words of canaries, which are
// known only with the tokenizer.
func (c *Cell) checkSubwords() error {
	if c.Experiment.Data.Level != datasets.SubwordLevel || c.Experiment.Canaries == nil {
		return nil
	}
	if err := c.Experiment.check(); err != nil {
		return fmt.Errorf("%s: with words of %s: %w", c.Where("canaries"), c.Experiment.Data.Tokenizer, err)
	}
	return nil
}

// subwords checks the fields that the subword level needs or excludes.
func (c *checker) subwords() {
	if c.Data.Level != datasets.SubwordLevel {
		return
	}
	if c.Data.Tokenizer == "" {
		c.fail([]string{"data.tokenizer", "data.level"}, "missing, and data.level is %s; expected the path of a file tokenizer.json", c.Data.Level)
	}
	if c.Data.Sanitize != nil {
		c.fail([]string{"data.sanitize", "data.level"}, "looks for patterns in words or bytes, and data.level is %s; expected another level", c.Data.Level)
	}
}
