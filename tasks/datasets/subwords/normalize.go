package subwords

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before it is cut.
type normalizer func(string) string

// maxGrowth is the most bytes that the normalizers of a file may make of one. Those of published models make
// three, besides the Unicode forms, which make 18 at most.
const maxGrowth = 1000

// checkGrowth returns an error for normalizers that could fill the memory from a short text.
func checkGrowth(data json.RawMessage) error {
	if growth := growthOf(data); growth > maxGrowth {
		return fmt.Errorf("the normalizers make up to %.3g bytes of one; expected at most %d, by fewer or shorter replacements", growth, maxGrowth)
	}
	return nil
}

// growthOf is the most bytes that a parsed normalizer makes of one by replacements, and thus of all in a sequence.
func growthOf(data json.RawMessage) float64 {
	var n struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
		Content     string            `json:"content"`
		Charsmap    []byte            `json:"precompiled_charsmap"`
	}
	_ = json.Unmarshal(data, &n) // it has been parsed
	growth := 1.0
	switch n.Type {
	case "Replace":
		growth = max(growth, float64(len(n.Content)))
	case "Precompiled":
		if c, err := parseCharsmap(n.Charsmap); err == nil {
			for text := range bytes.SplitSeq(c.texts, []byte{0}) {
				growth = max(growth, float64(len(text)))
			}
		}
	}
	for _, part := range n.Normalizers {
		growth = float64(growth * growthOf(part))
	}
	return growth
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
		return func(text string) string { return text }, nil
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, malformed("normalizer", err)
	}
	switch n.Type {
	case "Sequence":
		return parseNormalizers(n.Normalizers)
	case "NFC", "NFD", "NFKC", "NFKD":
		return map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[n.Type].String, nil
	case "Prepend":
		return func(text string) string {
			if text == "" {
				return ""
			}
			return n.Prepend + text
		}, nil
	case "Strip":
		return stripper(n.Left, n.Right), nil
	case "Replace":
		return n.Pattern.replacer(n.Content)
	case "Precompiled":
		c, err := parseCharsmap(n.Charsmap)
		return c.normalize, err
	}
	return nil, unknown("normalizer", n.Type, "Sequence, NFC, NFD, NFKC, NFKD, Prepend, Strip, Replace or Precompiled")
}

func parseNormalizers(list []json.RawMessage) (normalizer, error) {
	var all []normalizer
	for _, data := range list {
		n, err := parseNormalizer(data)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return func(text string) string {
		for _, n := range all {
			text = n(text)
		}
		return text
	}, nil
}

func stripper(left, right bool) normalizer {
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

// replacer replaces what the pattern finds.
func (p patternField) replacer(content string) (normalizer, error) {
	find, err := p.compile()
	if err != nil {
		return nil, err
	}
	return func(text string) string {
		var out strings.Builder
		for _, s := range find.spans(text) {
			if s.match {
				out.WriteString(content)
			} else {
				out.WriteString(text[s.start:s.end])
			}
		}
		return out.String()
	}, nil
}

var errCharsmap = errors.New("normalizer Precompiled: the map of characters is damaged; expected the precompiled_charsmap of a SentencePiece model")
