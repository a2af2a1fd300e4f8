package subwords

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"coalmine/internal/lists"
)

// splitter divides pieces of a normalized text into pieces for the model. No piece is empty.
type splitter func([]piece) []piece

// gpt2 is the expression of ByteLevel (Radford et al. 2019, section 2.2).
var gpt2 = must(compile(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` + spaceTail))

func must(f finder, err error) finder {
	if err != nil {
		panic(err)
	}
	return f
}

// splitFields holds the fields of all pre-tokenizers.
type splitFields struct {
	Type          string            `json:"type"`
	Pretokenizers []json.RawMessage `json:"pretokenizers"`
	Prefix        *bool             `json:"add_prefix_space"`
	UseRegex      *bool             `json:"use_regex"`
	Pattern       patternField      `json:"pattern"`
	Behavior      behavior          `json:"behavior"`
	Invert        bool              `json:"invert"`
	Individual    bool              `json:"individual_digits"`
	Replacement   string            `json:"replacement"`
	Scheme        string            `json:"prepend_scheme"`
	Split         *bool             `json:"split"`
}

func parseSplitter(data json.RawMessage) (splitter, error) {
	if isNull(data) {
		return func(pieces []piece) []piece { return pieces }, nil
	}
	var f splitFields
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, malformed("pre-tokenizer", err)
	}
	switch f.Type {
	case "Sequence":
		return parseSplitters(f.Pretokenizers)
	case "ByteLevel":
		return f.byteLevel(), nil
	case "Split":
		find, err := f.Pattern.compile()
		if err != nil {
			return nil, err
		}
		return f.Behavior.splitter(func(text string) []span { return inverted(find.spans(text), f.Invert) })
	case "WhitespaceSplit":
		return removed.splitter(func(text string) []span { return charSpans(text, unicode.IsSpace) })
	case "Digits":
		b := contiguous
		if f.Individual {
			b = isolated
		}
		return b.splitter(func(text string) []span { return charSpans(text, unicode.IsNumber) })
	case "Metaspace":
		return f.metaspace()
	}
	return nil, unknown("pre-tokenizer", f.Type, "Sequence, ByteLevel, Split, WhitespaceSplit, Digits or Metaspace")
}

func parseSplitters(list []json.RawMessage) (splitter, error) {
	var all []splitter
	for _, data := range list {
		s, err := parseSplitter(data)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return func(pieces []piece) []piece {
		for _, s := range all {
			pieces = s(pieces)
		}
		return pieces
	}, nil
}

func eachPiece(cut func(piece) []piece) splitter {
	return func(pieces []piece) []piece {
		var out []piece
		for _, p := range pieces {
			out = append(out, cut(p)...)
		}
		return out
	}
}

// byteLevel splits by the expression of GPT-2 and writes each byte as one character.
func (f splitFields) byteLevel() splitter {
	prefix, cuts := f.Prefix != nil && *f.Prefix, f.UseRegex == nil || *f.UseRegex
	return eachPiece(func(p piece) []piece {
		if prefix && !strings.HasPrefix(p.text, " ") {
			p.text = " " + p.text
		}
		pieces := []piece{p}
		if cuts {
			pieces = p.cut(gpt2.spans(p.text))
		}
		for i := range pieces {
			pieces[i].text = byteText(pieces[i].text)
		}
		return pieces
	})
}

// metaspace replaces spaces by another character, puts one before the text, and splits there.
func (f splitFields) metaspace() (splitter, error) {
	scheme := f.Scheme
	switch {
	case utf8.RuneCountInString(f.Replacement) != 1:
		return nil, fmt.Errorf("pre-tokenizer Metaspace: replacement is %q; expected one character", f.Replacement)
	case f.Prefix != nil && !*f.Prefix:
		scheme = "never"
	case scheme == "":
		scheme = "always"
	}
	if !slices.Contains([]string{"always", "first", "never"}, scheme) {
		return nil, unknown("prepend_scheme of the pre-tokenizer Metaspace", scheme, "always, first or never")
	}
	cuts := f.Split == nil || *f.Split
	find := must(patternField{String: &f.Replacement}.compile())
	return eachPiece(func(p piece) []piece {
		p.text = strings.ReplaceAll(p.text, " ", f.Replacement)
		if (scheme == "always" || scheme == "first" && p.start) && !strings.HasPrefix(p.text, f.Replacement) {
			p.text = f.Replacement + p.text
		}
		if !cuts {
			return []piece{p}
		}
		return p.cut(mergedWithNext.apply(find.spans(p.text)))
	}), nil
}

func (p piece) cut(spans []span) []piece {
	return lists.Map(spans, func(s span) piece { return piece{p.text[s.start:s.end], p.start && s.start == 0} })
}

// charSpans returns the spans of a text, with a match for each character of a kind.
func charSpans(text string, is func(rune) bool) (spans []span) {
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		if n := len(spans); !is(r) && n > 0 && !spans[n-1].match {
			spans[n-1].end = end
			continue
		}
		spans = append(spans, span{i, end, is(r)})
	}
	return spans
}

func inverted(spans []span, invert bool) []span {
	for i := range spans {
		spans[i].match = spans[i].match != invert
	}
	return spans
}

// behavior is the treatment of the matches that cut a text.
type behavior string

const (
	removed            behavior = "Removed"
	isolated           behavior = "Isolated"
	contiguous         behavior = "Contiguous"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
)

func (b behavior) splitter(find func(text string) []span) (splitter, error) {
	if !slices.Contains([]behavior{removed, isolated, contiguous, mergedWithPrevious, mergedWithNext}, b) {
		return nil, unknown("behavior of the pre-tokenizer Split", string(b), "Removed, Isolated, Contiguous, MergedWithPrevious or MergedWithNext")
	}
	return eachPiece(func(p piece) []piece { return p.cut(b.apply(find(p.text))) }), nil
}

// apply joins or drops spans.
func (b behavior) apply(spans []span) []span {
	switch b {
	case isolated:
	case removed:
		return slices.DeleteFunc(spans, func(s span) bool { return s.match })
	case contiguous:
		return joined(spans, func(before, s span) bool { return before.match == s.match })
	case mergedWithPrevious:
		return joined(spans, func(before, s span) bool { return s.match && !before.match })
	case mergedWithNext:
		return joined(spans, func(before, s span) bool { return before.match && !s.match })
	}
	return spans
}

// joined joins each span to the previous span if join allows it.
func joined(spans []span, join func(before, s span) bool) (out []span) {
	for i, s := range spans {
		if i > 0 && join(spans[i-1], s) {
			out[len(out)-1].end = s.end
			continue
		}
		out = append(out, s)
	}
	return out
}
