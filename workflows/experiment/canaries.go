package experiment

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/text"
)

// AllFormats returns Formats, or the block's own format if Formats is empty.
func (c *Canaries) AllFormats() []CanaryFormat {
	if len(c.Formats) > 0 {
		return c.Formats
	}
	return []CanaryFormat{c.CanaryFormat}
}

// Spaces returns the spaces from which canaries and references are drawn, one per format.
func (c *Canaries) Spaces(d *Data) []canaries.Space {
	var spaces []canaries.Space
	for _, f := range c.AllFormats() {
		spaces = append(spaces, f.space(d))
	}
	return spaces
}

// space returns the space of a format. At the word level, the tokenizer determines its words.
func (f *CanaryFormat) space(d *Data) canaries.Space {
	if d.Level == text.ByteLevel {
		s := canaries.Space{Alphabet: f.Alphabet, Format: f.Format, Symbols: strings.Join(f.Symbols, ""), SymbolBytes: f.symbolBytes()}
		bytes := func(text string) int { return len(text) + strings.Count(text, "#")*(max(1, s.SymbolBytes)-1) }
		s.Words = bytes(cmp.Or(f.Format, strings.Repeat("#", max(0, f.Words))))
		return paired(s, f.Target, bytes(f.Target))
	}
	words := d.wordsOf(f.Format)
	s := canaries.Space{Words: f.Words, Format: strings.Join(words, " "), Symbols: strings.Join(f.Symbols, " ")}
	if d.Level == text.SubwordLevel && s.Symbols == "" {
		s.Symbols = unlistedWords
	}
	if f.Format != "" {
		s.Words = len(words)
	}
	target := d.wordsOf(f.Target)
	return paired(s, strings.Join(target, " "), len(target))
}

// wordsOf splits a format into words: at the subword level at spaces, otherwise with the tokenizer.
func (d *Data) wordsOf(format string) []string {
	if d.Level == text.SubwordLevel {
		return strings.Fields(format)
	}
	return d.ReadingRules.Tokenize(format)
}

// symbolBytes returns the length of each listed symbol, if the list has several symbols longer than a byte.
// It returns 0 for one text, whose characters are the symbols.
func (f *CanaryFormat) symbolBytes() int {
	if len(f.Symbols) < 2 || len(f.Symbols[0]) < 2 {
		return 0
	}
	return len(f.Symbols[0])
}

// Configurations returns the configurations of insertions: first those of Insertions, then the pairs of
// probabilities.
func (c *Canaries) Configurations() []canaries.Configuration {
	var all []canaries.Configuration
	for _, times := range c.Insertions {
		all = append(all, canaries.Configuration{Times: times})
	}
	for _, user := range c.UserProbability {
		for _, example := range c.ExampleProbability {
			all = append(all, canaries.Configuration{UserProbability: user.Rat().RatString(), ExampleProbability: example.Rat().RatString()})
		}
	}
	return all
}

// insertedOfAFormat returns the number of inserted canaries of each format, without held-back ones.
func (c *Canaries) insertedOfAFormat() int {
	return (len(c.UserProbability)*len(c.ExampleProbability) + len(c.Insertions)) * c.PerConfiguration
}

// groups returns one group per format. It numbers the canaries of all formats consecutively.
func (c *Canaries) groups(d *Data) []audits.Group {
	each := c.insertedOfAFormat() + c.HeldBack
	var groups []audits.Group
	for i, s := range c.Spaces(d) {
		groups = append(groups, audits.Group{Space: s, Span: audits.Span{First: i * each, Count: each}})
	}
	return groups
}

// NamedWords returns the distinct words of the canaries' formats that the vocabulary must contain, in byte order.
func (e *Experiment) NamedWords() []string {
	if e.Canaries == nil {
		return nil
	}
	var named []string
	for _, s := range e.Canaries.Spaces(&e.Data) {
		named = append(named, s.Named()...)
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// Phrases returns one phrase for each format of Canaries.AllFormats. A phrase without fixed tokens cannot
// be searched for; if all phrases lack them, Phrases returns nil.
func (e *Experiment) Phrases() []datasets.Phrase {
	if e.Canaries == nil || e.Data.Outside().Size > 0 {
		return nil
	}
	var phrases []datasets.Phrase
	some := false
	for _, s := range e.Canaries.Spaces(&e.Data) {
		p := s.Phrase()
		phrases, some = append(phrases, p), some || len(p.Fixed) > 0
	}
	if !some {
		return nil
	}
	return phrases
}

const designPath = "canaries.design"

// takeDesign removes canaries.design, which audits use for their own canaries, and the block if no other
// field is given.
func (d *decoder) takeDesign(e *Experiment) (design canaries.Design) {
	const block = "canaries"
	if e.Canaries == nil {
		return ""
	}
	design, e.Canaries.Design = e.Canaries.Design, ""
	for path := range d.present {
		if path != block && path != designPath && within(path, block) {
			return design
		}
	}
	e.Canaries = nil
	if design == "" && d.sound(block) {
		d.fail(d.present[block].at, block, "has no fields; expected user_probability and example_probability, insertions, or a design for the canaries of audit.one_run and audit.many_runs")
	}
	return design
}

// checkDrawn reports a canaries.design that no audit uses.
func (d *decoder) checkDrawn(e *Experiment, design canaries.Design) {
	if design == "" {
		return
	}
	var overrides []string
	for _, m := range e.Audit.Requested() {
		path := "audit." + m.Name
		_, v, ok := fieldAt(reflect.ValueOf(e), path+".design")
		if ok && v.Interface() == any(design) {
			return
		}
		for _, field := range []string{path + ".design", path + ".canaries_of"} {
			if n := d.present[field]; ok && n != nil {
				overrides = append(overrides, field+": "+n.text)
				break
			}
		}
	}
	n := d.present[designPath]
	if len(overrides) == 0 {
		d.fail(n.at, designPath, "is %s, but no audit draws canaries by it; add audit.one_run or audit.many_runs, or remove it", design)
		return
	}
	d.fail(n.at, designPath, "is %s, overridden by %s; remove one of them", design, strings.Join(overrides, " and "))
}

// designedBy returns canaries.design for the design of an audit that takes it from there, and path otherwise.
func (c *checker) designedBy(path string) string {
	if strings.HasSuffix(path, ".design") && c.present[path] == nil && c.present[designPath] != nil {
		return designPath
	}
	return path
}

// symbolsAtByteLevel is the default of canaries.words at the byte level. With 26 letters, the smallest
// alphabet after the digits, 26^9 references share a prefix of one symbol.
const symbolsAtByteLevel = 10

// completeCanaries sets the fields that follow from others and clears those that formats or insertions replace.
func (d *decoder) completeCanaries(c *Canaries, data *Data) {
	if data.ReadingRules == 0 && data.Level.IsZero() && c.readOtherwise() {
		data.ReadingRules = text.CurrentRules
	}
	if len(c.Insertions) > 0 {
		d.replace("canaries.insertions", "canaries.user_probability", "canaries.example_probability")
		c.UserProbability, c.ExampleProbability = nil, nil
	}
	if len(c.Formats) == 0 {
		d.completeFormat(&c.CanaryFormat, "canaries", data)
		return
	}
	d.replace("canaries.formats", "canaries.words", "canaries.alphabet", "canaries.format", "canaries.symbols")
	c.CanaryFormat = CanaryFormat{}
	for i := range c.Formats {
		d.completeFormat(&c.Formats[i], itemPath("canaries.formats", i), data)
	}
}

// readOtherwise reports whether the current rules of reading split a format, target or symbol differently
// from the first rules.
func (c *Canaries) readOtherwise() bool {
	return slices.ContainsFunc(c.AllFormats(), func(f CanaryFormat) bool {
		return slices.ContainsFunc(append([]string{f.Format, f.Target}, f.Symbols...), func(content string) bool {
			return !slices.Equal(text.FirstRules.Tokenize(content), text.CurrentRules.Tokenize(content))
		})
	})
}

// replace reports fields that are given together with the field that replaces them.
func (d *decoder) replace(by string, paths ...string) {
	for _, path := range paths {
		if d.givenTogether(path, by) {
			d.fail(d.present[path].at, path, "given together with %s, which replaces it; remove one of them (in a grid, null removes the other)", by)
		}
	}
}

// completeFormat sets the number of random symbols and, for listed symbols, the alphabet.
func (d *decoder) completeFormat(f *CanaryFormat, path string, data *Data) {
	if data.Level == text.ByteLevel && len(f.Symbols) > 0 && d.present[join(path, "alphabet")] == nil {
		f.Alphabet = canaries.Listed
	}
	if d.present[join(path, "words")] != nil {
		return
	}
	if data.Level == text.ByteLevel {
		f.Words = symbolsAtByteLevel
	}
	if n := f.space(data); n.Blanks() > 0 {
		f.Words = n.Blanks()
	}
}

func (c *checker) canaries() {
	if c.Canaries == nil || c.Data.Level.Scheme().Images { // see textAlone
		return
	}
	for i, f := range c.Canaries.AllFormats() {
		path := "canaries"
		if len(c.Canaries.Formats) > 0 {
			path = itemPath("canaries.formats", i)
		}
		if c.sequence(&f, path) && c.symbols(&f, path) {
			c.room(&f, path)
		}
	}
	spaces := c.Canaries.Spaces(&c.Data)
	for i, s := range spaces {
		if slices.Contains(spaces[:i], s) {
			c.fail([]string{itemPath("canaries.formats", i)}, "repeats the format %q; for more canaries of one format raise canaries.per_configuration", s)
		}
	}
}

// configurations checks the fields that determine how often canaries are inserted.
func (c *checker) configurations() {
	if c.Canaries == nil || c.Data.Level.Scheme().Images { // see textAlone
		return
	}
	const pu, pe = "canaries.user_probability", "canaries.example_probability"
	repeated(c, pu, c.Canaries.UserProbability)
	repeated(c, pe, c.Canaries.ExampleProbability)
	repeated(c, "canaries.insertions", c.Canaries.Insertions)
	if len(c.Canaries.Insertions) > 0 {
		return
	}
	c.required(pu, c.Canaries.UserProbability)
	c.required(pe, c.Canaries.ExampleProbability)
}

// required reports a missing list of probabilities.
func (c *checker) required(path string, given []numbers.Probability) {
	if f, _ := lookup(path); len(given) == 0 {
		c.fail([]string{path}, "missing; expected %s, or canaries.insertions instead of both probabilities", f.expected())
	}
}

// repeated reports values that occur twice in a list.
func repeated[T comparable](c *checker, path string, values []T) {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			c.fail([]string{path}, "has %v twice; for more canaries of one configuration raise canaries.per_configuration", v)
		}
	}
}

// sequence checks that canaries fit into data.sequence and that words, format and target agree. It reports
// whether they do.
func (c *checker) sequence(f *CanaryFormat, path string) bool {
	longest, words, format := c.Data.Reading().Sequence, join(path, "words"), join(path, "format")
	if f.Format == "" {
		if f.Words > longest {
			c.fail([]string{words, "data.sequence", "data.level"}, "is %d; expected at most data.sequence, %d", f.Words, longest)
		}
		return f.Words <= longest
	}
	space := f.space(&c.Data)
	if err := space.CheckTarget(); err != nil {
		c.fail([]string{join(path, "target"), format}, "does not match canaries.format: %v", err)
		return false
	}
	switch blanks := space.Blanks(); {
	case blanks == 0:
		c.fail([]string{format}, `is %s, which has no random symbol; expected a # for each, in quotes, as in "my number is #####" (without quotes, YAML reads " #" as the beginning of a comment)`, quote(f.Format))
	case space.Longest() > longest:
		text := format
		if f.Target != "" && space.SourceWords()-1 <= longest {
			text = join(path, "target")
		}
		c.fail([]string{text, "data.sequence"}, "has %d %s; expected at most data.sequence, %d", space.Longest(), c.Data.Level.Scheme().Unit, longest)
	case blanks != f.Words:
		c.fail([]string{words, format}, "is %d, but canaries.format has %d random symbols; remove canaries.words", f.Words, blanks)
	default:
		return true
	}
	return false
}

// symbols checks the listed symbols and reports whether they are valid.
func (c *checker) symbols(f *CanaryFormat, path string) bool {
	if c.Data.Level != text.ByteLevel {
		for _, word := range f.Symbols {
			if read := c.Data.wordsOf(word); len(read) != 1 || read[0] != word {
				c.fail([]string{join(path, "symbols")}, "has %s, which is read as the words %q; expected single words, such as %q", quote(word), read, "blue")
				return false
			}
		}
	}
	for _, word := range f.Symbols {
		if first := f.Symbols[0]; c.Data.Level == text.ByteLevel && len(word) != len(first) {
			c.fail([]string{join(path, "symbols")}, "has %s and %s; expected words of one length, so that all canaries are equally long, or one text of single characters", quote(first), quote(word))
			return false
		}
	}
	if err := f.space(&c.Data).CheckSymbols(); err != nil {
		c.fail([]string{join(path, "symbols"), join(path, "alphabet")}, "cannot be drawn from: %v", err)
		return false
	}
	return true
}

// room checks that there are enough sequences to draw canaries from.
func (c *checker) room(f *CanaryFormat, path string) {
	space, drawn := f.space(&c.Data), c.Canaries.groups(&c.Data)[0].Count
	if space.Free() {
		if size := c.Data.Vocabulary.Size; drawn > size {
			c.fail([]string{path, "data.vocabulary.size"},
				"request %d canaries with distinct first words from a vocabulary of %d words; use fewer canaries or a larger vocabulary", drawn, size)
		}
		return
	}
	over := fmt.Sprintf("over the alphabet %s", f.Alphabet)
	if f.Alphabet == "" {
		over = "of words"
	}
	if room := space.Sequences(c.Data.OrdinaryTokens(), 0); float64(2*drawn) > room {
		c.fail([]string{path, join(path, "words"), join(path, "format"), join(path, "alphabet")},
			"request %d different canaries of %s; expected at most half of the %.0f sequences %s: use fewer or longer canaries, or a larger alphabet", drawn, readable.Count(f.Words, "symbol"), room, over)
	}
}

// checkCanaries compares the canaries with the data.
func (c *dataChecker) checkCanaries() {
	e := &c.Experiment
	if e.Canaries == nil {
		return
	}
	if missing := c.facts.MissingWords; len(missing) > 0 {
		path := "canaries.format"
		if len(e.Canaries.Formats) > 0 {
			path = "canaries.formats"
		}
		if e.Data.Level == text.SubwordLevel {
			c.fail(path, "needs words that are single tokens of %s; these are not: %s", e.Data.Tokenizer, strings.Join(missing, ", "))
			return
		}
		c.fail(path, "needs words that the vocabulary of %d lacks: %s; use words that are frequent in the training part of %s, or a larger data.vocabulary.size", e.Data.Vocabulary.Size, strings.Join(missing, ", "), e.Data.Source)
	}
	if wanted := e.Canaries.copies(); wanted > c.facts.Examples && c.facts.Examples > 0 {
		c.fail("canaries.insertions", "make %s in total; expected at most %d, the training examples of %s: use smaller numbers, or fewer canaries", readable.Count(wanted, "copy"), c.facts.Examples, e.Data.Source)
	}
}

// copies returns the total number of inserted copies if the numbers of insertions are given.
func (c *Canaries) copies() int {
	sum := 0
	for _, times := range c.Insertions {
		sum += times
	}
	return sum * c.PerConfiguration * len(c.AllFormats())
}

// Predicted returns the approximate number of the tokens that a model predicts: all, or half for pairs,
// whose targets alone are predicted.
func (d *Data) Predicted(tokens float64) float64 {
	if d.Pairs {
		return tokens / 2
	}
	return tokens
}

// pairs rejects features that do not support pairs and, for other data, features of pairs.
func (c *checker) pairs() {
	if c.Canaries != nil {
		c.pairedFormats()
	}
	if !c.Data.Pairs {
		return
	}
	if c.Data.Level.Scheme().Images {
		c.fail([]string{"data.pairs", "data.level"}, "are pairs of texts, but data.level is %s; expected %s, %s or %s", c.Data.Level, text.WordLevel, text.ByteLevel, text.SubwordLevel)
	}
	c.refuse([]string{"data.faults", "data.select"}, []string{"data.pairs"}, "does not support pairs (data.pairs: true); set it to null for this cell")
	for _, m := range c.Audit.Requested() {
		c.measuresPairs(m)
	}
}

// pairedFormats checks that canaries are pairs if and only if the data are.
func (c *checker) pairedFormats() {
	for i, f := range c.Canaries.AllFormats() {
		path := "canaries"
		if len(c.Canaries.Formats) > 0 {
			path = itemPath("canaries.formats", i)
		}
		switch {
		case !c.Data.Pairs && f.Target != "":
			c.fail([]string{join(path, "target"), "data.pairs"}, "is the second text of a pair, but the data are not pairs; remove it, or set data.pairs: true")
		case c.Data.Pairs && (f.Format == "" || f.Target == ""):
			c.fail([]string{path, join(path, "format"), join(path, "target"), "data.pairs"}, `are not pairs, but the data are (data.pairs: true); give format and target, such as "my number is ###" and "meine nummer ist ###"`)
		}
	}
}

// measuresPairs reports an audit that supports no pairs, or no canaries in pairs.
func (c *checker) measuresPairs(m Method) {
	path := "audit." + m.Name
	switch {
	case m.Pairs == audits.NoPairs:
		c.fail([]string{path, "data.pairs"}, "does not support models of pairs (data.pairs: true); set it to null for this cell")
	case m.Pairs == audits.TargetSecrets && c.Canaries != nil && slices.ContainsFunc(c.Canaries.Spaces(&c.Data), canaries.Space.Echoes):
		c.fail([]string{path, "canaries.format", "canaries.formats"}, "searches the continuations of one source text, but the canaries' secret is in both texts; use a format without #, so that only the target has the secret, or set %s to null", path)
	}
}

// paired adds the second text of a pair, if any, to a space.
func paired(s canaries.Space, target string, words int) canaries.Space {
	if target != "" {
		s.Target = target
		s.Words += 1 + words
	}
	return s
}
