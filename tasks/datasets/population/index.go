package population

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"unsafe"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
)

// Index holds the positions of each user's examples in a stream. Users are numbered from 0 and
// their extents ascend without overlap; examples between two extents belong to no user.
//
// Its binary form is: the line "coalmine index 1", then as uvarints the shard
// size in bytes, the number of users, and for every user the gap in bytes since the previous
// extent, then length in bytes, examples and words. If sequences are not SentenceWords long, the
// line is "coalmine index 2", and their length precedes the shard size.
type Index struct {
	// ShardBytes is the size of the stream's shards.
	ShardBytes int64
	// Sequence is the length at which the stream's examples were cut.
	Sequence int
	Extents  []Extent

	firsts []int // firsts[u] is the number of examples before user u; one more for the end
	words  int
}

// Extent is one user's share of a stream.
type Extent struct {
	Offset, Length  int64 // in bytes
	Examples, Words int
}

const (
	indexMagic         = "coalmine index 1\n"
	sequenceIndexMagic = "coalmine index 2\n"
)

// WithExtents returns an index over the same stream with other extents, which ascend without
// overlap.
func (x *Index) WithExtents(extents []Extent) *Index {
	return indexOf(x.ShardBytes, x.Sequence, extents)
}

// NewIndex returns an index over the extents of a stream with shards of the usual size.
func NewIndex(sequence int, extents []Extent) *Index {
	return indexOf(shardBytes, sequence, extents)
}

// indexOf returns a complete index over extents, with shards of size bytes.
func indexOf(size int64, sequence int, extents []Extent) *Index {
	x := &Index{ShardBytes: size, Sequence: sequence, Extents: extents, firsts: make([]int, len(extents)+1)}
	for u, e := range extents {
		x.firsts[u+1] = x.firsts[u] + e.Examples
		x.words += e.Words
	}
	return x
}

// Counts returns the sums over users with examples.
func (x *Index) Counts() Counts {
	users := lists.Count(x.Extents, func(e Extent) bool { return e.Examples > 0 })
	return Counts{Users: users, Examples: x.firsts[len(x.Extents)], Words: x.words}
}

// Sizes counts the users with each number of examples.
func (x *Index) Sizes() map[int]int {
	sizes := map[int]int{}
	for _, e := range x.Extents {
		sizes[e.Examples]++
	}
	return sizes
}

// First returns the number of examples before user u.
func (x *Index) First(u int) int { return x.firsts[u] }

// Find returns the user of example i of the whole part, and the index of the example within the
// user.
func (x *Index) Find(i int) (user, example int) {
	user = sort.SearchInts(x.firsts, i+1) - 1
	return user, i - x.firsts[user]
}

// end returns the offset after the last extent.
func (x *Index) end() int64 {
	if len(x.Extents) == 0 {
		return 0
	}
	last := x.Extents[len(x.Extents)-1]
	return last.Offset + last.Length
}

func (x *Index) Encode() []byte {
	out := []byte(indexMagic)
	if x.Sequence != text.SentenceWords {
		out = binary.AppendUvarint([]byte(sequenceIndexMagic), uint64(x.Sequence))
	}
	out = binary.AppendUvarint(out, uint64(x.ShardBytes))
	out = binary.AppendUvarint(out, uint64(len(x.Extents)))
	end := int64(0)
	for _, e := range x.Extents {
		out = binary.AppendUvarint(out, uint64(e.Offset-end))
		out = binary.AppendUvarint(out, uint64(e.Length))
		out = binary.AppendUvarint(out, uint64(e.Examples))
		out = binary.AppendUvarint(out, uint64(e.Words))
		end = e.Offset + e.Length
	}
	return out
}

// DecodeIndex reads the binary form. Every error wraps storage.ErrCorrupt.
func DecodeIndex(data []byte) (*Index, error) {
	f, sequence, err := indexFields(data)
	if err != nil {
		return nil, err
	}
	size, users := f.next(), f.next()
	if f.err == nil && (size == 0 || users > uint64(len(data))) {
		return nil, fmt.Errorf("index of %d users with shards of %d bytes: %w", users, size, storage.ErrCorrupt)
	}
	var extents []Extent
	end := int64(0)
	for range users {
		e := Extent{Offset: end + int64(f.next()), Length: int64(f.next()), Examples: int(f.next()), Words: int(f.next())}
		if f.err == nil && (e.Offset < end || !e.plausible(sequence)) {
			return nil, fmt.Errorf("extent %+v of user %d: %w", e, len(extents), storage.ErrCorrupt)
		}
		if f.err != nil {
			return nil, f.err
		}
		extents = append(extents, e)
		end = e.Offset + e.Length
	}
	return indexOf(int64(size), sequence, extents), f.done()
}

// indexFields reads the fields before the shard size.
func indexFields(data []byte) (f *fields, sequence int, err error) {
	if !bytes.HasPrefix(data, []byte(sequenceIndexMagic)) {
		f, err = newFields(data, indexMagic)
		return f, text.SentenceWords, err
	}
	f, err = newFields(data, sequenceIndexMagic)
	if err != nil {
		return nil, 0, err
	}
	n := f.next()
	if f.err == nil && (n == 0 || n > maxNumbers || n == text.SentenceWords) {
		return nil, 0, fmt.Errorf("index of sequences of %d words, expected 1 to %d: %w", n, maxNumbers, storage.ErrCorrupt)
	}
	return f, int(n), f.err
}

// plausible checks the bounds of an extent: an example has from 1 word to a sequence, and takes one
// byte for its length and one for each word of the original. The bounds keep sums of damaged
// numbers from overflowing.
func (e Extent) plausible(sequence int) bool {
	const bound = 1 << 50
	return 0 <= e.Length && e.Length < bound && e.Offset < bound &&
		0 <= e.Examples && int64(e.Examples) <= e.Length/2 &&
		e.Examples <= e.Words && e.Words <= e.Examples*sequence
}

// ReadIndex reads an index blob of an input. It decodes it once for all tasks of a worker: the
// caller must not modify it.
func ReadIndex(ctx context.Context, t *tasks.Task, input, blob string) (*Index, error) {
	node, err := t.Input(input)
	if err != nil {
		return nil, err
	}
	return tasks.Memoize(t, node, blob, func() (*Index, int64, error) {
		data, err := t.Blob(ctx, input, blob)
		if err != nil {
			return nil, 0, err
		}
		x, err := DecodeIndex(data)
		if err != nil {
			return nil, 0, fmt.Errorf("blob %q of node %s: %w", blob, node.Short(), err)
		}
		const perUser = int64(unsafe.Sizeof(Extent{})) + 8
		return x, perUser * int64(len(x.Extents)), nil
	})
}

// fields reads uvarints one after another and keeps the first error.
type fields struct {
	rest []byte
	err  error
}

func newFields(data []byte, magic string) (*fields, error) {
	if len(data) < len(magic) || !slices.Equal(data[:len(magic)], []byte(magic)) {
		return nil, fmt.Errorf("blob does not begin with %q: %w", magic, storage.ErrCorrupt)
	}
	return &fields{rest: data[len(magic):]}, nil
}

func (f *fields) next() uint64 {
	if f.err != nil {
		return 0
	}
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.err = fmt.Errorf("blob ends too early: %w", storage.ErrCorrupt)
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// done reports the first error, or bytes left over.
func (f *fields) done() error {
	if f.err == nil && len(f.rest) > 0 {
		return fmt.Errorf("%d bytes after the end of the blob: %w", len(f.rest), storage.ErrCorrupt)
	}
	return f.err
}

const maxNumbers = models.MaxLabels + images.MaxPixels

// Counts is a number of users, of their examples, and of the words in those.
type Counts struct {
	Users    int `json:"users"`
	Examples int `json:"examples"`
	Words    int `json:"words"`
}

func (c *Counts) AddExample(words int) {
	c.Examples++
	c.Words += words
}

func (c *Counts) AddUser(examples, words int) {
	c.Users++
	c.Examples += examples
	c.Words += words
}
