package experiment

import "coalmine/tasks/datasets"

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

// selecting checks what is selected.
func (c *checker) selecting() {
	s := c.Data.Select
	if s == nil {
		return
	}
	if s.Words == nil {
		c.fail([]string{"data.select", "data.select.words"}, "selects nothing; expected data.select.words, such as {outside: 10000}")
		return
	}
	if c.Data.Level != datasets.ByteLevel {
		c.fail([]string{"data.select.words", "data.level"}, "selects words, which are spelled in bytes, and data.level is %s; expected byte", c.Data.Reading().Level)
	}
}
