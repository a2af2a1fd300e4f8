package population

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"coalmine/storage"
)

// OverlayBlob is the name of an overlay.
const OverlayBlob = "overlay"

// Overlay lists the examples of an index that canaries replace, ordered by user, then example, each
// at most once.
//
// Its binary form is: the line "coalmine overlay 1", then as uvarints the number of replacements,
// and for each replacement the difference of users to the previous one, the example (if the user is
// the same, the difference to the previous one, less 1), and the canary.
type Overlay []Replacement

// Replacement replaces a user's example by a canary.
type Replacement struct{ User, Example, Canary int }

const overlayMagic = "coalmine overlay 1\n"

// Sort orders the replacements by user, then example.
func (o Overlay) Sort() {
	slices.SortFunc(o, func(a, b Replacement) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Example, b.Example), cmp.Compare(a.Canary, b.Canary))
	})
}

func (o Overlay) of(user int) Overlay {
	from := sort.Search(len(o), func(i int) bool { return o[i].User >= user })
	to := from
	for to < len(o) && o[to].User == user {
		to++
	}
	return o[from:to]
}

// take removes the first replacement if it is at an example, and returns its canary; otherwise -1.
func (o *Overlay) take(example int) (canary int) {
	if len(*o) == 0 || (*o)[0].Example != example {
		return -1
	}
	canary = (*o)[0].Canary
	*o = (*o)[1:]
	return canary
}

func (o Overlay) encode() []byte {
	out := []byte(overlayMagic)
	out = binary.AppendUvarint(out, uint64(len(o)))
	before := Replacement{Example: -1}
	for _, r := range o {
		if r.User != before.User {
			before.Example = -1
		}
		out = binary.AppendUvarint(out, uint64(r.User-before.User))
		out = binary.AppendUvarint(out, uint64(r.Example-before.Example-1))
		out = binary.AppendUvarint(out, uint64(r.Canary))
		before = r
	}
	return out
}

// DecodeOverlay reads the binary form of an overlay with the given number of
// canaries. Every error wraps storage.ErrCorrupt.
func DecodeOverlay(data []byte, canaries int) (Overlay, error) {
	f, err := newFields(data, overlayMagic)
	if err != nil {
		return nil, err
	}
	var o Overlay
	before := Replacement{Example: -1}
	for range f.next() {
		users, examples, canary := f.next(), f.next(), f.next()
		if f.err != nil {
			return nil, f.err
		}
		if users > 0 {
			before.Example = -1
		}
		r := Replacement{before.User + int(users), before.Example + 1 + int(examples), int(canary)}
		if r.User < before.User || r.Example <= before.Example || canary >= uint64(canaries) {
			return nil, fmt.Errorf("replacement %+v with %d canaries: %w", r, canaries, storage.ErrCorrupt)
		}
		o = append(o, r)
		before = r
	}
	return o, f.done()
}
