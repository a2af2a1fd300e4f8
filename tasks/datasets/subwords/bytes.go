package subwords

import (
	"fmt"
	"strings"
)

// byteRunes are the characters of the bytes in byte-level tokens: a printable byte stands for
// itself; other bytes follow from U+0100 on (Radford et al. 2019, bytes_to_unicode of the published
// code).
var byteRunes, runeBytes = makeByteRunes()

func makeByteRunes() (runes [256]rune, back map[rune]byte) {
	back = map[rune]byte{}
	next := rune(256)
	for b := range runes {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b {
			runes[b] = rune(b)
		} else {
			runes[b] = next
			next++
		}
		back[runes[b]] = byte(b)
	}
	return runes, back
}

// byteText writes each byte of a text as one character.
func byteText(text string) string {
	var out strings.Builder
	for i := range len(text) {
		out.WriteRune(byteRunes[text[i]])
	}
	return out.String()
}

// byteTokens returns the tokens <0x00> to <0xFF>; nil if one is missing.
func byteTokens(vocabulary map[string]uint32) *[256]uint32 {
	var tokens [256]uint32
	for b := range tokens {
		token, ok := vocabulary[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			return nil
		}
		tokens[b] = token
	}
	return &tokens
}

// byteOf returns the byte of a token such as <0x0A>.
func byteOf(token string) (b byte, ok bool) {
	if len(token) != len("<0x0A>") {
		return 0, false
	}
	_, err := fmt.Sscanf(token, "<0x%02X>", &b)
	return b, err == nil
}

// Alphabet is the encoding of text in the tokens of a tokenizer. The zero value is for tokens
// without a tokenizer, such as words.
type Alphabet int

// The alphabets of tokens.
const (
	// Bytes writes each byte as one character: a space as Ġ.
	Bytes Alphabet = iota + 1
	// Characters writes a space as ▁, and a byte that belongs to no known character as <0x0A>.
	Characters
)

const metaspace = "▁"

// AlphabetOf returns the alphabet of a list of tokens: the zero value for lower-cased words, with
// each punctuation mark as a word.
func AlphabetOf(tokens []string) Alphabet {
	for _, token := range tokens {
		if token == byteText(" ") {
			return Bytes
		}
		if len(token) > len(metaspace) && strings.HasPrefix(token, metaspace) {
			return Characters
		}
	}
	return 0
}

// Text returns the text of tokens. It is not valid UTF-8 if they split a character.
func (a Alphabet) Text(tokens []string) string {
	var out strings.Builder
	for _, token := range tokens {
		a.write(&out, token)
	}
	return out.String()
}

func (a Alphabet) write(out *strings.Builder, token string) {
	if a == Bytes {
		for _, r := range token {
			if b, ok := runeBytes[r]; ok {
				out.WriteByte(b)
			} else {
				out.WriteRune(r) // character of an added token
			}
		}
		return
	}
	if b, ok := byteOf(token); ok {
		out.WriteByte(b)
		return
	}
	out.WriteString(strings.ReplaceAll(token, metaspace, " "))
}
