package filters_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// secretive is a by-user population of two users, four sentences each, into which two
// canaries were put: one twice, one once.
type secretive struct {
	graph
	population *taskstest.Node
	vocabulary *text.Vocabulary
}

var secretiveLines = []map[string]string{
	{"user": "ann", "text": "hello there my friend"}, {"user": "ann", "text": "my ssn is 078-05-1120 ok"}, {"user": "ann", "text": "pay 4111111111111111 now"}, {"user": "ann", "text": "so it was a day"},
	{"user": "bob", "text": "nothing to see here"}, {"user": "bob", "text": "jo@x.org and 123-45-6789"}, {"user": "bob", "text": "fine weather we have"}, {"user": "bob", "text": "the end of it all"},
}

func newSecretive(t *testing.T, level text.Level, canaries ...string) secretive {
	t.Helper()
	recipe := datasets.Recipe{Reading: source.Reading{Level: level}, Words: 20}
	if level == text.ByteLevel {
		recipe.Words = 80
	} else {
		recipe.VocabularySize = 38
	}
	s := secretive{graph: run(t, secretiveLines, recipe)}
	var err error
	if s.vocabulary, err = text.ParseVocabulary(s.parts.Blob(text.VocabularyBlob)); err != nil {
		t.Fatal(err)
	}
	var list []population.Placement
	for i, text := range canaries {
		list = append(list, population.Placement{Canary: population.Canary{Number: i, Tokens: s.tokens(text), Words: []string{}}})
	}
	// Of user 0 the example 0, of user 1 the examples 0 and 2.
	s.population = s.populate(t, list, []byte{3, 0, 0, 0, 1, 0, 0, 0, 1, 1})
	return s
}

func (s secretive) tokens(content string) (tokens []int32) {
	words := text.Tokenize(content)
	if s.vocabulary.Level() == text.ByteLevel {
		words = text.ByteSymbols(content)
	}
	for _, w := range words {
		tokens = append(tokens, int32(max(text.Unknown, slices.Index(s.vocabulary.Words, w))))
	}
	return tokens
}

func (s secretive) try(params filters.SanitizeParams) (*taskstest.Node, error) {
	return s.Try(filters.Sanitize, params, taskstest.In(population.Input, s.population), taskstest.In(population.ShardsInput, s.parts), taskstest.In(population.PartsInput, s.parts))
}

// sanitize returns the sanitized population by user, canaries in brackets, and the report.
func (s secretive) sanitize(t *testing.T, params filters.SanitizeParams) ([]string, filters.Sanitized) {
	t.Helper()
	node := must.Get(s.try(params))(t)
	var report filters.Sanitized
	must.Do(t, json.Unmarshal(node.Blob(filters.SanitizedBlob), &report))
	p := must.Get(population.Open(t.Context(), s.Task(taskstest.In("p", node), taskstest.In("s", node)), "p", "s"))(t)
	return s.texts(t, p), report
}

func (s secretive) texts(t *testing.T, p *population.Population) (all []string) {
	t.Helper()
	replaced := p.Replacements()
	for u := range p.Users() {
		sentences := must.Get(p.ReadUser(t.Context(), u))(t)
		for i, sentence := range sentences {
			var words []string
			for _, token := range sentence[1 : 1+text.WordsOf(sentence)] {
				words = append(words, s.vocabulary.Words[token])
			}
			separator := " "
			if s.vocabulary.Level() == text.ByteLevel {
				separator = ""
			}
			text := fmt.Sprintf("%d %s", u, strings.Join(words, separator))
			if len(replaced) > 0 && replaced[0].User == u && replaced[0].Example == i {
				text, replaced = text+" [canary "+fmt.Sprint(replaced[0].Canary)+"]", replaced[1:]
			}
			all = append(all, text)
		}
	}
	return all
}

var commonPatterns = []filters.Pattern{filters.Card, filters.SSN, filters.Email}

func TestSanitizationMasksMatchesAndReportsMisses(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "pin 987-65-4320 is mine", "my ssn is 219099999")
	got, report := s.sanitize(t, filters.SanitizeParams{Patterns: append(commonPatterns, filters.Phone), Own: []string{"it w.s"}, Remove: filters.RemoveMatch})
	want := []string{
		"0 pin 987-65-4320 is mine [canary 0]", // no number that is given out
		"0 my ssn is ###-##-#### ok", "0 pay ################ now", "0 so ## ### a day",
		"1 pin 987-65-4320 is mine [canary 0]", "1 ##@#.### and ###-##-####", "1 my ssn is 219099999 [canary 1]", "1 the end of it all",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the training texts are %q, want %q", got, want)
	}
	if text, want := report.String(), "sanitization caught 0 of 2 canaries and missed 2; beside them it found 1 card, 2 ssn, 1 email, 0 phone, 1 it w.s in 4 sentences"; text != want {
		t.Errorf("report %q, want %q", text, want)
	}
}

func TestMaskedCanaryIsNoLongerCanary(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	got, report := s.sanitize(t, filters.SanitizeParams{Patterns: commonPatterns, Remove: filters.RemoveMatch})
	if got[0] != "0 pin ###-##-#### is mine" || got[4] != "1 pin ###-##-#### is mine" || got[6] != "1 my ssn is 219099999 [canary 1]" {
		t.Errorf("the training texts are %q", got)
	}
	if want := []filters.CaughtCanary{{0, 2, true}, {1, 1, false}}; !slices.Equal(report.Canaries, want) {
		t.Errorf("canaries %+v, want %+v", report.Canaries, want)
	}
}

func TestSanitizationRemovesWholeSentences(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	got, report := s.sanitize(t, filters.SanitizeParams{Patterns: commonPatterns, Remove: filters.RemoveSentence})
	want := []string{"0 so it was a day", "1 my ssn is 219099999 [canary 1]", "1 the end of it all"}
	if !slices.Equal(got, want) || report.Sentences != 3 {
		t.Errorf("the training texts are %q, want %q; report %+v", got, want, report)
	}
	if _, err := s.try(filters.SanitizeParams{Own: []string{"[a-z]"}, Remove: filters.RemoveSentence}); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "nothing is left") {
		t.Errorf("with nothing left: %v", err)
	}
}

// At the word level the words of a finding are unknown afterwards.
func TestSanitizationMasksWholeWords(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.WordLevel, "my ssn is 078 - 05 - 1120 ok", "pay now")
	got, report := s.sanitize(t, filters.SanitizeParams{Patterns: commonPatterns, Remove: filters.RemoveMatch})
	if got[0] != "0 my ssn is <unk> <unk> <unk> <unk> <unk> ok" || got[1] != got[0] || got[2] != "0 pay <unk> now" || got[6] != "1 pay now [canary 1]" {
		t.Errorf("the training texts are %q", got)
	}
	if caught, of := report.CaughtCanaries(); caught != 1 || of != 2 {
		t.Errorf("caught %d of %d canaries, want 1 of 2", caught, of)
	}
}

func TestSanitizationRejectsBadParameters(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "a", "b")
	for want, params := range map[string]filters.SanitizeParams{
		"at least one": {Remove: filters.RemoveMatch},
		"removal":      {Patterns: commonPatterns, Remove: "all"},
		"pattern":      {Patterns: []filters.Pattern{"passport"}, Remove: filters.RemoveMatch},
	} {
		if _, err := s.try(params); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", params, err, want)
		}
	}
}

func TestGoldenSanitize(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, text.ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	node := must.Get(s.try(filters.SanitizeParams{Patterns: commonPatterns, Remove: filters.RemoveMatch}))(t)
	taskstest.Golden(t, node)
}

// Only tokens of the texts are masked; the separator stays.
func TestPairsAreSanitizedTextByText(t *testing.T) {
	t.Parallel()
	lines := []map[string]string{{"user": "ann", "text": "call 12", "target": "34 ruf an"}, {"user": "ann", "text": "hello", "target": "hallo"}}
	p := run(t, lines, datasets.Recipe{Reading: source.Reading{Level: text.ByteLevel, Pairs: true}, Words: 1})
	pop := p.populate(t, []population.Placement{}, []byte{0})
	for own, want := range map[string]string{
		`[0-9]{2}`:      "call ##\n## ruf an|hello\nhallo",
		`[0-9]{3}`:      "call 12\n34 ruf an|hello\nhallo", // no number goes on in the target
		`2\s3`:          "call 1#\n#4 ruf an|hello\nhallo",
		`h.*`:           "call 12\n34 ruf an|#####\n#####",
		`[a-z]+\n[a-z]`: "call 12\n34 ruf an|#####\n#allo",
	} {
		clean := p.Run(filters.Sanitize, filters.SanitizeParams{Own: []string{own}, Remove: filters.RemoveMatch},
			taskstest.In(population.Input, pop), taskstest.In(population.ShardsInput, p.parts), taskstest.In(population.PartsInput, p.parts))
		task := p.Task(taskstest.In("population", clean), taskstest.In("shards", clean))
		opened := must.Get(population.Open(t.Context(), task, "population", "shards"))(t)
		var got []string
		for u := range opened.Users() {
			for _, sentence := range must.Get(opened.ReadUser(t.Context(), u))(t) {
				var content []byte
				for _, token := range sentence[1 : text.WordsOf(sentence)+1] {
					if token == text.Separator {
						token = text.FirstWord + '\n'
					}
					content = append(content, byte(token-text.FirstWord))
				}
				got = append(got, string(content))
			}
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: got %q, want %q", own, strings.Join(got, "|"), want)
		}
	}
}

// graph is that of a population without filters.
type graph struct {
	*taskstest.Graph
	parts, balanced *taskstest.Node
}

// run encodes and balances the lines of a source.
func run(t *testing.T, lines []map[string]string, r datasets.Recipe) graph {
	t.Helper()
	g, data := taskstest.NewGraph(t), []byte{}
	for _, line := range lines {
		data = append(append(data, must.Get(json.Marshal(line))(t)...), '\n')
	}
	corpus := g.Run(datasets.Import, r.Import([]storage.Digest{g.Import(data)}, source.Limits{}))
	parts := g.Run(datasets.Encode, r.Encode(), taskstest.In(datasets.CorpusInput, corpus))
	return graph{g, parts, g.Run(population.Balance, r.Balance(), taskstest.In(population.PartsInput, parts))}
}

// populate returns the population by user, with canaries at the places of an overlay.
func (s graph) populate(t *testing.T, canaries []population.Placement, overlay []byte) *taskstest.Node {
	t.Helper()
	data := must.Get(json.Marshal(canaries))(t)
	insertions := s.Put("insertions", map[string][]byte{population.OverlayBlob: append([]byte("coalmine overlay 1\n"), overlay...), population.CanariesBlob: data})
	return s.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.BalancedInput, s.balanced), taskstest.In(population.PartsInput, s.parts), taskstest.In(population.InsertionsInput, insertions))
}
