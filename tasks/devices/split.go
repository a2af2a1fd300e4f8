package devices

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"coalmine/internal/seeds"
	"coalmine/internal/tempfiles"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// Split divides the users of a population into devices. Canaries stay with the examples that they
// replace.
//
// Params: SplitParams. Inputs: population.Input, population.ShardsInput. Blobs and metrics
// are as for population.Partition, with new shards, and a device as a user; examples on no device are
// discarded. With the prior Groups the population has population.GroupsBlob. In addition:
//
//	devices   see DevicesBlob
//	world     Summary, as JSON
//
// With IID, example i on the devices, counted in their order, goes to place permutation[i] among
// them. Orekondy et al. 2018, section 6.1.1, draw every example from those of all users; a
// permutation does so and keeps the training data, canaries included, as they were.
var Split = tasks.Kind{Name: "devices/split", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runSplit)}

func runSplit(ctx context.Context, t *tasks.Task, params *SplitParams) error {
	s := splitter{task: t, params: *params}
	var err error
	if s.population, err = population.Open(ctx, t, population.Input, population.ShardsInput); err != nil {
		return err
	}
	users, err := s.owned(ctx)
	if err != nil {
		return err
	}
	if s.world, err = s.params.Divide(users); err != nil {
		return tasks.Permanent(fmt.Errorf("dividing users into devices: %w", err))
	}
	if err := s.write(ctx); err != nil {
		return err
	}
	return putWorld(ctx, t, s.world.Devices, s.world.Summary(s.params))
}

// owned counts the examples of each user of the population.
func (s *splitter) owned(ctx context.Context) (users []Owned, err error) {
	if s.params.Prior == Groups {
		if s.groups, err = population.ReadGroups(ctx, s.task, population.Input, s.population); err != nil {
			return nil, err
		}
		if s.groups == nil {
			return nil, tasks.Permanent(errors.New("users are to be divided by the groups of their examples, and the population was read without groups"))
		}
	}
	users = make([]Owned, s.population.Users())
	for user := range users {
		users[user] = Owned{s.population.Examples(user), groupSizes(s.groupsOf(user))}
	}
	return users, nil
}

// groupsOf returns the groups of a user's examples; nil unless the prior is Groups.
func (s *splitter) groupsOf(user int) []uint32 {
	if s.groups == nil {
		return nil
	}
	first, end := s.population.UserRecords(user)
	return s.groups[first:end]
}

// divided returns the numbers of a user's private and prior examples, each ascending.
func (s *splitter) divided(user, n int) (private, prior []int) {
	if s.groups != nil {
		return s.params.byGroup(user, s.groupsOf(user))
	}
	return s.params.examples(user, n)
}

// splitter is one execution of Split.
type splitter struct {
	task       *tasks.Task
	params     SplitParams
	population *population.Population
	groups     []uint32 // groups of its examples; nil unless the prior is Groups
	world      *World
}

// example is an example of a device.
type example struct {
	words  []int32 // valid until the next example
	canary int     // -1 without one
}

// write fills device after device.
func (s *splitter) write(ctx context.Context) error {
	w := population.NewWriter(ctx, s.task, s.population)
	examples := s.examples(ctx)
	if s.params.IID {
		examples = s.shuffled(examples)
	}
	device, filled := 0, 0
	for x, err := range examples {
		if err == nil {
			err = w.Add(x.words, x.canary)
		}
		if err != nil {
			return err
		}
		if filled++; filled == s.world.Sizes[device] {
			w.EndUser()
			device, filled = device+1, 0
			s.task.Progress(tasks.Progress{Done: int64(device), Total: int64(len(s.world.Devices))})
		}
	}
	return w.Close(ctx)
}

// examples yields the examples of the devices, one device after another.
func (s *splitter) examples(ctx context.Context) iter.Seq2[example, error] {
	return func(yield func(example, error) bool) {
		for _, d := range s.world.Devices {
			sentences, err := s.population.ReadUser(ctx, d.User)
			if err != nil {
				yield(example{}, err)
				return
			}
			chosen, prior := s.divided(d.User, len(sentences))
			if d.Shadow {
				chosen = prior
			}
			for _, i := range chosen {
				if !yield(example{FeatureWords(sentences[i]), s.population.Canary(d.User, i)}, nil) {
					return
				}
			}
		}
	}
}

// shuffled yields the examples in random order.
func (s *splitter) shuffled(examples iter.Seq2[example, error]) iter.Seq2[example, error] {
	return func(yield func(example, error) bool) {
		sorter := tempfiles.NewSorter()
		defer sorter.Close()
		if err := s.scatter(examples, sorter); err != nil {
			yield(example{}, err)
			return
		}
		for packed, err := range sorter.Sorted() {
			var x example
			if err == nil {
				x, err = unpack(packed)
			}
			if !yield(x, err) {
				return
			}
		}
	}
}

func (s *splitter) scatter(examples iter.Seq2[example, error], sorter *tempfiles.Sorter) error {
	places := seeds.Stream(s.params.Seed, seeds.DeviceExamples).Perm(s.world.Examples())
	for x, err := range examples {
		if err != nil {
			return err
		}
		if err := sorter.Add(uint64(places[0]), x.pack()); err != nil {
			return err
		}
		places = places[1:]
	}
	return nil
}

// pack encodes the canary plus 1, or 0 without one, as a uvarint, and the words.
func (x example) pack() []byte {
	return population.AppendExample(binary.AppendUvarint(nil, uint64(x.canary+1)), x.words)
}

func unpack(packed []byte) (example, error) {
	rest := bytes.NewReader(packed)
	canary, err := population.ReadNumber(rest)
	if err != nil {
		return example{}, err
	}
	words, err := population.ReadExample(rest, nil, len(packed), math.MaxInt32)
	return example{words, int(canary) - 1}, err
}
