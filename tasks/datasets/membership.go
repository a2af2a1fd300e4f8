package datasets

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// PlacedExample is an example of a source and its part.
type PlacedExample struct {
	// Example is the position in the source, from 0; User is the user's number in the corpus.
	Example, User int
	Part          population.Part
	// Sentence is the example in the part: token ids from Begin, with End unless they fill a
	// sequence; nil if Unused. It must not be modified.
	Sentence []int32
}

// EachPlaced calls do with each example of a source and its part, user after user. t has the inputs
// CorpusInput, Import, and PartsInput, Encode with the given parameters. The sentences come from
// the parts themselves, so a part that disagrees with its coins is an error. Memory is one byte per
// example, and the users of the source.
func EachPlaced(ctx context.Context, t *tasks.Task, p EncodeParams, do func(PlacedExample) error) error {
	e := &encoder{task: t, params: p}
	if err := e.open(ctx); err != nil {
		return err
	}
	e.tokens = make([]int32, len(e.words)) // only lengths are compared
	return e.eachPlaced(ctx, do)
}

// EachPlacedWord is EachPlaced for the words that OutOfVocabulary with the given parameters
// selected; t has its VocabularyInput too. Example is the position of a word's sentence, which
// several words may share.
func EachPlacedWord(ctx context.Context, t *tasks.Task, p *OutOfVocabularyParams, do func(PlacedExample) error) error {
	e, err := openOutside(ctx, t, p)
	if err != nil {
		return err
	}
	return e.eachPlaced(ctx, do)
}

func (e *encoder) eachPlaced(ctx context.Context, do func(PlacedExample) error) error {
	var parts [len(population.Parts)]partReader
	for j, part := range population.Parts {
		pop, err := population.OpenPart(ctx, e.task, population.PartsInput, part)
		if err != nil {
			return err
		}
		parts[j] = partReader{part: part, population: pop}
	}
	return e.eachExample(ctx, func(x sourceExample) error {
		return e.pieces(x, func(tokens []int32) error {
			number := e.parts[x.ordinal]
			if number == unused {
				return do(PlacedExample{x.ordinal, x.user, population.Unused, []int32{}})
			}
			sentence, err := parts[number].next(ctx, x.user)
			if err != nil {
				return err
			}
			if text.WordsOf(sentence) != len(tokens) {
				return fmt.Errorf("example %d of the source has %d words, %d in the part %s: %w", x.ordinal, len(tokens), text.WordsOf(sentence), population.Parts[number], storage.ErrCorrupt)
			}
			return do(PlacedExample{x.ordinal, x.user, population.Parts[number], sentence})
		})
	}, nil)
}

// partReader reads the examples of a part in order.
type partReader struct {
	part       population.Part
	population *population.Population
	user, read int // read counts the user's examples read so far
}

func (r *partReader) next(ctx context.Context, user int) ([]int32, error) {
	if user != r.user {
		r.user, r.read = user, 0
	}
	if user >= r.population.Users() || r.read >= r.population.Examples(user) {
		return nil, fmt.Errorf("the part %s has no example %d of user %d: %w", r.part, r.read, user, storage.ErrCorrupt)
	}
	sentences, err := r.population.ReadUser(ctx, user)
	if err != nil {
		return nil, err
	}
	r.read++
	return sentences[r.read-1], nil
}
