package models

import (
	"fmt"
	"slices"
)

// packed is a batch laid out token by token: the first tokens of all sentences, then the second
// tokens, and so on, the longest sentence first. A finished sentence has no more rows, so the rows
// of a step continue the first rows of the previous step.
//
//	sentences   a b c d   steps   0      1    2
//	            e f g             a e h  b f  c
//	            h i       rows    0 1 2  3 4  5
//
// The last token of a sentence is only a target. Sentences of equal length keep their order in the
// batch; this fixes the order of every sum over rows.
type packed struct {
	// order holds the sentences' indices, the longest first.
	order []int
	// start[t] is the first row of step t; the last element is the number of rows.
	start []int
	// inputs and targets hold the token fed at a row and the token to predict.
	inputs, targets []int32
}

func (p *packed) steps() int { return len(p.start) - 1 }

func (p *packed) rows() int { return len(p.inputs) }

// active returns the number of sentences that feed a token at step t.
func (p *packed) active(t int) int { return p.start[t+1] - p.start[t] }

// last returns the row of the last token fed by the sentence with the given turn, its index in
// order.
func (p *packed) last(turn int) int {
	t := p.steps() - 1
	for turn >= p.active(t) {
		t--
	}
	return p.start[t] + turn
}

func (p *packed) turns(dst []int) []int {
	dst = grow(dst, len(p.order))
	for turn, i := range p.order {
		dst[i] = turn
	}
	return dst
}

// pack lays out the sentences, validated by checkSentences.
func (p *packed) pack(sentences [][]int32) {
	p.sort(sentences)
	p.start = append(p.start[:0], 0)
	p.inputs, p.targets = p.inputs[:0], p.targets[:0]
	for t := range len(sentences[p.order[0]]) - 1 {
		for _, i := range p.order {
			s := sentences[i]
			if t+1 >= len(s) {
				break
			}
			p.inputs = append(p.inputs, s[t])
			p.targets = append(p.targets, s[t+1])
		}
		p.start = append(p.start, len(p.inputs))
	}
}

func (p *packed) sort(sentences [][]int32) {
	p.order = p.order[:0]
	for i := range sentences {
		p.order = append(p.order, i)
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return len(sentences[b]) - len(sentences[a]) })
}

func checkSentences(sentences [][]int32, c Config) error {
	for i, s := range sentences {
		if len(s) < 2 {
			return fmt.Errorf("sentence %d has %d tokens: want at least 2, an input and a target", i, len(s))
		}
		if err := checkTokens(s, c.Vocabulary); err != nil {
			return fmt.Errorf("sentence %d: %w", i, err)
		}
		if c.Kind == Transformer && len(s)-1 > c.context() {
			return fmt.Errorf("sentence %d has %d tokens: want at most %d, one more than the context of the model", i, len(s), c.context()+1)
		}
		if c.Separator == 0 {
			continue
		}
		if at := slices.Index(s, c.Separator); at < 1 || at > len(s)-2 {
			return fmt.Errorf("sentence %d is not a pair: want a source, the separator %d, and a target", i, c.Separator)
		}
	}
	return nil
}

func checkTokens(tokens []int32, vocabulary int) error {
	for j, id := range tokens {
		if id < 0 || int(id) >= vocabulary {
			return fmt.Errorf("token %d has id %d: want 0 to %d", j, id, vocabulary-1)
		}
	}
	return nil
}

// grow returns a slice of n elements, reusing x's memory if it suffices. Its values are arbitrary.
func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
