package subwords

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// bpe is byte pair encoding: neighbouring tokens are joined in the order of the merges, and
// equal pairs from the left.
type bpe struct {
	vocabulary map[string]uint32
	merges     map[[2]uint32]merge
	// bytes are the tokens of bytes, for characters that the vocabulary lacks.
	bytes        *[256]uint32
	unknown      *uint32
	fuseUnknown  bool
	ignoreMerges bool
}

type merge struct{ rank, token uint32 }

type bpeFields struct {
	Vocabulary   map[string]uint32 `json:"vocab"`
	Merges       []mergeField      `json:"merges"`
	Dropout      float64           `json:"dropout"`
	Unknown      *string           `json:"unk_token"`
	Prefix       string            `json:"continuing_subword_prefix"`
	Suffix       string            `json:"end_of_word_suffix"`
	FuseUnknown  bool              `json:"fuse_unk"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
}

// mergeField is a pair of tokens: "a b" or ["a", "b"].
type mergeField [2]string

func (m *mergeField) UnmarshalJSON(data []byte) error {
	var pair []string
	if !bytes.HasPrefix(data, []byte("[")) {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		pair = strings.Split(text, " ")
	} else if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a merge of %d tokens; expected 2", len(pair))
	}
	*m = mergeField(pair)
	return nil
}

func parseBPE(data json.RawMessage) (model, []string, error) {
	var f bpeFields
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, nil, malformed("model BPE", err)
	}
	if f.Dropout != 0 || f.Prefix != "" || f.Suffix != "" {
		return nil, nil, errors.New("model BPE: dropout, continuing_subword_prefix or end_of_word_suffix is set; expected a model without them")
	}
	tokens, err := tokensOf(f.Vocabulary)
	if err != nil {
		return nil, nil, err
	}
	m := &bpe{vocabulary: f.Vocabulary, merges: make(map[[2]uint32]merge, len(f.Merges)), fuseUnknown: f.FuseUnknown, ignoreMerges: f.IgnoreMerges}
	for i, pair := range f.Merges {
		a, okA := f.Vocabulary[pair[0]]
		b, okB := f.Vocabulary[pair[1]]
		joined, ok := f.Vocabulary[pair[0]+pair[1]]
		if !okA || !okB || !ok {
			return nil, nil, fmt.Errorf("model BPE: merge %d of %.100q and %.100q has a token that the vocabulary lacks; expected both and their concatenation there", i, pair[0], pair[1])
		}
		m.merges[[2]uint32{a, b}] = merge{uint32(i), joined}
	}
	if f.ByteFallback {
		m.bytes = byteTokens(f.Vocabulary)
	}
	if f.Unknown != nil {
		id, ok := f.Vocabulary[*f.Unknown]
		if !ok {
			return nil, nil, fmt.Errorf("model BPE: the unknown token %.100q is not in the vocabulary", *f.Unknown)
		}
		m.unknown = &id
	}
	return m, tokens, nil
}

// symbol is a token of a piece during joining; the remaining ones are a linked list.
type symbol struct {
	token        uint32
	before, next int // positions, -1 at the ends
	gone         bool
}

// joint is a pair of neighbours that may be joined.
type joint struct {
	merge
	at int // position of the first
}

// joints is a heap with the next pair to be joined on top.
type joints []joint

func (j joints) Len() int { return len(j) }
func (j joints) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(j[a].rank, j[b].rank), cmp.Compare(j[a].at, j[b].at)) < 0
}
func (j joints) Swap(a, b int) { j[a], j[b] = j[b], j[a] }
func (j *joints) Push(x any)   { *j = append(*j, x.(joint)) }
func (j *joints) Pop() any {
	last := (*j)[len(*j)-1]
	*j = (*j)[:len(*j)-1]
	return last
}

func (m *bpe) encode(tokens []uint32, piece string) []uint32 {
	if token, ok := m.vocabulary[piece]; ok && m.ignoreMerges {
		return append(tokens, token)
	}
	symbols := m.characters(piece)
	var queue joints
	for i := range symbols {
		m.offer(symbols, i, &queue)
	}
	for len(queue) > 0 {
		top := heap.Pop(&queue).(joint)
		if !m.valid(symbols, top) {
			continue
		}
		first := &symbols[top.at]
		second := &symbols[first.next]
		second.gone = true
		first.token, first.next = top.token, second.next
		if first.next >= 0 {
			symbols[first.next].before = top.at
		}
		m.offer(symbols, first.before, &queue)
		m.offer(symbols, top.at, &queue)
	}
	for i := range symbols {
		if !symbols[i].gone {
			tokens = append(tokens, symbols[i].token)
		}
	}
	return tokens
}

// offer queues the pair that begins at a position, if it may be joined.
func (m *bpe) offer(symbols []symbol, at int, queue *joints) {
	if at < 0 || symbols[at].next < 0 {
		return
	}
	if found, ok := m.merges[[2]uint32{symbols[at].token, symbols[symbols[at].next].token}]; ok {
		heap.Push(queue, joint{found, at})
	}
}

// valid reports whether the pair still exists.
func (m *bpe) valid(symbols []symbol, j joint) bool {
	s := symbols[j.at]
	if s.gone || s.next < 0 {
		return false
	}
	found, ok := m.merges[[2]uint32{s.token, symbols[s.next].token}]
	return ok && found.token == j.token
}

// characters returns the tokens of the characters of a piece. Unknown characters become the tokens
// of their bytes or the unknown token, or are dropped.
func (m *bpe) characters(piece string) (symbols []symbol) {
	add := func(token uint32) {
		symbols = append(symbols, symbol{token: token, before: len(symbols) - 1, next: len(symbols) + 1})
	}
	pending := false // an unknown token is to be added
	for i, r := range piece {
		char := string(r)
		if token, ok := m.vocabulary[char]; ok {
			if pending {
				add(*m.unknown)
			}
			pending = false
			add(token)
			continue
		}
		if m.bytes != nil {
			for j := range len(char) {
				add(m.bytes[piece[i+j]])
			}
			continue
		}
		if pending && !m.fuseUnknown {
			add(*m.unknown)
		}
		pending = m.unknown != nil
	}
	if pending {
		add(*m.unknown)
	}
	if len(symbols) > 0 {
		symbols[len(symbols)-1].next = -1
	}
	return symbols
}
