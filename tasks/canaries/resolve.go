package canaries

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/text"
)

// Resolved is a space as tokens of a vocabulary.
type Resolved struct {
	Space Space `json:"space"`
	// Fixed has the token of each position, AnySymbol if it is random.
	Fixed []int32 `json:"fixed"`
	// Random lists the tokens of a random position, ascending; nil means all ordinary tokens.
	Random []int32 `json:"random,omitempty"`
}

// AnySymbol stands for a random symbol among tokens.
const AnySymbol int32 = -1

// SpacesBlob of a Draw node is a JSON array of Resolved: the spaces that name words. It is absent
// if no space names words.
const SpacesBlob = "spaces"

// Resolve looks up the words that a space names. The error names the words that the vocabulary
// lacks.
func (s Space) Resolve(v *text.Vocabulary) (Resolved, error) {
	tokens := make(map[string]int32, v.Size())
	for i, word := range v.Words[text.FirstWord:] {
		tokens[word] = int32(text.FirstWord + i)
	}
	if missing := slices.DeleteFunc(s.Named(), func(word string) bool { return tokens[v.Token(word)] > 0 }); len(missing) > 0 {
		return Resolved{}, fmt.Errorf("canaries %q have words that the vocabulary of %d lacks: %s; use other words, or a larger vocabulary", s, v.Ordinary(), strings.Join(missing, ", "))
	}
	token := func(word string) int32 { return tokens[v.Token(word)] }
	r := s.resolved(token)
	for _, word := range s.symbols() {
		r.Random = append(r.Random, token(word))
	}
	slices.Sort(r.Random)
	return r, nil
}

// resolved returns the space with the tokens of its fixed places.
func (s Space) resolved(token func(place string) int32) Resolved {
	return Resolved{Space: s, Fixed: lists.Map(s.places(), func(place string) int32 {
		switch place {
		case blank, rest, echo:
			return AnySymbol
		case separator:
			return text.Separator
		}
		return token(place)
	})}
}

// Choices lists the possible tokens at each position of a sequence, ascending, out of the given
// number of ordinary tokens.
func (r *Resolved) Choices(ordinary int) [][]int32 {
	random := r.Random
	if random == nil {
		for w := range ordinary {
			random = append(random, int32(text.FirstWord+w))
		}
	}
	choices := make([][]int32, len(r.Fixed))
	for i, token := range r.Fixed {
		choices[i] = random
		if token != AnySymbol {
			choices[i] = []int32{token}
		}
	}
	return choices
}

// ChoicesIn lists the choices of any space, given its vocabulary.
func (s Space) ChoicesIn(v *text.Vocabulary) ([][]int32, error) {
	if !s.NamesWords() {
		return s.Choices(v.Ordinary()), nil
	}
	r, err := s.Resolve(v)
	if err != nil {
		return nil, err
	}
	return r.Choices(v.Ordinary()), nil
}

// ReadChoices lists the possible tokens at each position of a canary, ascending, out of the given
// number of ordinary tokens. It looks up the words that a space names in SpacesBlob of the input, a
// Draw node.
func ReadChoices(ctx context.Context, t *tasks.Task, input string, s Space, ordinary int) ([][]int32, error) {
	if err := s.Check(ordinary); err != nil {
		return nil, tasks.Permanent(err)
	}
	if !s.NamesWords() {
		return s.Choices(ordinary), nil
	}
	var all []Resolved
	if err := t.InputJSON(ctx, input, SpacesBlob, &all); err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Space == s && r.fits(ordinary) {
			return r.Choices(ordinary), nil
		}
	}
	return nil, fmt.Errorf("spaces of canaries: none of %d is that of %q: %w", len(all), s, storage.ErrCorrupt)
}

// fits reports whether all fields are valid for the given number of ordinary tokens.
func (r *Resolved) fits(ordinary int) bool {
	odd := func(token int32) bool {
		return token < text.FirstWord || token >= int32(text.FirstWord+ordinary)
	}
	return len(r.Fixed) == r.Space.Words && slices.IsSorted(r.Random) && !slices.ContainsFunc(r.Random, odd) &&
		!slices.ContainsFunc(r.Fixed, func(token int32) bool { return token != AnySymbol && token != text.Separator && odd(token) })
}
