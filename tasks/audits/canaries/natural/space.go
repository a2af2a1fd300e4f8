package natural

import (
	"math"
	"math/rand/v2"
	"strings"

	"coalmine/tasks/datasets/filters"
)

// space is the form of a secret. Digits are variable, and in mail addresses and custom patterns also letters.
type space struct {
	choices []string // by byte: the possible symbols
	card    bool     // the last digit follows from the others
}

const (
	digits  = "0123456789"
	lower   = "abcdefghijklmnopqrstuvwxyz"
	capital = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// newSpace lets each digit be any digit. In the local part of a mail address, and in a match of a custom
// pattern, each letter can be any letter of its case. The domain of an address and separators are fixed.
func newSpace(pattern filters.Pattern, secret string) space {
	s := space{card: pattern == filters.Card}
	letters := 0 // length of the prefix with variable letters
	switch pattern {
	case filters.Card, filters.SSN, filters.Phone:
	case filters.Email:
		letters = strings.LastIndexByte(secret, '@')
	default:
		letters = len(secret)
	}
	for i := range len(secret) {
		s.choices = append(s.choices, alike(secret[i:i+1], i < letters, pattern != filters.Email || i < letters))
	}
	return s
}

// alike returns the characters that may replace a character.
func alike(character string, letters, numbers bool) string {
	for _, set := range []struct {
		characters string
		open       bool
	}{{digits, numbers}, {lower, letters}, {capital, letters}} {
		if set.open && strings.Contains(set.characters, character) {
			return set.characters
		}
	}
	return character
}

func (s space) sequences() float64 {
	n := 1.0
	for _, among := range s.choices {
		n *= float64(len(among))
	}
	if s.card {
		n /= 10
	}
	return n
}

// draw draws one of the sequences uniformly. The last digit of a card number follows from the others.
func (s space) draw(rng *rand.Rand) string {
	out := make([]byte, len(s.choices))
	for i, among := range s.choices {
		out[i] = among[0]
		if len(among) > 1 {
			out[i] = among[rng.IntN(len(among))]
		}
	}
	if s.card {
		last := &out[len(out)-1]
		*last = '0'
		*last += byte((10 - filters.LuhnSum(out)%10) % 10)
	}
	return string(out)
}

// references draws n sequences other than the secret, or returns all of a smaller space.
func (s space) references(rng *rand.Rand, secret string, most int) []string {
	n := int(math.Min(float64(most), s.sequences()-1))
	list := make([]string, 0, max(0, n))
	for len(list) < n {
		if drawn := s.draw(rng); drawn != secret {
			list = append(list, drawn)
		}
	}
	return list
}
