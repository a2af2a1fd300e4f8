package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"coalmine/internal/goroutines"
)

// Facts are the numbers that the tasks of one recipe find: the metrics of
// Import, Encode and Balance, number for number. They show if the recipe is
// impossible: a vocabulary larger than Parts.DistinctWords, no
// Balance.Balanced.Users.
//
// A by-user population has as many users as Balance.Balanced, and so has an iid one of users
// that keep their sizes. Else an iid one is refilled to about as many; its own number is in
// its PartitionMetrics.
type Facts struct {
	Source  ImportMetrics  `json:"source"`
	Parts   EncodeMetrics  `json:"parts"`
	Balance BalanceMetrics `json:"balance"`
	// VocabularyWords are the distinct words that the vocabulary is chosen from, where they
	// are those of a source without faults; else 0, and they are Parts.DistinctWords.
	VocabularyWords int `json:"vocabulary_words,omitempty"`
	// Members are the balanced users that train, in the order of their index, where
	// Recipe.Members asks for them.
	Members []Member `json:"members,omitempty"`
	// Sizes counts the balanced users that train with each number of examples, where
	// Recipe.Sizes asks for it.
	Sizes map[int]int `json:"sizes,omitempty"`
	// Missing are the words of Recipe.Named that the vocabulary lacks, with a space between.
	Missing string `json:"missing,omitempty"`
	// Phrases are how many different ones the source has of each of Recipe.Phrases, at most
	// MaxPhrases.
	Phrases []int `json:"phrases,omitempty"`
	// Rules are CurrentRules if FirstRules read the source otherwise, so that Import needs the
	// parameter; else 0. They are not known of a recipe with FirstRules, and 0.
	Rules Rules `json:"rules,omitempty"`
}

// Member is a user that trains.
type Member struct {
	// Name is that of the user in the source; several balanced users may have it.
	Name     string `json:"name"`
	Examples int    `json:"examples"`
	// Groups are the numbers of examples in each of the user's groups that has some, in the
	// order of GroupsBlob, where the reading asks for them.
	Groups []int `json:"groups,omitempty"`
}

// Survey reads a source, validating every line, and returns the facts of each recipe.
// Errors are those of Records, or name the recipe's field. All recipes read texts, or all
// read images of one shape; without a recipe the source is one of texts.
//
// Its memory grows with the users and the distinct words, not with the size of the source
// nor with the number of recipes. A source of few words is read once, and kept as numbers
// for the recipes after the first ones. A larger one is read again for each group of
// recipes.
func Survey(ctx context.Context, files []File, limits Limits, recipes []Recipe) ([]Facts, error) {
	return survey(ctx, files, limits, recipes, surveyMemory{kept: 64 << 20, states: 128 << 20})
}

// surveyMemory bounds the memory of a survey, in bytes.
type surveyMemory struct {
	kept   int // of the source as numbers
	states int // of the recipes that are followed at a time, but for the first ones
}

// firstRecipes are followed while the source is read for the first time. The size of their
// states is known only then.
const firstRecipes = 8

func survey(ctx context.Context, files []File, limits Limits, recipes []Recipe, memory surveyMemory) ([]Facts, error) {
	s := surveyor{names: newNumbering(), groups: newGroupNumbering(), files: files, limits: limits, keep: len(recipes) > firstRecipes, memory: memory}
	surveys := make([]*recipeSurvey, len(recipes))
	for i, r := range recipes {
		r.Rules = cmp.Or(r.Rules, CurrentRules)
		if err := errors.Join(r.check(), s.agree(r.source().Complete())); err != nil {
			return nil, fmt.Errorf("surveying the data: %w", err)
		}
		if r.Level.Scheme().Subwords && r.tokenizer == nil {
			return nil, fmt.Errorf("surveying the data: the tokenizer %s was not read", r.Tokenizer.Short())
		}
		surveys[i] = s.survey(r)
	}
	first := surveys[:min(len(surveys), firstRecipes)]
	if err := s.read(ctx, first); err != nil {
		return nil, err
	}
	s.known = true
	facts := make([]Facts, len(recipes))
	if err := s.conclude(ctx, first, facts); err != nil {
		return nil, err
	}
	if err := s.others(ctx, surveys[len(first):], facts[len(first):]); err != nil {
		return nil, err
	}
	return facts, s.selectWords(ctx, surveys, facts)
}

// surveyor passes over a source for several recipes.
type surveyor struct {
	files  []File
	limits Limits
	memory surveyMemory
	names  *numbering
	groups *groupNumbering
	texts  []*readText
	keep   bool // the source as numbers, as long as there is memory for it
	// skipped lists the records that the newest pass left out.
	skipped Skipped
	known   bool // the source has been read: its words and users are numbered and counted
	differs bool // FirstRules read a record otherwise
}

// agree reports a complete reading of other data than the ones before.
func (s *surveyor) agree(r Reading) error {
	if len(s.texts) == 0 {
		return nil
	}
	if first := s.texts[0].lexicon.reading; first.Pairs != r.Pairs {
		return errors.New("one source is read as pairs and as texts alone; expected one of them")
	} else if first.Timed != r.Timed {
		return errors.New("one source is read with and without times; expected one of them")
	} else if first.Grouped != r.Grouped {
		return errors.New("one source is read with and without groups; expected one of them")
	}
	if first := s.texts[0].lexicon.reading; first.Rules.first() != r.Rules.first() {
		return errors.New("one source is read by two versions of the rules; expected one of them")
	}
	if first := s.texts[0].lexicon.reading; first.Origin != r.Origin {
		return errors.New("one source is read in two forms, with other columns or splits, or with and without its faults; expected one of them")
	}
	if first := s.texts[0].lexicon.reading; first.Label != r.Label || first.Tags != r.Tags {
		return errors.New("one source is read with and without labels, or with other tags; expected one of them")
	}
	if first := s.texts[0].lexicon.reading; first.Image == r.Image && first.Unlabelled == r.Unlabelled {
		return nil
	}
	return fmt.Errorf("one source is read at the levels %s and %s; expected texts alone, or images of one shape that all have labels or may lack them", s.texts[0].lexicon.reading.Level, r.Level)
}

// content is a reading that reads the lines as those of all recipes do.
func (s *surveyor) content() Reading {
	if len(s.texts) == 0 {
		return Reading{}
	}
	return s.texts[0].lexicon.reading.comparing(&s.differs)
}

// readText is the source under one reading, for the recipes that share it.
type readText struct {
	lexicon *lexicon
	first   *lexicon // by FirstRules, until differs; nil if it cannot differ
	differs bool     // FirstRules read the source otherwise
	metrics ImportMetrics
	counts  []int64 // occurrences in all parts, by word number; none at a level that fixes them
	phrases []*phraseCount
	open    block   // the examples read last
	blocks  []block // the examples read before, if they are kept
}

// block is a run of examples as numbers.
type block struct {
	users  []int32      // by example: its user
	groups []uint32     // by example: its group among the user's; none where the reading has none
	ends   []int32      // by example: where its words end
	words  []uint32     // of all examples; none at a level that fixes them
	parts  []partNumber // by example: that of its split; none of data without splits
	total  int          // number of words, also at a level that fixes them
	// Numbers of users and words known at its end.
	knownUsers, knownWords int
}

const blockExamples = 1 << 14

func (b *block) bytes() int {
	return 4*(len(b.users)+len(b.groups)+len(b.ends)+len(b.words)) + len(b.parts)
}

// split is the part of the split of an example.
func (b *block) split(example int) partNumber {
	if len(b.parts) == 0 {
		return train
	}
	return b.parts[example]
}

func (b *block) add(user int, words []uint32, counted bool) {
	b.total += len(words)
	b.users, b.ends = append(b.users, int32(user)), append(b.ends, int32(b.total))
	if counted {
		b.words = append(b.words, words...)
	}
}

// reset empties a block; its memory is used again unless somebody has kept it.
func (b *block) reset(kept bool) {
	if kept {
		*b = block{}
		return
	}
	*b = block{users: b.users[:0], groups: b.groups[:0], ends: b.ends[:0], words: b.words[:0], parts: b.parts[:0]}
}

// survey begins to follow a recipe, and the recipes that its numbers depend on.
func (s *surveyor) survey(r Recipe) *recipeSurvey {
	found := newRecipeSurvey(r, s.reading(r.source().Complete(), r.faults()))
	found.names = s.names
	found.phrases = found.text.lookFor(r.Phrases)
	if of, elsewhere := r.Vocabulary(); elsewhere {
		found.clean = s.survey(of)
	}
	return found
}

// reading finds the text under a complete reading and with faults, or begins it.
func (s *surveyor) reading(r Reading, f FaultParams) *readText {
	i := slices.IndexFunc(s.texts, func(t *readText) bool { return t.lexicon.reading == r && t.lexicon.planted.equal(f) })
	if i < 0 {
		i, s.texts = len(s.texts), append(s.texts, &readText{lexicon: newLexicon(r, f), first: firstLexicon(r, f)})
	}
	return s.texts[i]
}

// read passes over the source for some recipes.
func (s *surveyor) read(ctx context.Context, recipes []*recipeSurvey) error {
	for _, t := range s.texts {
		t.lexicon.restart()
	}
	for record, err := range s.content().records(ctx, s.files, s.limits, &s.skipped) {
		if err != nil {
			return err
		}
		user := int(s.names.id([]byte(record.User)))
		group := s.group(user, &record)
		for _, t := range s.texts {
			t.open.groups = append(t.open.groups, group...)
			if t.add(user, &record, s.known); len(t.open.users) == blockExamples {
				if err := s.pass(ctx, t, recipes); err != nil {
					return err
				}
			}
		}
	}
	for _, t := range s.texts {
		if err := s.pass(ctx, t, recipes); err != nil {
			return err
		}
	}
	return nil
}

// group is the number of a record's group, none where the reading has no groups.
func (s *surveyor) group(user int, record *Record) []uint32 {
	if !s.content().Grouped {
		return nil
	}
	return []uint32{s.groups.id(uint64(user), record.Group)}
}

// pass shows the open block of a text to its recipes, and keeps it if there is memory.
func (s *surveyor) pass(ctx context.Context, t *readText, recipes []*recipeSurvey) error {
	t.open.knownUsers, t.open.knownWords = len(s.names.all), len(t.counts)
	err := eachRecipe(ctx, recipes, func(r *recipeSurvey, _ int) {
		r.see(t, &t.open)
	})
	if s.keep && !s.known {
		if s.memory.kept -= t.open.bytes(); s.memory.kept < 0 {
			s.forget()
		} else {
			t.blocks = append(t.blocks, t.open)
		}
	}
	t.open.reset(s.keep && !s.known)
	return err
}

// forget drops the kept records of the source.
func (s *surveyor) forget() {
	s.keep = false
	for _, t := range s.texts {
		t.blocks = nil
	}
}

// eachRecipe does something for every recipe, several at a time.
func eachRecipe(ctx context.Context, recipes []*recipeSurvey, do func(r *recipeSurvey, i int)) error {
	if len(recipes) == 1 {
		do(recipes[0], 0)
		return ctx.Err()
	}
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range recipes {
		group.Go(func() error {
			if ctx.Err() == nil {
				do(r, i)
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// conclude fills in the facts of recipes that have seen the whole source, and drops
// their states.
func (s *surveyor) conclude(ctx context.Context, recipes []*recipeSurvey, facts []Facts) error {
	for _, t := range s.texts {
		t.metrics.Users, t.metrics.Skipped = len(s.names.all), s.skipped.some()
		t.compareFaults()
		t.differs = t.differs || s.differs
	}
	return eachRecipe(ctx, recipes, func(r *recipeSurvey, i int) { facts[i] = r.facts() })
}

// others surveys the recipes after the first ones: from memory if the source was kept, else
// by reading it again.
func (s *surveyor) others(ctx context.Context, recipes []*recipeSurvey, facts []Facts) error {
	if s.keep {
		return eachRecipe(ctx, recipes, func(r *recipeSurvey, i int) {
			for _, t := range s.texts {
				for b := range t.blocks {
					r.see(t, &t.blocks[b])
				}
			}
			facts[i] = r.facts()
		})
	}
	for len(recipes) > 0 {
		n := s.together(recipes)
		if err := s.read(ctx, recipes[:n]); err != nil {
			return err
		}
		if err := s.conclude(ctx, recipes[:n], facts[:n]); err != nil {
			return err
		}
		recipes, facts = recipes[n:], facts[n:]
	}
	return nil
}

// together is how many of the recipes may be followed at a time.
func (s *surveyor) together(recipes []*recipeSurvey) int {
	room := s.memory.states
	for i, r := range recipes {
		for ; r != nil; r = r.clean {
			room -= 4*len(r.text.counts) + 16*len(s.names.all)
		}
		if room < 0 && i >= firstRecipes {
			return i
		}
	}
	return len(recipes)
}

func (t *readText) add(user int, record *Record, known bool) {
	words, cut := t.lexicon.sentence(user, record.Text)
	counted := !t.lexicon.reading.Level.Scheme().Fixed()
	t.open.add(user, words, counted)
	if t.lexicon.reading.Divides() {
		t.open.parts = append(t.open.parts, record.part)
	}
	if known {
		return
	}
	t.compare(user, record.Text, words, cut)
	for _, p := range t.phrases {
		p.see(t.lexicon, words)
	}
	if cut {
		t.metrics.CutExamples++
	}
	if record.Unlabelled {
		t.metrics.Unlabelled++
	}
	t.metrics.addExample(len(words))
	if counted {
		t.counts = resized(t.counts, len(t.lexicon.words.all))
		for _, w := range words {
			t.counts[w]++
		}
		if t.lexicon.reading.Pairs {
			t.counts[t.lexicon.separator]-- // it is no word
		}
	}
}

// compare follows whether FirstRules read a text otherwise.
func (t *readText) compare(user int, text string, words []uint32, cut bool) {
	if t.first == nil || t.first.faults == nil && !hasNewlyDropped(text) {
		return
	}
	others, otherCut := t.first.sentence(user, text)
	if cut != otherCut || !sameWords(t.lexicon, t.first, words, others) {
		t.differs, t.first = true, nil
	}
}

// compareFaults follows whether FirstRules count other faults in the whole source.
func (t *readText) compareFaults() {
	if t.first != nil {
		t.differs, t.first = !slices.Equal(t.first.found(), t.lexicon.found()), nil
	}
}

// lookFor has some phrases counted while the source is read for the first time.
func (t *readText) lookFor(phrases []Phrase) []*phraseCount {
	var counts []*phraseCount
	for _, p := range phrases {
		i := slices.IndexFunc(t.phrases, func(c *phraseCount) bool { return c.Phrase.equal(p) })
		if i < 0 {
			i, t.phrases = len(t.phrases), append(t.phrases, &phraseCount{Phrase: p, found: map[string]bool{}})
		}
		counts = append(counts, t.phrases[i])
	}
	return counts
}

// resized is a slice of at least n elements, new ones zero.
func resized[T any](s []T, n int) []T {
	if missing := n - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}

func (t *readText) source() ImportMetrics {
	m := t.metrics
	m.DistinctWords = t.lexicon.distinct()
	m.Faults = t.lexicon.found()
	return m
}
