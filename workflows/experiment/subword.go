package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coalmine/tasks/datasets"
)

// MaxCanaryWords is the default number of words from which canaries at the subword level are drawn.
// It limits the parameters of tasks; five words have 2^45 sequences.
const MaxCanaryWords = 512

// unlistedWords replace the words of canaries before the tokenizer is read.
var unlistedWords = makeUnlistedWords()

func makeUnlistedWords() string {
	words := make([]string, MaxCanaryWords)
	for i := range words {
		words[i] = strconv.Itoa(i)
	}
	return strings.Join(words, " ")
}

// ListCanaryWords lists the words from which canaries at the subword level are drawn, at most the
// first MaxCanaryWords, in formats without a list. It does not change other experiments.
func (e *Experiment) ListCanaryWords(words []string) error {
	if e.Canaries == nil || e.Data.Level != datasets.SubwordLevel {
		return nil
	}
	words = words[:min(len(words), MaxCanaryWords)]
	c := *e.Canaries
	c.Formats = slices.Clone(c.Formats)
	formats := []*CanaryFormat{&c.CanaryFormat}
	if len(c.Formats) > 0 {
		formats = nil
	}
	for i := range c.Formats {
		formats = append(formats, &c.Formats[i])
	}
	for _, f := range formats {
		if len(f.Symbols) > 0 {
			continue
		}
		if len(words) == 0 {
			return fmt.Errorf("%s has no words of one token each; list some as symbols", e.Data.Tokenizer)
		}
		f.Symbols = words
	}
	e.Canaries = &c
	return nil
}

// checkRead repeats the checks that depend on the canaries' words, which the tokenizer determines, and on
// the sizes of a pretrained model.
func (c *Cell) checkRead() error {
	e := &c.Experiment
	where, content := "canaries", "words of "+e.Data.Tokenizer
	if e.Model.Pretrained != "" {
		where, content = "model", "the sizes of "+e.Model.Pretrained
	} else if e.Data.Level != datasets.SubwordLevel || e.Canaries == nil {
		return nil
	}
	if err := e.check(); err != nil {
		return fmt.Errorf("%s: with %s: %w", c.Where(where), content, err)
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
