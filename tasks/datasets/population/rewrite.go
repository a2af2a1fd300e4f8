package population

import (
	"context"
	"fmt"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/datasets/text"
)

// Inputs, in addition to PartsInput, of the kinds that rewrite a population: the population, and
// the node with its stream.
const (
	Input       = "population"
	ShardsInput = "shards"
)

// Example is an example of a population as used in training.
type Example struct {
	User, Example int
	// Canary is the number of the canary at this example, -1 without one.
	Canary int
	// Words are the tokens without Begin and End. The caller must not modify them.
	Words []int32
}

// Rewrite rewrites the population of the inputs Input and ShardsInput into new shards, with the groups of the
// examples. change returns the new words of an example: the same slice keeps the example, an empty slice
// removes it, and any other replaces it and makes a canary an ordinary example. Users keep their numbers,
// including users left without examples.
func Rewrite(ctx context.Context, t *tasks.Task, change func(Example) ([]int32, error)) error {
	return rewrite(ctx, t, 0, change)
}

// rewrite drops users left with fewer than atLeast examples.
func rewrite(ctx context.Context, t *tasks.Task, atLeast int, change func(Example) ([]int32, error)) error {
	population, err := Open(ctx, t, Input, ShardsInput)
	if err != nil {
		return err
	}
	groups, err := ReadGroups(ctx, t, Input, population)
	if err != nil {
		return err
	}
	w := NewWriter(ctx, t, population)
	w.atLeast = atLeast
	if groups != nil {
		w.groupsBefore, w.groups = groups, []uint32{}
	}
	if err := w.rewrite(ctx, population, change); err != nil {
		return err
	}
	return w.Close(ctx)
}

func (w *Writer) rewrite(ctx context.Context, population *Population, change func(Example) ([]int32, error)) error {
	for user := range population.Users() {
		sentences, err := population.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		replaced := population.Replacements().of(user)
		for i, sentence := range sentences {
			x := Example{User: user, Example: i, Canary: replaced.take(i), Words: sentence[1 : 1+text.WordsOf(sentence)]}
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

func (w *Writer) keep(x Example, words []int32) error {
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

// Writer writes a population from the examples and canaries of another, user after user,
// to new shards: the blobs and metrics of Partition.
type Writer struct {
	*PartWriter
	task    *tasks.Task
	before  *Population
	atLeast int // users with fewer examples are dropped, and later users renumbered
	overlay Overlay
	// groups has the groups of the kept examples, groupsBefore those of all examples before; nil without
	// groups.
	groupsBefore, groups []uint32
}

// NewWriter begins a population derived from another.
func NewWriter(ctx context.Context, t *tasks.Task, before *Population) *Writer {
	return &Writer{PartWriter: NewPartWriter(ctx, t, Train, before.index.Sequence), task: t, before: before}
}

// Add adds an example to the current user: words without Begin and End, at least one, and the
// number of the canary at this example, -1 without one.
func (w *Writer) Add(words []int32, canary int) error {
	if canary >= 0 {
		w.overlay = append(w.overlay, Replacement{User: len(w.extents), Example: w.open.Examples, Canary: canary})
	}
	return w.PartWriter.Add(words)
}

// EndUser ends the current user. The next example belongs to the next user.
func (w *Writer) EndUser() {
	user, examples := len(w.extents), w.open.Examples
	if w.PartWriter.EndUser(); examples >= w.atLeast {
		return
	}
	w.extents = w.extents[:user]
	w.overlay = slices.DeleteFunc(w.overlay, func(r Replacement) bool { return r.User == user })
	if w.groups != nil {
		w.groups = w.groups[:len(w.groups)-examples]
	}
}

// Close writes the blobs that Open reads. A population without examples is a
// permanent error.
func (w *Writer) Close(ctx context.Context) error {
	index, err := w.PartWriter.Close()
	if err != nil {
		return err
	}
	records := w.before.Records()
	kept := index.Counts().Examples
	if kept == 0 {
		return tasks.Permanent(fmt.Errorf("all %d examples are removed, and nothing is left to train on", records))
	}
	if err := putGroups(ctx, w.task, w.groups); err != nil {
		return err
	}
	return Write(ctx, w.task, index, w.before.overlay.placements(), w.overlay, max(0, records-kept))
}

// SelectExamples rewrites the population of the inputs Input and ShardsInput into new shards, with only the
// examples that keep selects. Users left with fewer than atLeast examples, at least 1, are dropped; the
// remaining users are renumbered in order.
func SelectExamples(ctx context.Context, t *tasks.Task, atLeast int, keep func(Example) (bool, error)) error {
	return rewrite(ctx, t, max(1, atLeast), func(x Example) ([]int32, error) {
		if kept, err := keep(x); !kept {
			return nil, err
		}
		return x.Words, nil
	})
}

// SelectUsers writes the users of the population of Input that keep selects, renumbered in order. Their
// examples stay in their shards.
func SelectUsers(ctx context.Context, t *tasks.Task, keep func(user int) bool) error {
	population, err := Open(ctx, t, Input, ShardsInput)
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
	groups, err := ReadGroups(ctx, t, Input, population)
	if err != nil {
		return err
	}
	if err := putGroups(ctx, t, userGroups(groups, population.index, keep)); err != nil {
		return err
	}
	index := population.index.WithExtents(extents)
	return Write(ctx, t, index, population.overlay.placements(), overlay, population.Records()-index.Counts().Examples)
}
