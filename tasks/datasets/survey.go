package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Recipe is what the numbers of a data set depend on: the parameters of Encode
// and Balance that decide who is in which part, and in which user.
type Recipe struct {
	Seed uint64 `json:"seed"`
	Reading
	// VocabularySize is the number of ordinary words, 0 at a level that fixes them.
	VocabularySize     int     `json:"vocabulary_size"`
	TestFraction       float64 `json:"test_fraction"`
	ValidationFraction float64 `json:"validation_fraction"`
	// Words is the size of a balanced user.
	Words        int     `json:"words"`
	HeldOutUsers float64 `json:"held_out_users"`
}

// Encode is the recipe's share for Encode.
func (r Recipe) Encode() EncodeParams {
	return EncodeParams{
		Seed:               r.Seed,
		Level:              r.Level,
		VocabularySize:     r.VocabularySize,
		TestFraction:       r.TestFraction,
		ValidationFraction: r.ValidationFraction,
	}
}

// Balance is the recipe's share for Balance.
func (r Recipe) Balance() BalanceParams {
	return BalanceParams{Words: r.Words, HeldOutUsers: r.HeldOutUsers, Seed: r.Seed}
}

// Facts are the numbers that the tasks of one recipe find: the metrics of
// Import, Encode and Balance, number for number. What the recipe makes
// impossible shows in them: a vocabulary larger than Parts.DistinctWords, no
// Balance.Balanced.Users.
//
// A by-user population has as many users as Balance.Balanced. An iid one is
// refilled to about as many; its own number is in its PartitionMetrics.
type Facts struct {
	Source  ImportMetrics  `json:"source"`
	Parts   EncodeMetrics  `json:"parts"`
	Balance BalanceMetrics `json:"balance"`
}

// Survey reads a source once, validating every line, and returns the facts of
// each recipe. Its memory grows with the users and the distinct words, not with
// the size of the source. Errors are those of Records, or name the recipe's field.
func Survey(ctx context.Context, files []File, limits Limits, recipes []Recipe) ([]Facts, error) {
	s := surveyor{names: newNumbering()}
	surveys := make([]*recipeSurvey, len(recipes))
	for i, r := range recipes {
		encode, balance := r.Encode(), r.Balance()
		if err := errors.Join(r.Reading.check(), encode.check(), balance.check()); err != nil {
			return nil, fmt.Errorf("surveying the data: %w", err)
		}
		surveys[i] = newRecipeSurvey(r, s.reading(r.Reading.Complete()))
	}
	for rec, err := range Records(ctx, files, limits) {
		if err != nil {
			return nil, err
		}
		s.add(rec)
	}
	facts := make([]Facts, len(recipes))
	for i, r := range surveys {
		r.text.metrics.Users = len(s.names.all)
		facts[i] = Facts{Source: r.text.source(), Parts: r.parts(), Balance: r.balance()}
	}
	return facts, nil
}

// surveyor is one pass over a source for several recipes.
type surveyor struct {
	names *numbering
	texts []*readText
}

// readText is the source under one reading, for the recipes that share it.
type readText struct {
	lexicon *lexicon
	metrics ImportMetrics
	recipes []*recipeSurvey
}

// reading finds the text under a complete reading, or begins it.
func (s *surveyor) reading(r Reading) *readText {
	i := slices.IndexFunc(s.texts, func(t *readText) bool { return t.lexicon.reading == r })
	if i < 0 {
		i, s.texts = len(s.texts), append(s.texts, &readText{lexicon: newLexicon(r)})
	}
	return s.texts[i]
}

func (s *surveyor) add(rec Record) {
	user := int(s.names.id([]byte(rec.User)))
	for _, t := range s.texts {
		t.add(user, rec.Text)
	}
}

func (t *readText) add(user int, text string) {
	words, cut := t.lexicon.sentence(text)
	if cut {
		t.metrics.CutExamples++
	}
	t.metrics.addExample(len(words))
	for _, r := range t.recipes {
		r.add(user, words)
	}
}

func (t *readText) source() ImportMetrics {
	m := t.metrics
	m.DistinctWords = len(t.lexicon.words.all)
	return m
}

// recipeSurvey follows one recipe through the source.
type recipeSurvey struct {
	recipe   Recipe
	text     *readText
	coins    *partCoins
	metrics  EncodeMetrics
	users    []surveyedUser
	words    []int64 // occurrences in the training part, by word number
	balanced []balancedUser
}

// surveyedUser is one user of the source.
type surveyedUser struct {
	in  [len(allParts)]bool // the parts that hold examples of the user
	cut cutter              // of the training part
}

// balancedUser is an extent, without a place, of the user it was cut from.
type balancedUser struct {
	user   int
	extent Extent
}

func newRecipeSurvey(r Recipe, t *readText) *recipeSurvey {
	s := &recipeSurvey{recipe: r, text: t, coins: newPartCoins(r.Seed, r.TestFraction, r.ValidationFraction)}
	t.recipes = append(t.recipes, s)
	return s
}

func (r *recipeSurvey) add(user int, words []uint32) {
	if user == len(r.users) {
		r.users = append(r.users, surveyedUser{cut: cutter{words: r.recipe.Words}})
	}
	u, part := &r.users[user], r.coins.next()
	counts := r.metrics.counts(part)
	counts.addExample(len(words))
	if !u.in[part] {
		u.in[part] = true
		counts.Users++
	}
	if part != train {
		return
	}
	r.count(words)
	if closed, ok := u.cut.add(0, len(words)); ok {
		r.balanced = append(r.balanced, balancedUser{user, closed})
	}
}

func (r *recipeSurvey) count(words []uint32) {
	for _, w := range words {
		if missing := int(w) + 1 - len(r.words); missing > 0 {
			r.words = append(r.words, make([]int64, missing)...)
		}
		r.words[w]++
	}
}

func (r *recipeSurvey) parts() EncodeMetrics {
	if symbols := r.recipe.Level.Scheme().Symbols; symbols != nil {
		r.metrics.DistinctWords = len(symbols)
		return r.metrics
	}
	found := mostFrequent(r.text.lexicon.words.all, r.words, len(r.words))
	r.metrics.DistinctWords = len(found)
	for _, w := range found[min(len(found), r.recipe.VocabularySize):] {
		r.metrics.UnknownWords += int(r.words[w])
	}
	return r.metrics
}

// balance puts the balanced users in the order of their index: by user, each
// user's in order of the source, which is how they were appended.
func (r *recipeSurvey) balance() BalanceMetrics {
	slices.SortStableFunc(r.balanced, func(a, b balancedUser) int { return cmp.Compare(a.user, b.user) })
	var all []Extent
	users := 0
	for i, b := range r.balanced {
		if i == 0 || b.user != r.balanced[i-1].user {
			users++
		}
		all = append(all, b.extent)
	}
	members, out := split(all, heldOut(r.recipe.Seed, len(all), r.recipe.HeldOutUsers))
	return newBalanceMetrics(r.metrics.Train, users, members, out)
}
