package subwords

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// charsmap is the map of characters of a SentencePiece model: a double-array trie (Yata et al.
// 2007) from characters to places in a list of texts that end with a zero byte.
type charsmap struct {
	units []uint32
	texts []byte
}

// maxGrapheme is the largest length, in bytes, of a grapheme that is looked up whole.
const maxGrapheme = 5

func parseCharsmap(data []byte) (*charsmap, error) {
	if len(data) < 4 {
		return nil, errCharsmap
	}
	size := int(binary.LittleEndian.Uint32(data))
	data = data[4:]
	if size > len(data) || size%4 != 0 || size == 0 {
		return nil, errCharsmap
	}
	c := &charsmap{texts: data[size:]}
	for at := 0; at < size; at += 4 {
		c.units = append(c.units, binary.LittleEndian.Uint32(data[at:]))
	}
	if !utf8.Valid(c.texts) {
		return nil, errCharsmap
	}
	return c, nil
}

// normalize replaces graphemes and, if a grapheme is not in the map, its characters.
func (c *charsmap) normalize(text string) string {
	var out strings.Builder
	for g := graphemes.FromString(text); g.Next(); {
		if grapheme := g.Value(); len(grapheme) <= maxGrapheme {
			if to, ok := c.find(grapheme); ok {
				out.Write(to)
				continue
			}
		}
		for _, r := range g.Value() {
			if to, ok := c.find(string(r)); ok {
				out.Write(to)
			} else {
				out.WriteRune(r)
			}
		}
	}
	return out.String()
}

// longest returns the length of the longest text of the map, in bytes; at least 1.
func (c *charsmap) longest() int {
	most := 1
	for text := range bytes.SplitSeq(c.texts, []byte{0}) {
		most = max(most, len(text))
	}
	return most
}

// find looks up the shortest prefix of a key that the map has.
func (c *charsmap) find(key string) (text []byte, ok bool) {
	at := offset(c.units[0])
	for i := range len(key) {
		if at ^= uint32(key[i]); key[i] == 0 || int(at) >= len(c.units) {
			return nil, false
		}
		unit := c.units[at]
		if unit&(1<<31|0xFF) != uint32(key[i]) {
			return nil, false
		}
		at ^= offset(unit)
		if unit>>8&1 == 1 {
			return c.text(at)
		}
	}
	return nil, false
}

// text returns the text of a leaf.
func (c *charsmap) text(leaf uint32) (text []byte, ok bool) {
	if int(leaf) >= len(c.units) {
		return nil, false
	}
	from := int(c.units[leaf] &^ (1 << 31))
	if from > len(c.texts) || from < len(c.texts) && !utf8.RuneStart(c.texts[from]) {
		return nil, false
	}
	text, _, _ = bytes.Cut(c.texts[from:], []byte{0})
	return text, true
}

// offset returns the offset of a unit's children.
func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
