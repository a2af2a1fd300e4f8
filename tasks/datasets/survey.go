package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"coalmine/internal/goroutines"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// Facts are the numbers that the tasks of one recipe find: the metrics of Import, Encode and
// Balance, number for number. They reveal an impossible recipe: a vocabulary larger than
// Parts.DistinctWords, no Balance.Balanced.Users.
//
// A by-user population has as many users as Balance.Balanced, and so has an iid population if users
// keep their sizes. Otherwise an iid population has about as many; PartitionMetrics has the exact
// number.
type Facts struct {
	Source  ImportMetrics             `json:"source"`
	Parts   EncodeMetrics             `json:"parts"`
	Balance population.BalanceMetrics `json:"balance"`
	// VocabularyWords is the number of distinct words that the vocabulary is chosen from, if they
	// come from the source without faults; otherwise 0, and the number is Parts.DistinctWords.
	VocabularyWords int `json:"vocabulary_words,omitempty"`
	// Members lists the balanced users that train, in the order of their index, if Recipe.Members
	// is set.
	Members []Member `json:"members,omitempty"`
	// Sizes counts the balanced users that train with each number of examples, if Recipe.Sizes is
	// set.
	Sizes map[int]int `json:"sizes,omitempty"`
	// Missing lists the words of Recipe.Named that the vocabulary lacks, separated by spaces.
	Missing string `json:"missing,omitempty"`
	// Phrases counts the distinct matches of each of Recipe.Phrases in the source, at most
	// MaxPhrases.
	Phrases []int `json:"phrases,omitempty"`
	// Secrets is the number of distinct matches of Recipe.Secrets in the source, including users that do not train;
	// nil without patterns, if the level is not byte, or if the text is longer than maxSearched bytes.
	Secrets *int `json:"secrets,omitempty"`
	// Rules is CurrentRules if FirstRules read the source differently, so that Import needs the
	// parameter; otherwise 0. It is 0 for a recipe with FirstRules.
	Rules text.Rules `json:"rules,omitempty"`
	// Similar counts the users of the source with similar names.
	Similar SimilarUsers `json:"similar,omitzero"`
}

// Member is a user that trains.
type Member struct {
	// Name is the name of the user in the source; several balanced users may share it.
	Name     string `json:"name"`
	Examples int    `json:"examples"`
	// Groups holds the number of examples in each nonempty group of the user, in the order of
	// GroupsBlob, if the reading is Grouped.
	Groups []int `json:"groups,omitempty"`
}

// Survey reads a source, validating every line, and returns the facts of each recipe. Survey
// returns the errors of Records, or an error that names the recipe's field. All recipes read texts,
// or all read images of one shape; without a recipe the source has texts.
//
// Its memory grows with the users and the distinct words, not with the size of the source or the
// number of recipes. A source of few words is read once, and kept as numbers for later recipes. A
// larger one is read again for each group of recipes.
func Survey(ctx context.Context, files []source.File, limits source.Limits, recipes []Recipe) ([]Facts, error) {
	return survey(ctx, files, limits, recipes, surveyMemory{kept: 64 << 20, states: 128 << 20})
}

// surveyMemory bounds the memory of a survey, in bytes.
type surveyMemory struct {
	kept   int // bytes of the source as numbers
	states int // bytes of recipes processed together, after the first group
}

// firstRecipes is the number of recipes processed in the first pass over the source, before the
// size of their states is known.
const firstRecipes = 8

func survey(ctx context.Context, files []source.File, limits source.Limits, recipes []Recipe, memory surveyMemory) ([]Facts, error) {
	s := surveyor{names: newNumbering(), groups: newGroupNumbering(), files: files, limits: limits, keep: len(recipes) > firstRecipes, memory: memory}
	surveys := make([]*recipeSurvey, len(recipes))
	for i, r := range recipes {
		r.Rules = cmp.Or(r.Rules, text.CurrentRules)
		if err := errors.Join(r.check(), s.agree(r.source().Complete())); err != nil {
			return nil, fmt.Errorf("surveying the data: %w", err)
		}
		if r.Level.Scheme().Subwords && r.Subwords() == nil {
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
	similar := similarUsers(s.names.all)
	err := s.selectWords(ctx, surveys, facts)
	for i := range facts {
		facts[i].Similar = similar
	}
	return facts, err
}

// surveyor reads a source for several recipes.
type surveyor struct {
	files  []source.File
	limits source.Limits
	memory surveyMemory
	names  *numbering
	groups *groupNumbering
	texts  []*readText
	keep   bool // keep the source as numbers, while memory suffices
	// skipped lists the records that the latest pass skipped.
	skipped source.Skipped
	known   bool // the source has been read: its words and users are numbered and counted
	differs bool // FirstRules read a record differently
}

// agree returns an error for a complete reading of other data than earlier readings.
func (s *surveyor) agree(r source.Reading) error {
	if len(s.texts) == 0 {
		return nil
	}
	first := s.texts[0].lexicon.reading
	switch {
	case first.Pairs != r.Pairs:
		return errors.New("one source is read as pairs and as texts alone; expected one of them")
	case first.Timed != r.Timed:
		return errors.New("one source is read with and without times; expected one of them")
	case first.Grouped != r.Grouped:
		return errors.New("one source is read with and without groups; expected one of them")
	case first.Rules.First() != r.Rules.First():
		return errors.New("one source is read by two versions of the rules; expected one of them")
	case first.Origin != r.Origin:
		return errors.New("one source is read in two forms, with other columns or splits, or with and without its faults; expected one of them")
	case first.Label != r.Label || first.Tags != r.Tags:
		return errors.New("one source is read with and without labels, or with other tags; expected one of them")
	case first.Image != r.Image || first.Unlabelled != r.Unlabelled:
		return fmt.Errorf("one source is read at the levels %s and %s; expected texts alone, or images of one shape that all have labels or may lack them", first.Level, r.Level)
	}
	return nil
}

// content returns a reading with the lines of all recipes.
func (s *surveyor) content() source.Reading {
	if len(s.texts) == 0 {
		return source.Reading{}
	}
	return s.texts[0].lexicon.reading.Comparing(&s.differs)
}

// readText is the source under one reading, shared by recipes.
type readText struct {
	lexicon *lexicon
	first   *lexicon // by FirstRules, until differs; nil if no difference is possible
	differs bool     // FirstRules read the source differently
	metrics ImportMetrics
	counts  []int64 // occurrences in all parts, by word number; nil at a level with fixed words
	phrases []*phraseCount
	secrets []*secretCount
	open    block   // latest examples
	blocks  []block // earlier examples, if kept
}

// block is a run of examples as numbers.
type block struct {
	users  []int32      // user by example
	groups []uint32     // group within the user, by example; nil without groups
	ends   []int32      // end of the words, by example
	words  []uint32     // words of all examples; nil at a level with fixed words
	parts  []partNumber // part of the split, by example; nil without splits
	total  int          // number of words, at any level
	// Numbers of users and words known at the end of the block.
	knownUsers, knownWords int
}

const blockExamples = 1 << 14

func (b *block) bytes() int {
	return 4*(len(b.users)+len(b.groups)+len(b.ends)+len(b.words)) + len(b.parts)
}

// split returns the part of the split of an example.
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

// reset empties a block; it reuses the memory unless kept is set.
func (b *block) reset(kept bool) {
	if kept {
		*b = block{}
		return
	}
	*b = block{users: b.users[:0], groups: b.groups[:0], ends: b.ends[:0], words: b.words[:0], parts: b.parts[:0]}
}

// survey adds a recipe, and the recipes that its numbers depend on.
func (s *surveyor) survey(r Recipe) *recipeSurvey {
	found := &recipeSurvey{recipe: r, text: s.reading(r.source().Complete(), r.faults())}
	found.names = s.names
	found.phrases, found.secrets = found.text.lookFor(r.Phrases), found.text.searchFor(r.Secrets)
	if recipe, elsewhere := r.Vocabulary(); elsewhere {
		found.clean = s.survey(recipe)
	}
	return found
}

// reading finds or adds the text under a complete reading with faults.
func (s *surveyor) reading(r source.Reading, f faults.Params) *readText {
	i := slices.IndexFunc(s.texts, func(t *readText) bool { return t.lexicon.reading == r && t.lexicon.planted.Equal(f) })
	if i < 0 {
		i, s.texts = len(s.texts), append(s.texts, &readText{lexicon: newLexicon(r, f), first: firstLexicon(r, f)})
	}
	return s.texts[i]
}

// read reads the source for some recipes.
func (s *surveyor) read(ctx context.Context, recipes []*recipeSurvey) error {
	for _, t := range s.texts {
		t.lexicon.restart()
	}
	for record, err := range s.content().Read(ctx, s.files, s.limits, &s.skipped) {
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

// group returns the number of a record's group, empty without groups.
func (s *surveyor) group(user int, record *source.Record) []uint32 {
	if !s.content().Grouped {
		return nil
	}
	return []uint32{s.groups.id(uint64(user), record.Group)}
}

// pass counts the open block of a text in its recipes, and keeps it if memory suffices.
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

func (s *surveyor) forget() {
	s.keep = false
	for _, t := range s.texts {
		t.blocks = nil
	}
}

// eachRecipe calls do for every recipe, several at a time.
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

// conclude sets the facts of recipes after the whole source, and drops their states.
func (s *surveyor) conclude(ctx context.Context, recipes []*recipeSurvey, facts []Facts) error {
	for _, t := range s.texts {
		t.metrics.Users, t.metrics.Skipped = len(s.names.all), s.skipped.Some()
		t.compareFaults()
		t.differs = t.differs || s.differs
	}
	return eachRecipe(ctx, recipes, func(r *recipeSurvey, i int) { facts[i] = r.facts() })
}

// others surveys the recipes after the first group: from memory if the source was kept, otherwise
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

// together returns the number of recipes that may be processed at a time.
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

func (t *readText) add(user int, record *source.Record, known bool) {
	words, cut := t.lexicon.sentence(user, record.Text)
	counted := !t.lexicon.reading.Level.Scheme().Fixed()
	t.open.add(user, words, counted)
	if t.lexicon.reading.Divides() {
		t.open.parts = append(t.open.parts, numberOf(record.Part))
	}
	if known {
		return
	}
	t.compare(user, record.Text, words, cut)
	for _, p := range t.phrases {
		p.see(t.lexicon, words)
	}
	for _, c := range t.secrets {
		c.see(words)
	}
	if cut {
		t.metrics.CutExamples++
	}
	if record.Unlabelled {
		t.metrics.Unlabelled++
	}
	t.metrics.AddExample(len(words))
	if counted {
		t.counts = resized(t.counts, len(t.lexicon.words.all))
		for _, w := range words {
			t.counts[w]++
		}
		if t.lexicon.reading.Pairs {
			t.counts[t.lexicon.separator]-- // the separator is not a word
		}
	}
}

// compare records whether FirstRules read a text differently.
func (t *readText) compare(user int, content string, words []uint32, cut bool) {
	if t.first == nil || t.first.faults == nil && !text.RulesDiffer(content) {
		return
	}
	others, otherCut := t.first.sentence(user, content)
	if cut != otherCut || !sameWords(t.lexicon, t.first, words, others) {
		t.differs, t.first = true, nil
	}
}

// compareFaults records whether FirstRules count different faults in the whole source.
func (t *readText) compareFaults() {
	if t.first != nil {
		t.differs, t.first = !slices.Equal(t.first.found(), t.lexicon.found()), nil
	}
}

// lookFor adds phrases to count in the first pass over the source.
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

// searchFor returns a count of patterns that the first pass over the source fills; nil without patterns or if words are not bytes.
func (t *readText) searchFor(w filters.Wanted) *secretCount {
	if w.Empty() || t.lexicon.reading.Level != text.ByteLevel {
		return nil
	}
	i := slices.IndexFunc(t.secrets, func(c *secretCount) bool { return c.wanted.Equal(w) })
	if i < 0 {
		set, _ := filters.NewPatterns(w.Named, w.Own) // Recipe.check has returned an error
		i, t.secrets = len(t.secrets), append(t.secrets, &secretCount{wanted: w, set: set, found: map[string]bool{}})
	}
	return t.secrets[i]
}

func (t *readText) source() ImportMetrics {
	m := t.metrics
	m.DistinctWords = t.lexicon.distinct()
	m.Faults = t.lexicon.found()
	return m
}
