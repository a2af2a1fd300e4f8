package datasets

import (
	"context"
	"fmt"
	"slices"

	"coalmine/tasks"
)

// Inputs, in addition to PartsInput, of the kinds that rewrite a population: the population, and
// the node with its stream.
const (
	PopulationInput = "population"
	ShardsInput     = "shards"
)

// PopulationExample is an example of a population as used in training.
type PopulationExample struct {
	User, Example int
	// Canary is the number of the canary at this example, -1 without one.
	Canary int
	// Words are the tokens without Begin and End. The caller must not modify them.
	Words []int32
}

// RewritePopulation rewrites the population of the inputs PopulationInput and ShardsInput into new
// shards, with the groups of the examples. change returns the new words of an example: the same
// slice keeps the example, an empty slice removes it, and any other replaces it and makes a canary
// an ordinary example. Users keep their numbers, including users left without examples.
func RewritePopulation(ctx context.Context, t *tasks.Task, change func(PopulationExample) ([]int32, error)) error {
	population, err := OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	w, err := newRewriter(ctx, t, population)
	if err != nil {
		return err
	}
	if err := w.rewrite(ctx, population, change); err != nil {
		return err
	}
	return w.Close(ctx)
}

// newRewriter begins to rewrite the population of PopulationInput, with the groups of its examples.
func newRewriter(ctx context.Context, t *tasks.Task, population *Population) (*PopulationWriter, error) {
	groups, err := ReadGroups(ctx, t, PopulationInput, population)
	if err != nil {
		return nil, err
	}
	w := NewPopulationWriter(ctx, t, population)
	if groups != nil {
		w.groupsBefore, w.groups = groups, []uint32{}
	}
	return w, nil
}

func (w *PopulationWriter) rewrite(ctx context.Context, population *Population, change func(PopulationExample) ([]int32, error)) error {
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
			if err := w.keep(x, words); err != nil {
				return err
			}
		}
		w.EndUser()
		w.task.Progress(tasks.Progress{Done: int64(user + 1), Total: int64(population.Users())})
	}
	return nil
}

func (w *PopulationWriter) keep(x PopulationExample, words []int32) error {
	if len(words) == 0 {
		return nil
	}
	if same := len(words) == len(x.Words) && &words[0] == &x.Words[0]; !same {
		x.Canary = -1
	}
	if w.groups != nil {
		w.groups = append(w.groups, w.groupsBefore[w.before.index.First(x.User)+x.Example])
	}
	return w.Add(words, x.Canary)
}

// PopulationWriter writes a population from the examples and canaries of another, user after user,
// to new shards: the blobs and metrics of Partition.
type PopulationWriter struct {
	task     *tasks.Task
	before   *Population
	atLeast  int // users with fewer examples are dropped, and later users renumbered
	sequence int
	stream   *streamWriter
	open     Extent
	extents  []Extent
	overlay  Overlay
	record   []byte
	// groups of the kept examples; nil without groups.
	groupsBefore, groups []uint32
}

// NewPopulationWriter begins a population derived from another.
func NewPopulationWriter(ctx context.Context, t *tasks.Task, before *Population) *PopulationWriter {
	return &PopulationWriter{task: t, before: before, sequence: before.index.Sequence, stream: newStreamWriter(ctx, t, Train)}
}

// Add adds an example to the current user: words without Begin and End, at least one, and the
// number of the canary at this example, -1 without one.
func (w *PopulationWriter) Add(words []int32, canary int) error {
	if canary >= 0 {
		w.overlay = append(w.overlay, Replacement{User: len(w.extents), Example: w.open.Examples, Canary: canary})
	}
	w.record = appendExample(w.record[:0], words)
	w.open.Examples++
	w.open.Words += len(words)
	_, err := w.stream.Write(w.record)
	return err
}

// EndUser ends the current user. The next example belongs to the next user.
func (w *PopulationWriter) EndUser() {
	w.open.Length = w.stream.offset - w.open.Offset
	if w.open.Examples >= w.atLeast {
		w.extents = append(w.extents, w.open)
	} else {
		w.overlay = slices.DeleteFunc(w.overlay, func(r Replacement) bool { return r.User == len(w.extents) })
		if w.groups != nil {
			w.groups = w.groups[:len(w.groups)-w.open.Examples]
		}
	}
	w.open = Extent{Offset: w.stream.offset}
}

// Close writes the blobs that OpenPopulation reads. A population without examples is a
// permanent error.
func (w *PopulationWriter) Close(ctx context.Context) error {
	index, records := newIndex(int64(w.stream.size), w.sequence, w.extents), w.before.Records()
	if index.Counts().Examples == 0 {
		return tasks.Permanent(fmt.Errorf("all %d examples are removed, and nothing is left to train on", records))
	}
	if err := w.stream.Close(); err != nil {
		return err
	}
	if err := putGroups(ctx, w.task, w.groups); err != nil {
		return err
	}
	return WritePopulation(ctx, w.task, index, w.before.placements(), w.overlay, max(0, records-index.Counts().Examples))
}

// SelectExamples rewrites the population of the inputs PopulationInput and ShardsInput into new
// shards, with only the examples that keep selects. Users left with fewer than atLeast examples, at
// least 1, are dropped; the remaining users are renumbered in order.
func SelectExamples(ctx context.Context, t *tasks.Task, atLeast int, keep func(PopulationExample) (bool, error)) error {
	population, err := OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	w, err := newRewriter(ctx, t, population)
	if err != nil {
		return err
	}
	w.atLeast = max(1, atLeast)
	err = w.rewrite(ctx, population, func(x PopulationExample) ([]int32, error) {
		if kept, err := keep(x); !kept {
			return nil, err
		}
		return x.Words, nil
	})
	if err != nil {
		return err
	}
	return w.Close(ctx)
}

// SelectUsers writes the users of the population of PopulationInput that keep selects, renumbered
// in order. Their examples stay in their shards.
func SelectUsers(ctx context.Context, t *tasks.Task, keep func(user int) bool) error {
	population, err := OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	var extents []Extent
	var overlay Overlay
	for user, extent := range population.index.Extents {
		if !keep(user) {
			continue
		}
		for _, r := range population.Replacements().of(user) {
			r.User = len(extents)
			overlay = append(overlay, r)
		}
		extents = append(extents, extent)
	}
	if len(extents) == 0 {
		return tasks.Permanent(fmt.Errorf("none of the %d users is selected, and nothing is left to train on", population.Users()))
	}
	groups, err := ReadGroups(ctx, t, PopulationInput, population)
	if err != nil {
		return err
	}
	if err := putGroups(ctx, t, userGroups(groups, population.index, keep)); err != nil {
		return err
	}
	index := population.index.WithExtents(extents)
	return WritePopulation(ctx, t, index, population.placements(), overlay, population.Records()-index.Counts().Examples)
}
