package experiment

import "coalmine/tasks/datasets"

// Reading is how the texts become sentences, with nothing left to defaults.
func (d *Data) Reading() datasets.Reading {
	return datasets.Reading{Level: d.Level, Sequence: d.Sequence}.Complete()
}

// Ordinary is the number of ordinary tokens: those of the vocabulary without the
// special ones, or the symbols that the level fixes.
func (d *Data) Ordinary() int {
	if symbols := d.Level.Scheme().Symbols; symbols != nil {
		return len(symbols)
	}
	return d.Vocabulary.Size
}

// Tokens is the size of a model's vocabulary, special tokens included.
func (d *Data) Tokens() int { return d.Ordinary() + datasets.FirstWord }
