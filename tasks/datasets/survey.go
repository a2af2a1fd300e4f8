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
	// VocabularySize is the number of ordinary words.
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
	s := surveyor{names: newNumbering(), lexicon: newLexicon()}
	for _, r := range recipes {
		encode, balance := r.Encode(), r.Balance()
		if err := errors.Join(encode.check(), balance.check()); err != nil {
			return nil, fmt.Errorf("surveying the data: %w", err)
		}
		s.recipes = append(s.recipes, newRecipeSurvey(r))
	}
	for rec, err := range Records(ctx, files, limits) {
		if err != nil {
			return nil, err
		}
		s.add(rec)
	}
	source := s.source()
	facts := make([]Facts, len(recipes))
	for i, r := range s.recipes {
		facts[i] = Facts{Source: source, Parts: r.parts(s.lexicon.words.all), Balance: r.balance()}
	}
	return facts, nil
}

// surveyor is one pass over a source for several recipes.
type surveyor struct {
	names   *numbering
	lexicon *lexicon
	total   Counts
	cut     int
	recipes []*recipeSurvey
}

func (s *surveyor) add(rec Record) {
	words, cut := s.lexicon.sentence(rec.Text)
	if cut {
		s.cut++
	}
	s.total.addExample(len(words))
	user := int(s.names.id([]byte(rec.User)))
	for _, r := range s.recipes {
		r.add(user, words)
	}
}

func (s *surveyor) source() ImportMetrics {
	s.total.Users = len(s.names.all)
	return ImportMetrics{Counts: s.total, CutExamples: s.cut, DistinctWords: len(s.lexicon.words.all)}
}

// recipeSurvey follows one recipe through the source.
type recipeSurvey struct {
	recipe   Recipe
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

func newRecipeSurvey(r Recipe) *recipeSurvey {
	return &recipeSurvey{recipe: r, coins: newPartCoins(r.Seed, r.TestFraction, r.ValidationFraction)}
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

func (r *recipeSurvey) parts(dictionary []string) EncodeMetrics {
	found := mostFrequent(dictionary, r.words, len(r.words))
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
