package datasets

import (
	"errors"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// Recipe holds the parameters that determine the numbers of a data set: the parameters of Encode
// and Balance that assign examples to parts and users.
type Recipe struct {
	Seed uint64 `json:"seed"`
	source.Reading
	// Faults are planted when the source is read. The vocabulary comes from the source without
	// faults.
	Faults []faults.Planted `json:"faults,omitempty"`
	// Outside, if set, makes every word outside a vocabulary an example; Reading then reads these
	// words, at the byte level.
	Outside Outside `json:"outside,omitzero"`
	// VocabularySize is the number of ordinary words: 0 at a level with fixed words, the number of
	// the tokenizer's tokens at the subword level.
	VocabularySize     int     `json:"vocabulary_size"`
	TestFraction       float64 `json:"test_fraction"`
	ValidationFraction float64 `json:"validation_fraction"`
	TrainShare         float64 `json:"train_share,omitempty"`
	// Words is the size of a balanced user; 0 leaves users unchanged.
	Words        int     `json:"words"`
	HeldOutUsers float64 `json:"held_out_users"`
	// Members asks Facts to list the users that train. It changes no number.
	Members bool `json:"members,omitempty"`
	// Sizes asks Facts to count the training users by number of examples. It changes no other
	// number.
	Sizes bool `json:"sizes,omitempty"`
	// Named lists words that the vocabulary should have, separated by spaces. They change no
	// number; Facts lists the missing words.
	Named string `json:"named,omitempty"`
	// Phrases are searched for in the source, anywhere in an example. They change no number; Facts
	// counts the distinct matches of each.
	Phrases []Phrase `json:"phrases,omitempty"`
	// Secrets asks Facts, at the byte level, to count the different matches of patterns. It changes no other number.
	Secrets filters.Wanted `json:"secrets,omitzero"`
}

func (r Recipe) Import(sources []storage.Digest, limits source.Limits) ImportParams {
	return ImportParams{Sources: sources, Limits: limits, Reading: r.source().Shortest(), Params: r.faults()}
}

func (r Recipe) source() source.Reading {
	if r.selects() {
		return source.Reading{Sequence: r.Outside.Sequence, Timed: r.Timed, Grouped: r.Grouped, Rules: r.Rules, Origin: r.Origin}
	}
	return r.Reading
}

// selects reports whether examples are words outside a vocabulary.
func (r Recipe) selects() bool { return r.Outside.Size > 0 }

// faults returns the recipe's faults as parameters of Import.
func (r Recipe) faults() faults.Params {
	if len(r.Faults) == 0 {
		return faults.Params{}
	}
	return faults.Params{Faults: r.Faults, FaultSeed: r.Seed}
}

// Vocabulary returns the recipe of the parts that supply the vocabulary, if it differs: it reads
// the source without faults.
func (r Recipe) Vocabulary() (of Recipe, elsewhere bool) {
	of = r
	of.Faults, of.Outside, of.Reading = nil, Outside{}, r.source()
	if r.selects() {
		of.VocabularySize = r.Outside.Size
		return of, true
	}
	return of, len(r.Faults) > 0 && !r.Level.Scheme().Fixed()
}

func (r Recipe) Encode() EncodeParams {
	return EncodeParams{
		Seed:               r.Seed,
		Level:              r.Level,
		VocabularySize:     r.VocabularySize,
		TestFraction:       r.TestFraction,
		ValidationFraction: r.ValidationFraction,
		TrainShare:         r.TrainShare,
		Grouped:            r.Grouped,
		Splits:             r.Divides(),
	}
}

// OutOfVocabulary returns the parameters of OutOfVocabulary, if the recipe selects words.
func (r Recipe) OutOfVocabulary() OutOfVocabularyParams {
	return OutOfVocabularyParams{
		Sequence: r.Shortest().Sequence, Seed: r.Seed, TestFraction: r.TestFraction, ValidationFraction: r.ValidationFraction, TrainShare: r.TrainShare,
		Grouped: r.Grouped, Splits: r.Divides(),
	}
}

func (r Recipe) Balance() population.BalanceParams {
	return population.BalanceParams{Words: r.Words, HeldOutUsers: r.HeldOutUsers, Seed: r.Seed}
}

func (r Recipe) check() error {
	encode, balance := r.Encode(), r.Balance()
	if err := errors.Join(r.Reading.Check(), encode.check(), balance.Check(), r.source().Check()); err != nil {
		return err
	}
	if r.selects() && r.Level != text.ByteLevel || r.Outside.Size < 0 {
		return fmt.Errorf("words outside of a vocabulary of %d at the %s level; expected the %s level, and a vocabulary of at least 1", r.Outside.Size, r.Level, text.ByteLevel)
	}
	if r.Timed && r.Words > 0 {
		return fmt.Errorf("balanced users of %d words, cut from examples in order of their time; expected users as they are (0)", r.Words)
	}
	if r.Grouped && r.Words > 0 {
		return fmt.Errorf("balanced users of %d words, and examples that have groups; expected users as they are (0)", r.Words)
	}
	if _, err := filters.NewPatterns(r.Secrets.Named, r.Secrets.Own); err != nil {
		return err
	}
	return r.faults().Check(r.source().Level)
}
