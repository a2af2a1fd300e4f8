package subwords

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parse reads a file tokenizer.json. An error is one sentence: the part of the file, and the
// expected value.
func Parse(data []byte) (*Tokenizer, error) {
	var f struct {
		Added      []addedToken    `json:"added_tokens"`
		Normalizer json.RawMessage `json:"normalizer"`
		Splitter   json.RawMessage `json:"pre_tokenizer"`
		Model      json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, malformed("file", err)
	}
	t := new(Tokenizer)
	var err error
	if t.model, t.tokens, err = parseModel(f.Model); err != nil {
		return nil, err
	}
	if t.normalize, err = parseNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	if err := t.normalize.check(); err != nil {
		return nil, err
	}
	if t.split, err = parseSplitter(f.Splitter); err != nil {
		return nil, err
	}
	return t, t.add(f.Added)
}

func parseModel(data json.RawMessage) (model, []string, error) {
	var kind struct {
		Type    string          `json:"type"`
		Merges  json.RawMessage `json:"merges"`
		Unknown json.RawMessage `json:"unk_id"`
	}
	if isNull(data) {
		return nil, nil, errors.New("the file has no model; expected a tokenizer.json of the tokenizers library")
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, nil, malformed("model", err)
	}
	switch {
	case kind.Type == "BPE", kind.Type == "" && kind.Merges != nil:
		return parseBPE(data)
	case kind.Type == "Unigram", kind.Type == "" && kind.Unknown != nil:
		return parseUnigram(data)
	}
	return nil, nil, unknown("model", kind.Type, "BPE or Unigram")
}

// add adds the added tokens.
func (t *Tokenizer) add(added []addedToken) error {
	numbers := make(map[string]uint32, len(t.tokens))
	for id, token := range t.tokens {
		numbers[token] = uint32(id)
	}
	for _, a := range added {
		id, known := numbers[a.Content]
		switch {
		case a.Content == "":
			continue
		case a.SingleWord:
			return fmt.Errorf("added token %.100q is a single word; expected single_word: false", a.Content)
		case a.ID >= MaxTokens:
			return tooMany(int(a.ID) + 1)
		case known && id != a.ID:
			return fmt.Errorf("added token %.100q has number %d, and %d in the model; expected one number", a.Content, a.ID, id)
		}
		for int(a.ID) >= len(t.tokens) {
			t.tokens = append(t.tokens, "")
		}
		if !known && t.tokens[a.ID] != "" {
			return fmt.Errorf("added token %.100q has number %d, which is that of %.100q; expected another", a.Content, a.ID, t.tokens[a.ID])
		}
		t.tokens[a.ID], numbers[a.Content] = a.Content, a.ID
		if !a.Normalized {
			t.added[0] = append(t.added[0], a)
		} else if a.Content = t.normalize.apply(a.Content); a.Content != "" {
			t.added[1] = append(t.added[1], a)
		}
	}
	for i := range t.added {
		slices.SortStableFunc(t.added[i], func(x, y addedToken) int { return cmp.Compare(len(y.Content), len(x.Content)) })
	}
	return nil
}

// tokensOf lists the tokens of a vocabulary by number.
func tokensOf(vocabulary map[string]uint32) ([]string, error) {
	if len(vocabulary) == 0 {
		return nil, errors.New("the vocabulary is empty; expected tokens")
	}
	greatest := slices.Max(slices.Collect(maps.Values(vocabulary)))
	if greatest >= MaxTokens {
		return nil, tooMany(int(greatest) + 1)
	}
	tokens := make([]string, greatest+1)
	for _, token := range slices.Sorted(maps.Keys(vocabulary)) {
		id := vocabulary[token]
		if token == "" || tokens[id] != "" {
			return nil, fmt.Errorf("tokens %.100q and %.100q have the number %d; expected one token, which is not empty", tokens[id], token, id)
		}
		tokens[id] = token
	}
	return tokens, nil
}

func tooMany(n int) error {
	return fmt.Errorf("%d tokens; expected at most %d", n, MaxTokens)
}

func isNull(data json.RawMessage) bool {
	return len(data) == 0 || bytes.Equal(data, []byte("null"))
}

// malformed describes a JSON value of the wrong type, without Go types.
func malformed(part string, err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := cmp.Or(strings.TrimPrefix(wrong.Field, "."), "value")
		err = fmt.Errorf("its %.100s is of another type (%.100s, before byte %d)", field, wrong.Value, wrong.Offset)
	}
	return fmt.Errorf("the %s is malformed: %w; expected a tokenizer.json of the tokenizers library", part, err)
}

func unknown(part, name, expected string) error {
	return fmt.Errorf("%s %.100q is not supported; expected %s", part, name, expected)
}
