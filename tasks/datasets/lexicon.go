package datasets

import (
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/subwords"
	"coalmine/tasks/datasets/text"
	"strings"
)

// cutSentence appends the numbers of the first words of a text to the sentence, at most
// Reading.Sequence, and reports whether there were more.
func (l *lexicon) cutSentence(text string) (cut bool) {
	switch scheme := l.reading.Level.Scheme(); {
	case scheme.Subwords:
		tokens := l.subwords.Encode(text)
		l.sentenced = append(l.sentenced, tokens[:min(len(tokens), l.reading.Sequence)]...)
		return len(tokens) > l.reading.Sequence
	case scheme.Fixed():
		return l.bytesOf(text)
	case l.faults.Hitting():
		return l.misread(text)
	}
	longest := len(l.sentenced) + l.reading.Sequence
	for w := range l.tokenizer.Words(text) {
		if len(l.sentenced) == longest {
			return true
		}
		l.sentenced = append(l.sentenced, uint32(l.words.id(w)))
	}
	return false
}

func (l *lexicon) bytesOf(text string) (cut bool) {
	kept := text[:min(len(text), l.reading.Sequence)]
	for i := range len(kept) {
		l.sentenced = append(l.sentenced, uint32(kept[i]))
	}
	return len(kept) < len(text)
}

// firstLexicon returns the lexicon of FirstRules; nil if FirstRules and CurrentRules give the same
// words for every text.
func firstLexicon(r source.Reading, f faults.Params) *lexicon {
	level := r.Level.Scheme()
	if r.Rules.First() || level.Images || level.Fixed() && len(f.Faults) == 0 {
		return nil
	}
	r.Rules = text.FirstRules
	return newLexicon(r, f)
}

func sameWords(a, b *lexicon, as, bs []uint32) bool {
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if a.words.all[as[i]] != b.words.all[bs[i]] {
			return false
		}
	}
	return true
}

// numbering gives names numbers from 0 in order of first appearance.
type numbering struct {
	ids map[string]uint64
	all []string
}

func newNumbering() *numbering { return &numbering{ids: map[string]uint64{}} }

func (n *numbering) id(name []byte) uint64 {
	id, ok := n.ids[string(name)]
	if !ok {
		id = uint64(len(n.all))
		owned := string(name)
		n.ids[owned] = id
		n.all = append(n.all, owned)
	}
	return id
}

// lexicon turns texts into sentences of word numbers, one after another in order of the source.
type lexicon struct {
	reading    source.Reading
	planted    faults.Params
	faults     *faults.Planter // nil without faults
	words      *numbering
	separator  uint32 // number of the separator of pairs
	noLabel    uint32 // number for a missing label of an image
	labels     int    // count of labels of texts, which have the first numbers
	tokenizer  text.Tokenizer
	subwords   *subwords.Encoder // at the subword level
	alphabet   subwords.Alphabet // alphabet of its tokens
	misreading []string          // words of a text with faults
	sentenced  []uint32
}

func newLexicon(r source.Reading, f faults.Params) *lexicon {
	r = r.Complete()
	scheme := r.Level.Scheme()
	l := &lexicon{reading: r, planted: f, words: newNumbering(), tokenizer: text.Tokenizer{First: r.Rules.First()}}
	l.words.all = scheme.Symbols
	if scheme.Subwords {
		l.subwords, l.words.all = r.Subwords().Encoder(), r.Subwords().Names(text.Specials())
		l.alphabet = subwords.AlphabetOf(l.words.all)
		for id, name := range l.words.all {
			l.words.ids[name] = uint64(id)
		}
	}
	if words := r.LabelWords(); len(words) > 0 {
		l.words.all, l.labels = words, len(words)
	}
	if r.Pairs {
		l.separator = l.addSpecial(text.Separator)
	}
	if r.Unlabelled {
		l.noLabel = l.addSpecial(text.Unknown)
	}
	l.restart()
	return l
}

// restart resets the lexicon to the beginning of the source. Words keep their numbers.
func (l *lexicon) restart() {
	if len(l.planted.Faults) > 0 {
		l.faults = faults.NewPlanter(l.planted)
		l.faults.First = l.tokenizer.First
	}
}

// addSpecial numbers a special token among the words: after the symbols of a level with fixed
// symbols, otherwise first. No word of a text equals its name.
func (l *lexicon) addSpecial(token int) uint32 {
	l.words.all = append(l.words.all[:len(l.words.all):len(l.words.all)], text.Specials()[token])
	return uint32(len(l.words.all) - 1)
}

// distinct returns the number of words so far.
func (l *lexicon) distinct() int {
	if l.reading.Pairs || l.reading.Unlabelled {
		return len(l.words.all) - 1
	}
	return len(l.words.all) - l.labels
}

// sentence returns the first words of a user's text, at most a sequence, valid until the next call,
// and whether there were more. Users are numbered in order of first appearance. For a pair it
// returns the words of both texts with the separator between them.
func (l *lexicon) sentence(user int, text string) (words []uint32, cut bool) {
	l.sentenced = l.sentenced[:0]
	unlabelled := l.reading.Unlabelled && len(text) == l.reading.Image.Pixels()
	if unlabelled {
		text = "\x00" + text
	}
	if l.faults != nil {
		l.faults.Next(user)
		text = l.faults.Image(l.reading.Image, unlabelled, l.faults.Text(text))
	}
	switch {
	case l.reading.Pairs:
		cut = l.pair(text)
	case l.labels > 0:
		cut = l.labelled(text)
	default:
		cut = l.cutSentence(text)
	}
	if unlabelled {
		l.sentenced[0] = l.noLabel
	}
	return l.sentenced, cut
}

// misread appends the sentence of a text at the word level after faults.
func (l *lexicon) misread(text string) (cut bool) {
	l.tokenizer.KeepCase = l.faults.KeepsCase(text)
	l.misreading = l.misreading[:0]
	for w := range l.tokenizer.Words(text) {
		l.misreading = append(l.misreading, string(w))
	}
	l.tokenizer.KeepCase = false
	words := l.faults.Words(l.misreading)
	kept := words[:min(len(words), l.reading.Sequence)]
	for _, w := range kept {
		l.sentenced = append(l.sentenced, uint32(l.words.id([]byte(w))))
	}
	return len(kept) < len(words)
}

func (l *lexicon) found() []faults.Count {
	if l.faults == nil {
		return nil
	}
	return l.faults.Found()
}

// labelled appends the numbers of a text's labels and then of its words to the lexicon's sentence.
func (l *lexicon) labelled(text string) (cut bool) {
	numbers, text, _ := strings.Cut(text, source.PairMark)
	for i := range len(numbers) {
		l.sentenced = append(l.sentenced, uint32(numbers[i]))
	}
	return l.cutSentence(text)
}

// pair appends the numbers of the first words of each text, at most a sequence, to the lexicon's
// sentence.
func (l *lexicon) pair(text string) (cut bool) {
	source, target, _ := strings.Cut(text, source.PairMark)
	sourceCut := l.cutSentence(source)
	l.sentenced = append(l.sentenced, l.separator)
	return l.cutSentence(target) || sourceCut
}

// number returns the number of a word, if the text has had it; the empty word stands for any word.
func (l *lexicon) number(word string) (number uint32, known bool) {
	switch {
	case word == "":
		return 0, true
	case l.reading.Level.Scheme().Symbols != nil:
		return uint32(word[0]), true
	}
	id, known := l.words.ids[l.alphabet.Word(word)]
	return uint32(id), known
}

func (l *lexicon) word(number int) string {
	if l.reading.Level.Scheme().Symbols != nil {
		return string([]byte{byte(number)})
	}
	return l.words.all[number]
}

// groupNumbering gives the groups of each user numbers from 0 in order of first appearance.
type groupNumbering struct {
	ids  map[userGroup]uint32
	next []uint32 // by user
}

type userGroup struct {
	user uint64
	name string
}

func newGroupNumbering() *groupNumbering { return &groupNumbering{ids: map[userGroup]uint32{}} }

func (g *groupNumbering) id(user uint64, name string) uint32 {
	key := userGroup{user, name}
	id, ok := g.ids[key]
	if !ok {
		g.next = resized(g.next, int(user)+1)
		id = g.next[user]
		g.ids[key] = id
		g.next[user]++
	}
	return id
}

// resized returns a slice of at least n elements; new elements are zero.
func resized[T any](s []T, n int) []T {
	if missing := n - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}
