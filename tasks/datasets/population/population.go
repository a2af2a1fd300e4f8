// Package population holds the users that train: their examples as a stream of tokens, an index of
// each user's place in it, and an overlay of canaries. Its kinds of task balance, partition and draw
// users (Balance, Partition, ReferenceUsers); Writer, Rewrite and the Select functions derive one
// population from another.
package population

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/text"
)

// Population reads sentences for training and evaluation: users' examples as framed tokens, with
// canaries inserted. It reads shards on demand and keeps the latest one decoded.
//
// It belongs to one task and must not be used by several goroutines at once. Users count from 0 to
// Users()-1. Records are the examples of all users, one user after another, from 0 to Records()-1.
type Population struct {
	index   *Index
	overlay overlay // empty without canaries
	stream  stream
	cache   userCache
}

// maxToken bounds token ids if the vocabulary is not available.
const maxToken = math.MaxInt32

// Open opens the population of a Partition node. shardsInput is the input with the
// training stream: the Encode node for a by-user partition, and the Partition node itself for an
// iid one.
func Open(ctx context.Context, t *tasks.Task, populationInput, shardsInput string) (*Population, error) {
	index, err := ReadIndex(ctx, t, populationInput, MembersIndexBlob)
	if err != nil {
		return nil, err
	}
	o, err := readOverlay(ctx, t, populationInput)
	if err != nil {
		return nil, err
	}
	return &Population{index: index, overlay: o, stream: streamOf(t, shardsInput, Train, index)}, nil
}

// OpenPart opens a part of an Encode node, which never has canaries. Its users are all users of the
// source, including those without examples in the part.
func OpenPart(ctx context.Context, t *tasks.Task, input string, part Part) (*Population, error) {
	index, err := ReadIndex(ctx, t, input, IndexBlob(part))
	if err != nil {
		return nil, err
	}
	return &Population{index: index, stream: streamOf(t, input, part, index)}, nil
}

// OpenBalanced opens the balanced users of a Balance node before any partition: those that train
// or, with heldOut, those held out. If the task has an InsertionsInput, canaries replace examples
// of the users that train.
func OpenBalanced(ctx context.Context, t *tasks.Task, balancedInput, partsInput string, heldOut bool) (*Population, error) {
	blob := MembersIndexBlob
	if heldOut {
		blob = HeldOutIndexBlob
	}
	index, err := ReadIndex(ctx, t, balancedInput, blob)
	if err != nil {
		return nil, err
	}
	p := &Population{index: index, stream: streamOf(t, partsInput, Train, index)}
	if !heldOut && t.Has(InsertionsInput) {
		p.overlay, err = readOverlay(ctx, t, InsertionsInput)
	}
	return p, err
}

func (p *Population) Users() int { return len(p.index.Extents) }

// Examples returns the number of examples of user u.
func (p *Population) Examples(u int) int { return p.index.Extents[u].Examples }

// Words returns the number of words of user u, including words of canaries in place of the examples
// they replace, without Begin and End.
func (p *Population) Words(u int) int { return p.index.Extents[u].Words }

// Index returns the positions of the users' examples. The caller must not modify it.
func (p *Population) Index() *Index { return p.index }

// Replacements returns the overlay, nil without canaries. The caller must not modify it.
func (p *Population) Replacements() Overlay { return p.overlay.replacements }

// Canary returns the number of the canary at an example of user u, -1 without one.
func (p *Population) Canary(u, example int) int {
	for _, r := range p.Replacements().of(u) {
		if r.Example == example {
			return r.Canary
		}
	}
	return -1
}

// Records returns the number of examples of all users.
func (p *Population) Records() int { return p.index.firsts[p.Users()] }

// UserRecords returns the first record of user u and the record after the last.
func (p *Population) UserRecords(u int) (first, end int) {
	return p.index.firsts[u], p.index.firsts[u+1]
}

// ReadUser returns the sentences of user u: token ids from Begin, with End unless the sentence
// fills a sequence. The caller must not modify them.
func (p *Population) ReadUser(ctx context.Context, u int) ([][]int32, error) {
	if u < 0 || u >= p.Users() {
		return nil, tasks.Permanent(fmt.Errorf("user %d of a population of %d", u, p.Users()))
	}
	if sentences, ok := p.cache.users[u]; ok {
		return sentences, nil
	}
	e := p.index.Extents[u]
	data, err := p.stream.read(ctx, e.Offset, e.Length)
	if err != nil {
		return nil, err
	}
	sentences, err := p.decode(u, data)
	if err != nil {
		return nil, fmt.Errorf("user %d in %s: %w", u, p.stream.part, err)
	}
	p.cache.put(u, sentences, e.Words+2*e.Examples)
	return sentences, nil
}

// ReadOwn returns the sentences of user u without canaries, and the number of canaries. The caller
// must not modify them.
func (p *Population) ReadOwn(ctx context.Context, u int) (own [][]int32, canaries int, err error) {
	sentences, err := p.ReadUser(ctx, u)
	if err != nil {
		return nil, 0, err
	}
	replaced := p.Replacements().of(u)
	if len(replaced) == 0 {
		return sentences, 0, nil
	}
	canaries = len(replaced)
	for i, s := range sentences {
		if replaced.take(i) < 0 {
			own = append(own, s)
		}
	}
	return own, canaries, nil
}

// ReadRecord returns the sentence of record i. The caller must not modify it.
func (p *Population) ReadRecord(ctx context.Context, i int) ([]int32, error) {
	if i < 0 || i >= p.Records() {
		return nil, tasks.Permanent(fmt.Errorf("record %d of a population of %d", i, p.Records()))
	}
	u, example := p.index.Find(i)
	sentences, err := p.ReadUser(ctx, u)
	if err != nil {
		return nil, err
	}
	return sentences[example], nil
}

// ReadRecords returns the sentences of the records from <= i < to. The caller must not modify them.
func (p *Population) ReadRecords(ctx context.Context, from, to int) ([][]int32, error) {
	if from < 0 || from > to || to > p.Records() {
		return nil, tasks.Permanent(fmt.Errorf("records %d to %d of a population of %d", from, to, p.Records()))
	}
	out := make([][]int32, 0, to-from)
	for i := from; i < to; {
		u, example := p.index.Find(i)
		sentences, err := p.ReadUser(ctx, u)
		if err != nil {
			return nil, err
		}
		sentences = sentences[example:min(len(sentences), example+to-i)]
		out = append(out, sentences...)
		i += len(sentences)
	}
	return out, nil
}

// decode frames the examples of user u and inserts the canaries.
func (p *Population) decode(u int, data []byte) ([][]int32, error) {
	e := p.index.Extents[u]
	replaced := p.Replacements().of(u)
	r := bytes.NewReader(data)
	words := make([]int32, 0, p.index.Sequence)
	arena := make([]int32, 0, e.Words+2*e.Examples)
	sentences := make([][]int32, e.Examples)
	for i := range sentences {
		var err error
		if words, err = ReadExample(r, words, p.index.Sequence, maxToken); err != nil {
			return nil, err
		}
		if canary := replaced.take(i); canary >= 0 {
			words = append(words[:0], p.overlay.canaries[canary].Tokens...)
		}
		from := len(arena)
		arena = text.Frame(arena, words, p.index.Sequence)
		sentences[i] = slices.Clip(arena[from:])
	}
	if r.Len() > 0 || len(replaced) > 0 {
		return nil, fmt.Errorf("%d bytes and %d canaries beyond the last example: %w", r.Len(), len(replaced), storage.ErrCorrupt)
	}
	return sentences, nil
}

// userCache keeps decoded users, first in, first out. Its zero value is empty.
type userCache struct {
	users  map[int][][]int32
	order  []cachedUser
	tokens int
}

type cachedUser struct{ user, tokens int }

// cacheTokens is the number of tokens that a cache keeps: 32 MiB.
const cacheTokens = 8 << 20

func (c *userCache) put(u int, sentences [][]int32, tokens int) {
	if c.users == nil {
		c.users = map[int][][]int32{}
	}
	for len(c.order) > 0 && c.tokens+tokens > cacheTokens {
		delete(c.users, c.order[0].user)
		c.tokens -= c.order[0].tokens
		c.order = c.order[1:]
	}
	c.users[u] = sentences
	c.order = append(c.order, cachedUser{u, tokens})
	c.tokens += tokens
}

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
		words, err := ReadExample(r, nil, p.index.Sequence, maxToken)
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
	return Write(ctx, t, p.index.WithExtents(extents), p.overlay.placements(), overlay, 0)
}
