package subwords

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// unigram finds the most probable sequence of independent pieces.
type unigram struct {
	pieces  map[string]uint32
	scores  []float64 // logarithms of probabilities, by token
	unknown uint32
	// unknownScore is the score of a character outside all pieces.
	unknownScore float64
	bytes        *[256]uint32
	// longest is the length in bytes of the longest piece.
	longest int
	// prefixes holds the prefixes of all pieces.
	prefixes map[string]bool
}

// unknownPenalty is the distance of the unknown score below the least score, as in SentencePiece.
const unknownPenalty = 10

// scoredPiece is an entry of the vocabulary: ["piece", score].
type scoredPiece struct {
	text  string
	score float64
}

func (p *scoredPiece) UnmarshalJSON(data []byte) error {
	pair := []any{&p.text, &p.score}
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || pair[0] == nil || pair[1] == nil {
		return fmt.Errorf("a piece of %d values; expected a text and a score", len(pair))
	}
	return nil
}

func parseUnigram(data json.RawMessage) (model, []string, error) {
	var f struct {
		Vocabulary   []scoredPiece `json:"vocab"`
		Unknown      *int          `json:"unk_id"`
		ByteFallback bool          `json:"byte_fallback"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, nil, malformed("model Unigram", err)
	}
	if f.Unknown == nil || *f.Unknown < 0 || *f.Unknown >= len(f.Vocabulary) {
		return nil, nil, fmt.Errorf("model Unigram: unk_id is not the number of one of its %d pieces; expected that of the unknown token", len(f.Vocabulary))
	}
	if len(f.Vocabulary) > MaxTokens {
		return nil, nil, tooMany(len(f.Vocabulary))
	}
	m := &unigram{pieces: map[string]uint32{}, prefixes: map[string]bool{}, unknown: uint32(*f.Unknown)}
	var tokens []string
	least := math.Inf(1)
	for i, p := range f.Vocabulary {
		if p.text == "" {
			return nil, nil, errors.New("model Unigram: an empty piece; expected a text")
		}
		tokens, m.scores = append(tokens, p.text), append(m.scores, p.score)
		m.pieces[p.text], m.longest, least = uint32(i), max(m.longest, len(p.text)), min(least, p.score)
		for n := 1; n <= len(p.text); n++ {
			m.prefixes[p.text[:n]] = true
		}
	}
	m.unknownScore = least - unknownPenalty
	if f.ByteFallback {
		m.bytes = byteTokens(m.pieces)
	}
	return m, tokens, nil
}

// arrival is the best segmentation up to a position of a text: its score and its last piece.
type arrival struct {
	score float64
	from  int // start of the last piece; -1 if unreachable
	token uint32
}

func (m *unigram) encode(tokens []uint32, text string) []uint32 {
	best := make([]arrival, len(text)+1)
	for i := range best {
		best[i].from = -1
	}
	best[0] = arrival{}
	for i, r := range text {
		m.extend(best, text, i, len(string(r)))
	}
	var pieces []string
	unknowns := 0 // length of the current unknown piece
	for end := len(text); end > 0; {
		b := best[end]
		if b.token == m.unknown {
			unknowns += end - b.from
		} else {
			if unknowns > 0 {
				pieces = append(pieces, text[end:end+unknowns])
			}
			unknowns = 0
			pieces = append(pieces, text[b.from:end])
		}
		end = b.from
	}
	if unknowns > 0 {
		pieces = append(pieces, text[:unknowns])
	}
	for i := len(pieces) - 1; i >= 0; i-- {
		tokens = m.add(tokens, pieces[i])
	}
	return tokens
}

// extend extends the segmentation at a position by every piece that begins there. The first
// character has the given length.
func (m *unigram) extend(best []arrival, text string, from, length int) {
	arrive := func(to int, score float64, token uint32) {
		if best[to].from < 0 || score > best[to].score {
			best[to] = arrival{score, from, token}
		}
	}
	whole := false // a piece is the character itself
	for n := 1; n <= min(m.longest, len(text)-from) && m.prefixes[text[from:from+n]]; n++ {
		if token, ok := m.pieces[text[from:from+n]]; ok {
			arrive(from+n, m.scores[token]+best[from].score, token)
			whole = whole || n == length
		}
	}
	if !whole {
		arrive(from+length, m.unknownScore+best[from].score, m.unknown)
	}
}

// add appends the token of a piece, or the tokens of its bytes.
func (m *unigram) add(tokens []uint32, piece string) []uint32 {
	token, ok := m.pieces[piece]
	switch {
	case ok:
		return append(tokens, token)
	case m.bytes == nil:
		return append(tokens, m.unknown)
	}
	for i := range len(piece) {
		tokens = append(tokens, m.bytes[piece[i]])
	}
	return tokens
}
