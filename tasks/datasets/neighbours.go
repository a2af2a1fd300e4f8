package datasets

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"coalmine/tasks"
)

// WriteOnly writes the population with the data of only some users; other users stay, without
// examples. Blobs are as for Partition.
func (p *Population) WriteOnly(ctx context.Context, t *tasks.Task, users []int) error {
	extents := slices.Clone(p.index.Extents)
	for u := range extents {
		if !slices.Contains(users, u) {
			extents[u] = Extent{Offset: extents[u].Offset}
		}
	}
	return p.write(ctx, t, extents, func(u int) bool { return slices.Contains(users, u) })
}

// LastPair returns the last user with two or more examples and no canary, -1 if there is none.
func (p *Population) LastPair() int {
	for u := p.Users() - 1; u >= 0; u-- {
		if p.Examples(u) >= 2 && len(p.Replacements().of(u)) == 0 {
			return u
		}
	}
	return -1
}

// WriteWithout writes the population up to user u, a LastPair, without one of u's examples.
// Examples keep their order; the user may become two. From len(examples) on, no example is left
// out.
func (p *Population) WriteWithout(ctx context.Context, t *tasks.Task, u, example int) error {
	e := p.index.Extents[u]
	data, err := p.stream.read(ctx, e.Offset, e.Length)
	if err != nil {
		return err
	}
	r := bytes.NewReader(data)
	pieces := []Extent{{Offset: e.Offset}, {}}
	for i := range e.Examples {
		from := int64(len(data) - r.Len())
		words, err := readExample[int32](r, nil, p.index.Sequence, maxToken)
		if err != nil {
			return fmt.Errorf("user %d: %w", u, err)
		}
		end := int64(len(data) - r.Len())
		piece := &pieces[0]
		switch {
		case i == example:
			pieces[1].Offset = e.Offset + end
			continue
		case i > example:
			piece = &pieces[1]
		}
		piece.Length, piece.Examples, piece.Words = piece.Length+end-from, piece.Examples+1, piece.Words+len(words)
	}
	pieces = slices.DeleteFunc(pieces, func(e Extent) bool { return e.Examples == 0 })
	return p.write(ctx, t, append(slices.Clone(p.index.Extents[:u]), pieces...), func(other int) bool { return other < u })
}

// write writes the population with the given extents and the canaries of some users.
func (p *Population) write(ctx context.Context, t *tasks.Task, extents []Extent, has func(user int) bool) error {
	overlay := slices.DeleteFunc(slices.Clone(p.Replacements()), func(r Replacement) bool { return !has(r.User) })
	return WritePopulation(ctx, t, p.index.WithExtents(extents), p.placements(), overlay, 0)
}
