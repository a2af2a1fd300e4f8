package observed

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// OwnersInputs are what Owners reads: the names of the source's users, its parts, and the
// population that was divided into devices.
func OwnersInputs(b audits.Builder) []tasks.Input {
	names, population := b.Users()
	return []tasks.Input{
		{Name: datasets.CorpusInput, Key: names}, {Name: datasets.PartsInput, Key: b.Parts()}, {Name: datasets.PopulationInput, Key: population},
	}
}

// Owners are the names of the source's users, and for each user that was divided into devices
// the number of the one in whose examples its own stand, -1 for a user without examples.
func Owners(ctx context.Context, t *tasks.Task) (names []string, owners []int, err error) {
	if names, err = readNames(ctx, t); err != nil {
		return nil, nil, err
	}
	source, err := datasets.ReadIndex(ctx, t, datasets.PartsInput, datasets.IndexBlob(datasets.Train))
	if err != nil {
		return nil, nil, err
	}
	users, err := datasets.ReadIndex(ctx, t, datasets.PopulationInput, datasets.PopulationIndexBlob)
	if err != nil {
		return nil, nil, err
	}
	owners = make([]int, len(users.Extents))
	for u, e := range users.Extents {
		owners[u] = -1
		if e.Examples == 0 {
			continue
		}
		if owners[u] = ownerOf(source, e); owners[u] < 0 || owners[u] >= len(names) {
			return nil, nil, fmt.Errorf("user %d of the population is no part of a user of the source", u)
		}
	}
	return names, owners, nil
}

func readNames(ctx context.Context, t *tasks.Task) (names []string, err error) {
	data, err := t.Blob(ctx, datasets.CorpusInput, datasets.UsersBlob)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &names); err != nil {
		return nil, fmt.Errorf("names of users: %w: %w", err, storage.ErrCorrupt)
	}
	return names, nil
}

// ownerOf is the user whose extent holds another; -1 where there is none.
func ownerOf(x *datasets.Index, e datasets.Extent) int {
	u := sort.Search(len(x.Extents), func(u int) bool { return x.Extents[u].Offset+x.Extents[u].Length > e.Offset })
	if u == len(x.Extents) || e.Offset < x.Extents[u].Offset || e.Offset+e.Length > x.Extents[u].Offset+x.Extents[u].Length {
		return -1
	}
	return u
}
