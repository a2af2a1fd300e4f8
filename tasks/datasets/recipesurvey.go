package datasets

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// recipeSurvey follows one recipe through the source.
type recipeSurvey struct {
	recipe Recipe
	text   *readText
	names  *numbering // numbers of the users
	// phrases and secrets are those of the recipe, counted by the text.
	phrases []*phraseCount
	secrets *secretCount
	coins   *partCoins
	counts  [partNumbers]population.Counts
	clean   *recipeSurvey // survey of the text of the vocabulary; nil if equal
	// For a recipe that selects words, after clean has processed the source: see bytesOutside.
	outside         []int32
	vocabularyWords int  // see Facts
	differs         bool // FirstRules read the vocabulary's text differently
	*recipeMemory
}

// recipeMemory is the state of a recipe while the source is read.
type recipeMemory struct {
	users []surveyedUser
	// held counts the words outside the training part, which is usually larger, by word number.
	held     []int32
	balanced []balancedUser
	// groups counts the training examples by user and group.
	groups [][]int
}

// memories are reused, because a survey of many recipes would allocate as much for each.
var memories = sync.Pool{New: func() any { return new(recipeMemory) }}

// surveyedUser is one user of the source.
type surveyedUser struct {
	// words and examples of the incomplete balanced user.
	words    int64
	examples int32
	in       [partNumbers]bool // parts with examples of the user
}

// balancedUser is a complete balanced user of a user of the source.
type balancedUser struct {
	words          int64
	user, examples int32
}

// begin prepares the recipe for reading the source, unless it has begun.
func (r *recipeSurvey) begin() {
	if r.recipeMemory == nil {
		r.recipeMemory = memories.Get().(*recipeMemory)
		r.coins = newPartCoins(r.recipe.Seed, r.recipe.TestFraction, r.recipe.ValidationFraction, r.recipe.TrainShare)
	}
}

func (r *recipeSurvey) forget() {
	m := r.recipeMemory
	m.users, m.held, m.balanced, m.groups = m.users[:0], m.held[:0], m.balanced[:0], nil
	memories.Put(m)
	r.recipeMemory, r.coins = nil, nil
}

// see counts a block of a text if the recipe depends on the text.
func (r *recipeSurvey) see(t *readText, b *block) {
	if r.text == t && !r.recipe.selects() {
		r.add(b)
	}
	if r.clean != nil {
		r.clean.see(t, b)
	}
}

// add counts a block of examples.
func (r *recipeSurvey) add(b *block) {
	r.begin()
	r.users, r.held = resized(r.users, b.knownUsers), resized(r.held, b.knownWords)
	for first := 0; first < len(b.users); {
		first = r.addUser(b, first)
	}
}

// addUser counts the examples of one user from first on, and returns the index after them. Surveys
// of many recipes spend their time in this loop.
func (r *recipeSurvey) addUser(b *block, first int) (next int) {
	user, start := b.users[first], int32(0)
	if first > 0 {
		start = b.ends[first-1]
	}
	u, coins, size := r.users[user], r.coins, int64(cmp.Or(r.recipe.Words, math.MaxInt))
	trained := population.Counts{}
	for next = first; next < len(b.users) && b.users[next] == user; next++ {
		end := b.ends[next]
		if part := coins.next().within(b.split(next)); part != train {
			r.counts[part].AddExample(int(end - start))
			u.in[part] = true
			if len(b.words) > 0 && part != unused {
				hold(r.held, b.words[start:end])
			}
			start = end
			continue
		}
		trained.AddExample(int(end - start))
		if len(b.groups) > 0 {
			r.addGroup(int(user), b.groups[next])
		}
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

// addGroup counts a training example in its group.
func (r *recipeSurvey) addGroup(user int, group uint32) {
	r.groups = resized(r.groups, user+1)
	r.groups[user] = resized(r.groups[user], int(group)+1)
	r.groups[user][group]++
}

// groupsOf returns the numbers of examples of a user's nonempty groups.
func (r *recipeSurvey) groupsOf(user int32) []int {
	if !r.recipe.Grouped {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.groups[user]), func(n int) bool { return n == 0 })
}

// hold counts words outside the training part.
func hold(held []int32, words []uint32) {
	for _, w := range words {
		held[w]++
	}
}

// facts returns the facts of a recipe after the whole source, and drops its state.
func (r *recipeSurvey) facts() Facts {
	for s := r; s != nil; s = s.clean {
		s.begin() // for an empty source
		defer s.forget()
	}
	if r.clean != nil {
		r.vocabularyWords, _ = occurrences(r.clean.text.counts, r.clean.held, 0)
		r.differs = r.clean.text.differs
	}
	if r.recipe.selects() && r.clean != nil {
		r.outside = bytesOutside(r.text.lexicon.words.all, r.vocabulary(), r.recipe.Reading.Complete().Sequence)
		r.clean = nil
		return Facts{} // selectWords sets the facts
	}
	f := Facts{Source: r.text.source(), Parts: r.parts(), VocabularyWords: r.vocabularyWords, Missing: r.missing()}
	if r.differs || r.text.differs {
		f.Rules = text.CurrentRules
	}
	f.Balance, f.Members, f.Sizes = r.balance()
	for _, p := range r.phrases {
		f.Phrases = append(f.Phrases, len(p.found))
	}
	f.Secrets = r.secrets.number()
	return f
}

// missing lists the named words that the vocabulary lacks.
func (r *recipeSurvey) missing() string {
	if r.recipe.Named == "" {
		return ""
	}
	has := r.recipe.Subwords().HasWord
	if !r.recipe.Level.Scheme().Subwords {
		vocabulary := setOf(r.vocabulary())
		has = func(word string) bool { return vocabulary[word] }
	}
	lacks := slices.DeleteFunc(strings.Fields(r.recipe.Named), has)
	return strings.Join(lacks, " ")
}

// vocabulary returns the ordinary words, at a level that counts them.
func (r *recipeSurvey) vocabulary() []string {
	if r.clean != nil {
		return r.clean.vocabulary()
	}
	words, counts := r.text.lexicon.words.all, r.trained()
	clear(counts[:min(len(counts), r.text.lexicon.labels)]) // labels are not words
	return text.WordsAt(words, mostFrequent(words, counts, r.recipe.VocabularySize))
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
	if level := r.recipe.Level.Scheme(); level.Fixed() {
		m.DistinctWords = len(level.Symbols)
		if level.Subwords {
			m.DistinctWords = r.text.lexicon.distinct()
		}
		return m
	}
	labels := min(r.text.lexicon.labels, len(r.text.counts), len(r.held))
	distinct, known := occurrences(r.text.counts[labels:], r.held[labels:], r.recipe.VocabularySize)
	_, labelled := occurrences(r.text.counts[:labels], r.held[:labels], labels)
	m.DistinctWords, m.UnknownWords = distinct, m.Train.Words+r.counts[unused].Words-known-labelled
	if r.recipe.Pairs {
		m.UnknownWords -= m.Train.Examples + r.counts[unused].Examples // separators are not words
	}
	if r.clean != nil {
		m.UnknownWords = unknownWords(r.text.lexicon.words.all, r.trained(), r.vocabulary())
	}
	return m
}

// occurrences returns the number of words in the training part, and the number of occurrences of
// the most frequent ones.
func occurrences(counts []int64, held []int32, most int) (distinct, sum int) {
	// Nearly all words are rare: count them by count, and sort the frequent ones.
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

// keepUsers keeps the users with training examples unchanged.
func (r *recipeSurvey) keepUsers() {
	for i, u := range r.users {
		if u.examples > 0 {
			r.balanced = append(r.balanced, balancedUser{u.words, int32(i), u.examples})
		}
	}
}

// balance puts the balanced users in the order of their index: by user and then in order of the
// source, which is the order of appending.
func (r *recipeSurvey) balance() (metrics population.BalanceMetrics, list []Member, sizes map[int]int) {
	if r.recipe.Sizes {
		sizes = map[int]int{}
	}
	if r.recipe.Words == 0 {
		r.keepUsers()
	} else if r.recipe.HeldOutUsers > 0 || r.recipe.Members {
		slices.SortStableFunc(r.balanced, func(a, b balancedUser) int { return cmp.Compare(a.user, b.user) })
	}
	held, whole := population.HeldOut(r.recipe.Seed, len(r.balanced), r.recipe.HeldOutUsers), make([]bool, len(r.users))
	var users int
	var members, out population.Counts
	for i, b := range r.balanced {
		counts := &members
		if held[i] {
			counts = &out
		} else if r.recipe.Members {
			list = append(list, Member{r.names.all[b.user], int(b.examples), r.groupsOf(b.user)})
		}
		if r.recipe.Sizes && !held[i] {
			sizes[int(b.examples)]++
		}
		counts.AddUser(int(b.examples), int(b.words))
		if !whole[b.user] {
			whole[b.user] = true
			users++
		}
	}
	return population.NewBalanceMetrics(r.counts[train], users, members, out), list, sizes
}

// selectWords sets the facts of the recipes that select words. It reads the source once more,
// because a vocabulary is known only after the whole source.
func (s *surveyor) selectWords(ctx context.Context, recipes []*recipeSurvey, facts []Facts) error {
	following := map[*readText][]*recipeSurvey{}
	for _, r := range recipes {
		if r.recipe.selects() {
			r.begin()
			following[r.text] = append(following[r.text], r)
		}
	}
	if len(following) == 0 {
		return nil
	}
	if err := s.readWords(ctx, following); err != nil {
		return err
	}
	for i, r := range recipes {
		if r.recipe.selects() {
			facts[i] = r.facts()
		}
	}
	return nil
}

// readWords reads the source for recipes that select words, by the text that they select from.
func (s *surveyor) readWords(ctx context.Context, following map[*readText][]*recipeSurvey) error {
	for t := range following {
		t.lexicon.restart()
	}
	for record, err := range s.content().Records(ctx, s.files, s.limits) {
		if err != nil {
			return err
		}
		user := int(s.names.id([]byte(record.User)))
		group := s.group(user, &record)
		for t, recipes := range following {
			words, _ := t.lexicon.sentence(user, record.Text)
			for _, r := range recipes {
				r.addWords(user, numberOf(record.Part), words, group)
			}
		}
	}
	return nil
}

// addWords counts the words outside the vocabulary of one sentence of a split. group is the group
// of the sentence, if it has one.
func (r *recipeSurvey) addWords(user int, split partNumber, words, group []uint32) {
	r.users = resized(r.users, user+1)
	part := r.coins.next().within(split)
	for _, w := range words {
		if n := r.outside[w]; n > 0 {
			r.addOne(part, user, int(n), group)
		}
	}
}

// addOne counts one example in its part and in its group, if it has one.
func (r *recipeSurvey) addOne(part partNumber, user, words int, group []uint32) {
	u := &r.users[user]
	r.counts[part].AddExample(words)
	u.in[part] = true
	if part != train {
		return
	}
	for _, g := range group {
		r.addGroup(user, g)
	}
	u.words, u.examples = u.words+int64(words), u.examples+1
	if size := r.recipe.Words; size > 0 && u.words >= int64(size) {
		r.balanced = append(r.balanced, balancedUser{u.words, int32(user), u.examples})
		u.words, u.examples = 0, 0
	}
}
