package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"coalmine/storage"
)

// Recipe is what the numbers of a data set depend on: the parameters of Encode
// and Balance that decide who is in which part, and in which user.
type Recipe struct {
	Seed uint64 `json:"seed"`
	Reading
	// Faults are planted when the source is read. The vocabulary is that of the source
	// without them.
	Faults []Planted `json:"faults,omitempty"`
	// Outside, where it is given, makes every word that a vocabulary lacks an example of its
	// own; Reading is then that of these words, at the byte level.
	Outside Outside `json:"outside,omitzero"`
	// VocabularySize is the number of ordinary words, 0 at a level that fixes them.
	VocabularySize     int     `json:"vocabulary_size"`
	TestFraction       float64 `json:"test_fraction"`
	ValidationFraction float64 `json:"validation_fraction"`
	TrainShare         float64 `json:"train_share,omitempty"`
	// Words is the size of a balanced user, 0 for users as they are.
	Words        int     `json:"words"`
	HeldOutUsers float64 `json:"held_out_users"`
	// Members says that Facts shall list the users that train. It changes no number.
	Members bool `json:"members,omitempty"`
	// Named are words that the vocabulary should have, with a space between. They change
	// no number; Facts tell which are missing.
	Named string `json:"named,omitempty"`
}

// Import is the recipe's share for Import.
func (r Recipe) Import(sources []storage.Digest, limits Limits) ImportParams {
	return ImportParams{Sources: sources, Limits: limits, Reading: r.source().Shortest(), FaultParams: r.faults()}
}

// source is how the source is read.
func (r Recipe) source() Reading {
	if r.selects() {
		return Reading{Sequence: r.Outside.Sequence, Timed: r.Timed}
	}
	return r.Reading
}

// selects reports whether words outside of a vocabulary are examples.
func (r Recipe) selects() bool { return r.Outside.Size > 0 }

// faults are those of the recipe as Import takes them.
func (r Recipe) faults() FaultParams {
	if len(r.Faults) == 0 {
		return FaultParams{}
	}
	return FaultParams{Faults: r.Faults, FaultSeed: r.Seed}
}

// Vocabulary is the recipe of the parts whose vocabulary is taken, if that is another one:
// words are read as in the source without faults.
func (r Recipe) Vocabulary() (of Recipe, elsewhere bool) {
	of = r
	of.Faults, of.Outside, of.Reading = nil, Outside{}, r.source()
	if r.selects() {
		of.VocabularySize = r.Outside.Size
		return of, true
	}
	return of, len(r.Faults) > 0 && r.Level.Scheme().Symbols == nil
}

// Encode is the recipe's share for Encode.
func (r Recipe) Encode() EncodeParams {
	return EncodeParams{
		Seed:               r.Seed,
		Level:              r.Level,
		VocabularySize:     r.VocabularySize,
		TestFraction:       r.TestFraction,
		ValidationFraction: r.ValidationFraction,
		TrainShare:         r.TrainShare,
	}
}

// OutOfVocabulary is the recipe's share for OutOfVocabulary, where it selects words.
func (r Recipe) OutOfVocabulary() OutOfVocabularyParams {
	return OutOfVocabularyParams{
		Sequence: r.Shortest().Sequence, Seed: r.Seed, TestFraction: r.TestFraction, ValidationFraction: r.ValidationFraction, TrainShare: r.TrainShare,
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
	// Missing are the words of Recipe.Named that the vocabulary lacks, with a space between.
	Missing string `json:"missing,omitempty"`
}

// Member is a user that trains.
type Member struct {
	// Name is that of the user in the source; several balanced users may have it.
	Name     string `json:"name"`
	Examples int    `json:"examples"`
}

// Survey reads a source, validating every line, and returns the facts of each recipe.
// Errors are those of Records, or name the recipe's field. All recipes read texts, or all
// read images of one shape; without a recipe the source is one of texts.
//
// Its memory grows with the users and the distinct words, not with the size of the source
// nor with the number of recipes. A source of few words is read once, and kept as numbers
// for the recipes after the first ones. A larger one is read again for every so many.
func Survey(ctx context.Context, files []File, limits Limits, recipes []Recipe) ([]Facts, error) {
	return survey(ctx, files, limits, recipes, surveyMemory{kept: 64 << 20, states: 128 << 20})
}

// surveyMemory bounds the memory of a survey, in bytes.
type surveyMemory struct {
	kept   int // of the source as numbers
	states int // of the recipes that are followed at a time, but for the first ones
}

// firstRecipes are followed while the source is read for the first time. What their states
// take is known only then.
const firstRecipes = 8

func survey(ctx context.Context, files []File, limits Limits, recipes []Recipe, memory surveyMemory) ([]Facts, error) {
	s := surveyor{names: newNumbering(), files: files, limits: limits, keep: len(recipes) > firstRecipes, memory: memory}
	surveys := make([]*recipeSurvey, len(recipes))
	for i, r := range recipes {
		if err := errors.Join(r.check(), s.agree(r.source().Complete())); err != nil {
			return nil, fmt.Errorf("surveying the data: %w", err)
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

func (r Recipe) check() error {
	encode, balance := r.Encode(), r.Balance()
	if err := errors.Join(r.Reading.check(), encode.check(), balance.check(), r.source().check()); err != nil {
		return err
	}
	if r.selects() && r.Level != ByteLevel || r.Outside.Size < 0 {
		return fmt.Errorf("words outside of a vocabulary of %d at the %s level; expected the %s level, and a vocabulary of at least 1", r.Outside.Size, r.Level, ByteLevel)
	}
	if r.Timed && r.Words > 0 {
		return fmt.Errorf("balanced users of %d words, cut from examples in order of their time; expected users as they are (0)", r.Words)
	}
	return r.faults().check(r.source().Level)
}

// surveyor passes over a source for several recipes.
type surveyor struct {
	files  []File
	limits Limits
	memory surveyMemory
	names  *numbering
	texts  []*readText
	keep   bool // the source as numbers, as long as there is memory for it
	known  bool // the source has been read: its words and users are numbered and counted
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
	return s.texts[0].lexicon.reading
}

// readText is the source under one reading, for the recipes that share it.
type readText struct {
	lexicon *lexicon
	metrics ImportMetrics
	counts  []int64 // occurrences in all parts, by word number; none at a level that fixes them
	open    block   // what was read last
	blocks  []block // what was read before, if it is kept
}

// block is a run of examples as numbers.
type block struct {
	users []int32  // by example: its user
	ends  []int32  // by example: where its words end
	words []uint32 // of all examples; none at a level that fixes them
	total int      // number of words, also at a level that fixes them
	// So many users and words were numbered at its end.
	knownUsers, knownWords int
}

const blockExamples = 1 << 14

func (b *block) bytes() int { return 4 * (len(b.users) + len(b.ends) + len(b.words)) }

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
	*b = block{users: b.users[:0], ends: b.ends[:0], words: b.words[:0]}
}

// survey begins to follow a recipe, and what else it takes to know its numbers.
func (s *surveyor) survey(r Recipe) *recipeSurvey {
	found := newRecipeSurvey(r, s.reading(r.source().Complete(), r.faults()))
	found.names = s.names
	if of, elsewhere := r.Vocabulary(); elsewhere {
		found.clean = s.survey(of)
	}
	return found
}

// reading finds the text under a complete reading and with faults, or begins it.
func (s *surveyor) reading(r Reading, f FaultParams) *readText {
	i := slices.IndexFunc(s.texts, func(t *readText) bool { return t.lexicon.reading == r && t.lexicon.planted.equal(f) })
	if i < 0 {
		i, s.texts = len(s.texts), append(s.texts, &readText{lexicon: newLexicon(r, f)})
	}
	return s.texts[i]
}

// read passes over the source for some recipes.
func (s *surveyor) read(ctx context.Context, recipes []*recipeSurvey) error {
	for _, t := range s.texts {
		t.lexicon.restart()
	}
	for record, err := range s.content().Records(ctx, s.files, s.limits) {
		if err != nil {
			return err
		}
		user := int(s.names.id([]byte(record.User)))
		for _, t := range s.texts {
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

// forget gives up what was kept of the source.
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
	group, ctx := errgroup.WithContext(ctx)
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

// conclude fills in the facts of recipes that have seen the whole source, and lets go of
// what they remember.
func (s *surveyor) conclude(ctx context.Context, recipes []*recipeSurvey, facts []Facts) error {
	for _, t := range s.texts {
		t.metrics.Users = len(s.names.all)
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
	counted := t.lexicon.reading.Level.Scheme().Symbols == nil
	t.open.add(user, words, counted)
	if known {
		return
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

// recipeSurvey follows one recipe through the source.
type recipeSurvey struct {
	recipe Recipe
	text   *readText
	names  *numbering // of the users
	coins  *partCoins
	counts [partNumbers]Counts
	clean  *recipeSurvey // of the text that the vocabulary comes from; nil if it is this one
	// Of a recipe that selects words, once clean has seen the source: see bytesOutside.
	outside         []int32
	vocabularyWords int // see Facts
	*recipeMemory
}

// recipeMemory is what a recipe remembers of what it has seen of the source.
type recipeMemory struct {
	users []surveyedUser
	// held are the occurrences of words outside of the training part, which is the larger
	// one mostly, by word number.
	held     []int32
	balanced []balancedUser
}

// memories are used again: a survey of many recipes would make as much garbage for each.
var memories = sync.Pool{New: func() any { return new(recipeMemory) }}

// surveyedUser is one user of the source.
type surveyedUser struct {
	// words and examples of the balanced user that is not complete yet.
	words    int64
	examples int32
	in       [partNumbers]bool // the parts that hold examples of the user
}

// balancedUser is a complete one, of a user of the source.
type balancedUser struct {
	words          int64
	user, examples int32
}

func newRecipeSurvey(r Recipe, t *readText) *recipeSurvey {
	return &recipeSurvey{recipe: r, text: t}
}

// begin makes the recipe ready to see the source, unless it has begun.
func (r *recipeSurvey) begin() {
	if r.recipeMemory == nil {
		r.recipeMemory = memories.Get().(*recipeMemory)
		r.coins = newPartCoins(r.recipe.Seed, r.recipe.TestFraction, r.recipe.ValidationFraction, r.recipe.TrainShare)
	}
}

// forget gives up what the recipe remembers.
func (r *recipeSurvey) forget() {
	m := r.recipeMemory
	m.users, m.held, m.balanced = m.users[:0], m.held[:0], m.balanced[:0]
	memories.Put(m)
	r.recipeMemory, r.coins = nil, nil
}

// see follows a block of a text, if it is one that the recipe depends on.
func (r *recipeSurvey) see(t *readText, b *block) {
	if r.text == t && !r.recipe.selects() {
		r.add(b)
	}
	if r.clean != nil {
		r.clean.see(t, b)
	}
}

// add follows a block of examples.
func (r *recipeSurvey) add(b *block) {
	r.begin()
	r.users, r.held = resized(r.users, b.knownUsers), resized(r.held, b.knownWords)
	for first := 0; first < len(b.users); {
		first = r.addUser(b, first)
	}
}

// addUser follows the examples of one user from the first on, and returns what comes after
// them. This loop is what surveys of many recipes spend their time in.
func (r *recipeSurvey) addUser(b *block, first int) (next int) {
	user, start := b.users[first], int32(0)
	if first > 0 {
		start = b.ends[first-1]
	}
	u, coins, size := r.users[user], r.coins, int64(cmp.Or(r.recipe.Words, math.MaxInt))
	trained := Counts{}
	for next = first; next < len(b.users) && b.users[next] == user; next++ {
		end := b.ends[next]
		if part := coins.next(); part != train {
			r.counts[part].addExample(int(end - start))
			u.in[part] = true
			if len(b.words) > 0 && part != unused {
				hold(r.held, b.words[start:end])
			}
			start = end
			continue
		}
		trained.addExample(int(end - start))
		u.words, u.examples, start = u.words+int64(end-start), u.examples+1, end
		if u.words >= size {
			r.balanced = append(r.balanced, balancedUser{u.words, user, u.examples})
			u.words, u.examples = 0, 0
		}
	}
	r.counts[train].Examples += trained.Examples
	r.counts[train].Words += trained.Words
	u.in[train] = u.in[train] || trained.Examples > 0
	r.users[user] = u
	return next
}

// hold counts words that do not train.
func hold(held []int32, words []uint32) {
	for _, w := range words {
		held[w]++
	}
}

// facts are those of a recipe that has seen the whole source. It forgets what it has seen.
func (r *recipeSurvey) facts() Facts {
	for s := r; s != nil; s = s.clean {
		s.begin() // the source may have been empty
		defer s.forget()
	}
	if r.clean != nil {
		r.vocabularyWords, _ = occurrences(r.clean.text.counts, r.clean.held, 0)
	}
	if r.recipe.selects() && r.clean != nil {
		r.outside = bytesOutside(r.text.lexicon.words.all, r.vocabulary(), r.recipe.Reading.Complete().Sequence)
		r.clean = nil
		return Facts{} // selectWords has the facts
	}
	f := Facts{Source: r.text.source(), Parts: r.parts(), VocabularyWords: r.vocabularyWords, Missing: r.missing()}
	f.Balance, f.Members = r.balance()
	return f
}

// missing are the named words that the vocabulary lacks.
func (r *recipeSurvey) missing() string {
	if r.recipe.Named == "" {
		return ""
	}
	vocabulary := setOf(r.vocabulary())
	lacks := slices.DeleteFunc(strings.Fields(r.recipe.Named), func(word string) bool { return vocabulary[word] })
	return strings.Join(lacks, " ")
}

// vocabulary are its ordinary words, at a level that counts them.
func (r *recipeSurvey) vocabulary() []string {
	if r.clean != nil {
		return r.clean.vocabulary()
	}
	words, counts := r.text.lexicon.words.all, r.trained()
	clear(counts[:min(len(counts), r.text.lexicon.labels)]) // they are no words
	return textsOf(words, mostFrequent(words, counts, r.recipe.VocabularySize))
}

// trained counts the words of the training part, by number.
func (r *recipeSurvey) trained() []int64 {
	counts := slices.Clone(r.text.counts)
	for w, n := range r.held {
		counts[w] -= int64(n)
	}
	return counts
}

func (r *recipeSurvey) parts() EncodeMetrics {
	for _, u := range r.users {
		for part, in := range u.in {
			if in {
				r.counts[part].Users++
			}
		}
	}
	m := EncodeMetrics{Train: r.counts[train], Test: r.counts[test], Validation: r.counts[validation]}
	if symbols := r.recipe.Level.Scheme().Symbols; symbols != nil {
		m.DistinctWords = len(symbols)
		return m
	}
	labels := min(r.text.lexicon.labels, len(r.text.counts), len(r.held))
	distinct, known := occurrences(r.text.counts[labels:], r.held[labels:], r.recipe.VocabularySize)
	_, labelled := occurrences(r.text.counts[:labels], r.held[:labels], labels)
	m.DistinctWords, m.UnknownWords = distinct, m.Train.Words+r.counts[unused].Words-known-labelled
	if r.recipe.Pairs {
		m.UnknownWords -= m.Train.Examples + r.counts[unused].Examples // their separators
	}
	if r.clean != nil {
		m.UnknownWords = unknownWords(r.text.lexicon.words.all, r.trained(), r.vocabulary())
	}
	return m
}

// occurrences returns how many words occur in the training part at all, and how often the
// most frequent ones, so many of them, occur there together.
func occurrences(counts []int64, held []int32, most int) (distinct, sum int) {
	// Nearly all words are rare: their counts are counted. The others are sorted.
	var rare [1 << 10]int
	var frequent []int64
	for w, n := range counts {
		switch n -= int64(held[w]); {
		case n >= int64(len(rare)):
			frequent = append(frequent, n)
		case n > 0:
			rare[n]++
			distinct++
		}
	}
	distinct += len(frequent)
	slices.SortFunc(frequent, func(a, b int64) int { return cmp.Compare(b, a) })
	for _, n := range frequent[:min(most, len(frequent))] {
		sum += int(n)
	}
	left := max(0, most-len(frequent))
	for n := len(rare) - 1; n > 0 && left > 0; n-- {
		taken := min(left, rare[n])
		sum, left = sum+n*taken, left-taken
	}
	return distinct, sum
}

// keepUsers takes the users with examples to train on as they are.
func (r *recipeSurvey) keepUsers() {
	for i, u := range r.users {
		if u.examples > 0 {
			r.balanced = append(r.balanced, balancedUser{u.words, int32(i), u.examples})
		}
	}
}

// balance puts the balanced users in the order of their index: by user, each
// user's in order of the source, which is how they were appended.
func (r *recipeSurvey) balance() (metrics BalanceMetrics, list []Member) {
	if r.recipe.Words == 0 {
		r.keepUsers()
	} else if r.recipe.HeldOutUsers > 0 || r.recipe.Members {
		slices.SortStableFunc(r.balanced, func(a, b balancedUser) int { return cmp.Compare(a.user, b.user) })
	}
	held, whole := heldOut(r.recipe.Seed, len(r.balanced), r.recipe.HeldOutUsers), make([]bool, len(r.users))
	var users int
	var members, out Counts
	for i, b := range r.balanced {
		counts := &members
		if held[i] {
			counts = &out
		} else if r.recipe.Members {
			list = append(list, Member{r.names.all[b.user], int(b.examples)})
		}
		counts.addUser(int(b.examples), int(b.words))
		if !whole[b.user] {
			whole[b.user] = true
			users++
		}
	}
	return newBalanceMetrics(r.counts[train], users, members, out), list
}
