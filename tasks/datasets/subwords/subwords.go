// Package subwords reads the tokenizers of language models from a file tokenizer.json, as the
// tokenizers library of Hugging Face writes it, and divides texts into the same tokens.
//
//	t, err := subwords.Parse(data)
//	if err != nil {
//		return err // one sentence: the part of the file, and the parts that are known
//	}
//	tokens := t.Encoder().Encode("To be, or not to be") // valid until the next call
//	name := t.Tokens()[tokens[0]]
//
// Two models are supported: byte pair encoding (Sennrich et al. 2016, section 3.2), byte-level as
// in GPT-2, Pythia and Llama 3, or with bytes for unknown characters as in Llama 2; and Unigram
// (Kudo 2018, section 3.2) as in T5. A file with another model, normalizer or pre-tokenizer is an
// error that names it.
//
// Tokens that a post-processor would add to a text, such as one for its beginning, are left out,
// because models of this project have their own tokens for these. Padding and truncation in the
// file are ignored too.
package subwords

import (
	"slices"
	"strings"
)

// Tokenizer is a parsed file tokenizer.json. It is immutable and safe for concurrent use.
type Tokenizer struct {
	tokens    []string
	added     [2]addedTokens // matched before, and matched after normalization
	normalize normalizer
	split     splitter
	model     model
}

// MaxTokens is the largest number of tokens of a tokenizer.
const MaxTokens = 1 << 20

// model divides a piece of text into tokens.
type model interface {
	// encode appends the tokens of a piece, which is not empty.
	encode(tokens []uint32, piece string) []uint32
}

// Tokens lists the texts of the tokens as the file writes them, by number. An unused number
// has an empty text. The caller must not change the list.
func (t *Tokenizer) Tokens() []string { return t.tokens }

// Encoder divides texts into tokens, one text at a time. It caches the tokens of frequent pieces.
type Encoder struct {
	*Tokenizer
	tokens []uint32
	known  map[string][]uint32
}

func (t *Tokenizer) Encoder() *Encoder { return &Encoder{Tokenizer: t, known: map[string][]uint32{}} }

// Bounds of an encoder's memory: pieces, and bytes of one.
const (
	knownPieces = 1 << 16
	knownBytes  = 64
)

// Encode returns the tokens of a text, valid until the next call. Bytes that are not UTF-8
// are read as U+FFFD.
func (e *Encoder) Encode(text string) []uint32 {
	e.tokens = e.tokens[:0]
	text = strings.ToValidUTF8(text, "\uFFFD")
	for _, raw := range e.added[0].find(piece{text: text, start: true}) {
		if raw.found {
			e.tokens = append(e.tokens, raw.token)
			continue
		}
		raw.text = e.normalize.apply(raw.text)
		for _, p := range e.added[1].find(raw.piece) {
			if p.found {
				e.tokens = append(e.tokens, p.token)
				continue
			}
			for _, p := range e.split([]piece{p.piece}) {
				e.add(p.text)
			}
		}
	}
	return e.tokens
}

// add appends the tokens of a piece.
func (e *Encoder) add(text string) {
	if len(text) > knownBytes {
		e.tokens = e.model.encode(e.tokens, text)
		return
	}
	tokens, ok := e.known[text]
	if !ok {
		if len(e.known) == knownPieces {
			clear(e.known)
		}
		tokens = slices.Clip(e.model.encode(nil, text))
		e.known[strings.Clone(text)] = tokens
	}
	e.tokens = append(e.tokens, tokens...)
}
