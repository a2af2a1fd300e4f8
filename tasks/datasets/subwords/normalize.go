package subwords

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before tokenization. growth is the largest number of bytes that
// replace one byte.
type normalizer struct {
	apply  func(string) string
	growth float64
}

// maxGrowth bounds the growth of a file's normalizer, so that a short text does not fill the
// memory. Published models have less than 100.
const maxGrowth = 1000

// unchanged is the normalizer of a file without one.
var unchanged = normalizer{func(text string) string { return text }, 1}

func (n normalizer) check() error {
	if n.growth > maxGrowth {
		return fmt.Errorf("the normalizers make up to %.3g bytes of one; expected at most %d, by fewer or shorter replacements", n.growth, maxGrowth)
	}
	return nil
}

func parseNormalizer(data json.RawMessage) (normalizer, error) {
	var n struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
		Prepend     string            `json:"prepend"`
		Pattern     patternField      `json:"pattern"`
		Content     string            `json:"content"`
		Charsmap    []byte            `json:"precompiled_charsmap"`
		Left        bool              `json:"strip_left"`
		Right       bool              `json:"strip_right"`
	}
	if isNull(data) {
		return unchanged, nil
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return normalizer{}, malformed("normalizer", err)
	}
	switch n.Type {
	case "Sequence":
		return parseNormalizers(n.Normalizers)
	case "NFC", "NFD", "NFKC", "NFKD":
		form := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[n.Type]
		return normalizer{form.String, 1}, nil
	case "Prepend":
		return normalizer{func(text string) string {
			if text == "" {
				return ""
			}
			return n.Prepend + text
		}, 1}, nil
	case "Strip":
		return normalizer{stripper(n.Left, n.Right), 1}, nil
	case "Replace":
		return n.Pattern.replacer(n.Content)
	case "Precompiled":
		c, err := parseCharsmap(n.Charsmap)
		if err != nil {
			return normalizer{}, err
		}
		return normalizer{c.normalize, float64(c.longest())}, nil
	}
	return normalizer{}, unknown("normalizer", n.Type, "Sequence, NFC, NFD, NFKC, NFKD, Prepend, Strip, Replace or Precompiled")
}

func parseNormalizers(list []json.RawMessage) (normalizer, error) {
	all := unchanged
	for _, data := range list {
		n, err := parseNormalizer(data)
		if err != nil {
			return normalizer{}, err
		}
		before := all.apply
		all = normalizer{func(text string) string { return n.apply(before(text)) }, float64(all.growth * n.growth)}
	}
	return all, nil
}

func stripper(left, right bool) func(string) string {
	return func(text string) string {
		if left {
			text = strings.TrimLeftFunc(text, unicode.IsSpace)
		}
		if right {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		}
		return text
	}
}

// replacer replaces the matches of the pattern.
func (p patternField) replacer(content string) (normalizer, error) {
	find, err := p.compile()
	if err != nil {
		return normalizer{}, err
	}
	return normalizer{func(text string) string {
		var out strings.Builder
		for _, s := range find.spans(text) {
			if s.match {
				out.WriteString(content)
			} else {
				out.WriteString(text[s.start:s.end])
			}
		}
		return out.String()
	}, max(1, float64(len(content)))}, nil
}

var errCharsmap = errors.New("normalizer Precompiled: the map of characters is damaged; expected the precompiled_charsmap of a SentencePiece model")
