package datasets

import (
	"context"
	"fmt"
	"slices"

	"coalmine/tasks"
)

// Inputs of the kinds that write a population anew, beside PartsInput: the population,
// and the node that its stream is in.
const (
	PopulationInput = "population"
	ShardsInput     = "shards"
)

// PopulationExample is an example of a population as it trains.
type PopulationExample struct {
	User, Example int
	// Canary is the number of the canary that stands there, -1 for none.
	Canary int
	// Words are its tokens without Begin and End. They must not be written to.
	Words []int32
}

// RewritePopulation writes the population of the inputs PopulationInput and ShardsInput
// anew, with shards of its own. change returns the words that take the place of an
// example's: the same slice keeps it, and any other makes a canary an ordinary example;
// none removes it. Users keep their numbers, also those who have no example any more.
func RewritePopulation(ctx context.Context, t *tasks.Task, change func(PopulationExample) ([]int32, error)) error {
	population, err := OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	w := newPopulationWriter(ctx, t, population)
	if err := w.rewrite(ctx, t, population, change); err != nil {
		return err
	}
	return w.close(ctx, t, population)
}

// rewrite goes through the population.
func (w *populationWriter) rewrite(ctx context.Context, t *tasks.Task, population *Population, change func(PopulationExample) ([]int32, error)) error {
	replaced := population.Replacements()
	for user := range population.Users() {
		sentences, err := population.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		for i, sentence := range sentences {
			x := PopulationExample{User: user, Example: i, Canary: -1, Words: sentence[1 : 1+WordsOf(sentence)]}
			if len(replaced) > 0 && replaced[0].User == user && replaced[0].Example == i {
				x.Canary, replaced = replaced[0].Canary, replaced[1:]
			}
			words, err := change(x)
			if err != nil {
				return err
			}
			if err := w.add(x, words); err != nil {
				return err
			}
		}
		w.endUser()
		t.Progress(tasks.Progress{Done: int64(user + 1), Total: int64(population.Users())})
	}
	return nil
}

// populationWriter writes users one after another. Those with fewer examples than atLeast
// are left out, and the ones after them get their numbers.
type populationWriter struct {
	atLeast  int
	sequence int
	stream   *streamWriter
	open     Extent
	extents  []Extent
	overlay  Overlay
	record   []byte
}

func newPopulationWriter(ctx context.Context, t *tasks.Task, p *Population) *populationWriter {
	return &populationWriter{sequence: p.index.Sequence, stream: newStreamWriter(ctx, t, Train)}
}

func (w *populationWriter) add(x PopulationExample, words []int32) error {
	if len(words) == 0 {
		return nil
	}
	if same := len(words) == len(x.Words) && &words[0] == &x.Words[0]; same && x.Canary >= 0 {
		w.overlay = append(w.overlay, Replacement{User: len(w.extents), Example: w.open.Examples, Canary: x.Canary})
	}
	w.record = appendExample(w.record[:0], words)
	w.open.Examples++
	w.open.Words += len(words)
	_, err := w.stream.Write(w.record)
	return err
}

func (w *populationWriter) endUser() {
	w.open.Length = w.stream.offset - w.open.Offset
	if w.open.Examples >= w.atLeast {
		w.extents = append(w.extents, w.open)
	} else {
		w.overlay = slices.DeleteFunc(w.overlay, func(r Replacement) bool { return r.User == len(w.extents) })
	}
	w.open = Extent{Offset: w.stream.offset}
}

func (w *populationWriter) close(ctx context.Context, t *tasks.Task, before *Population) error {
	index := newIndex(int64(w.stream.size), w.sequence, w.extents)
	if index.Counts().Examples == 0 {
		return tasks.Permanent(fmt.Errorf("all %d examples are removed, and nothing is left to train on", before.Records()))
	}
	if err := w.stream.Close(); err != nil {
		return err
	}
	return WritePopulation(ctx, t, index, before.placements(), w.overlay, before.Records()-index.Counts().Examples)
}
