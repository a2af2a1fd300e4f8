package subwords

import (
	"strings"
	"unicode"
)

// addedToken is a token that is found in the text itself, before the model sees it.
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// addedTokens are matched together, the longest first, which is also first in the list.
type addedTokens []addedToken

// piece is a part of a text.
type piece struct {
	text  string
	start bool // piece is at the beginning of the text
}

// addedPiece is a piece, or an added token.
type addedPiece struct {
	piece
	found bool
	token uint32
}

// find splits a piece at the added tokens, leftmost first. No part is empty.
func (a addedTokens) find(p piece) (parts []addedPiece) {
	rest := func(from, to int) {
		if from < to {
			parts = append(parts, addedPiece{piece: piece{p.text[from:to], p.start && from == 0}})
		}
	}
	done := 0
	for at := 0; at < len(p.text); {
		i := a.next(p.text[at:])
		if i.token == nil {
			break
		}
		start := at + i.at
		end := start + len(i.token.Content)
		if i.token.LStrip {
			start = max(done, len(strings.TrimRightFunc(p.text[:start], unicode.IsSpace)))
		}
		if i.token.RStrip {
			end = len(p.text) - len(strings.TrimLeftFunc(p.text[end:], unicode.IsSpace))
		}
		rest(done, start)
		parts = append(parts, addedPiece{found: true, token: i.token.ID})
		done, at = end, end
	}
	rest(done, len(p.text))
	return parts
}

// occurrence is an added token at a position of a text; token is nil if there is none.
type occurrence struct {
	at    int
	token *addedToken
}

// next returns the leftmost occurrence, and the longest of several at that position.
func (a addedTokens) next(text string) (first occurrence) {
	for i := range a {
		if at := strings.Index(text, a[i].Content); at >= 0 && (first.token == nil || at < first.at) {
			first = occurrence{at, &a[i]}
			text = text[:min(len(text), at+len(a[0].Content))]
		}
	}
	return first
}
