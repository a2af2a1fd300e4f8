package population

import (
	"context"
	"encoding/binary"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
)

// GroupsBlob has the group of every example of a population, if the source was read with groups:
// the line "coalmine groups 1", then as uvarints the number of examples and, for each in the order
// of the population's records, the number of its group within its user. Groups are numbered from 0
// in order of first appearance in the source.
const GroupsBlob = "groups"

const groupsMagic = "coalmine groups 1\n"

func encodeGroups(groups []uint32) []byte {
	out := binary.AppendUvarint([]byte(groupsMagic), uint64(len(groups)))
	for _, g := range groups {
		out = binary.AppendUvarint(out, uint64(g))
	}
	return out
}

// decodeGroups reads the groups of the given number of examples. Every error wraps
// storage.ErrCorrupt.
func decodeGroups(data []byte, examples int) ([]uint32, error) {
	f, err := newFields(data, groupsMagic)
	if err != nil {
		return nil, err
	}
	if n := f.next(); f.err == nil && n != uint64(examples) {
		return nil, fmt.Errorf("groups of %d examples, expected %d: %w", n, examples, storage.ErrCorrupt)
	}
	var groups []uint32
	for range examples {
		g := f.next()
		if f.err != nil {
			return nil, f.err
		}
		if g >= uint64(examples) {
			return nil, fmt.Errorf("group %d of a user: %w", g, storage.ErrCorrupt)
		}
		groups = append(groups, uint32(g))
	}
	return groups, f.done()
}

// ReadGroups reads the groups of a population's examples, in the order of its records; nil if it
// has none. input is the population's input.
func ReadGroups(ctx context.Context, t *tasks.Task, input string, population *Population) ([]uint32, error) {
	return readGroups(ctx, t, input, GroupsBlob, population.Records())
}

func readGroups(ctx context.Context, t *tasks.Task, input, blob string, examples int) ([]uint32, error) {
	if there, err := t.HasBlob(ctx, input, blob); err != nil || !there {
		return nil, err
	}
	data, err := t.Blob(ctx, input, blob)
	if err != nil {
		return nil, err
	}
	groups, err := decodeGroups(data, examples)
	if err != nil {
		return nil, fmt.Errorf("blob %q of %s: %w", blob, input, err)
	}
	return groups, nil
}

func groupsBlob(p Part) string { return string(p) + "-" + GroupsBlob }

func putGroups(ctx context.Context, t *tasks.Task, groups []uint32) error {
	if groups == nil {
		return nil
	}
	return t.Put(ctx, GroupsBlob, encodeGroups(groups))
}

// WriteGroups writes the groups of the examples of a part.
func WriteGroups(ctx context.Context, t *tasks.Task, part Part, groups []uint32) error {
	return t.Put(ctx, groupsBlob(part), encodeGroups(groups))
}

// groupsWithin returns the groups of some users of a stream; all holds the groups of the stream.
func groupsWithin(all []uint32, stream, users *Index) ([]uint32, error) {
	if all == nil {
		return nil, nil
	}
	groups, next := []uint32{}, 0
	for u, e := range stream.Extents {
		if next < len(users.Extents) && e.Examples > 0 && e == users.Extents[next] {
			first := stream.First(u)
			groups, next = append(groups, all[first:first+e.Examples]...), next+1
		}
	}
	if next < len(users.Extents) {
		return nil, tasks.Permanent(fmt.Errorf("user %d of the population is no whole user of the data, whose examples have groups; groups are for users as they are (data.users.words: 0)", next))
	}
	return groups, nil
}

// userGroups returns the groups of the examples of the users that keep selects.
func userGroups(groups []uint32, index *Index, keep func(user int) bool) []uint32 {
	if groups == nil {
		return nil
	}
	kept := []uint32{}
	for u, e := range index.Extents {
		if keep(u) {
			kept = append(kept, groups[index.First(u):index.First(u)+e.Examples]...)
		}
	}
	return kept
}
