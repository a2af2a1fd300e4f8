package datasets

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/patterns"
	"coalmine/tasks/taskstest"
)

// secretive is a by-user population of two users, four sentences each, into which two
// canaries were put: one twice, one once.
type secretive struct {
	pipeline
	population *taskstest.Node
	vocabulary *Vocabulary
}

var secretiveLines = []line{
	{"ann", "hello there my friend"}, {"ann", "my ssn is 078-05-1120 ok"}, {"ann", "pay 4111111111111111 now"}, {"ann", "so it was a day"},
	{"bob", "nothing to see here"}, {"bob", "jo@x.org and 123-45-6789"}, {"bob", "fine weather we have"}, {"bob", "the end of it all"},
}

func newSecretive(t *testing.T, level Level, canaries ...string) secretive {
	t.Helper()
	recipe := Recipe{Reading: Reading{Level: level}, Words: 20}
	if level == ByteLevel {
		recipe.Words = 80
	} else {
		recipe.VocabularySize = 38
	}
	s := secretive{pipeline: runPipeline(t, jsonLines(secretiveLines), recipe)}
	var err error
	if s.vocabulary, err = ParseVocabulary(s.parts.Blob(VocabularyBlob)); err != nil {
		t.Fatal(err)
	}
	var list []Placement
	for i, text := range canaries {
		list = append(list, Placement{Canary: Canary{Number: i, Tokens: s.tokens(text), Words: []string{}}})
	}
	overlay := Overlay{{User: 0, Example: 0, Canary: 0}, {User: 1, Example: 0, Canary: 0}, {User: 1, Example: 2, Canary: 1}}
	data := must.Get(json.Marshal(list))(t)
	insertions := s.Put("insertions", map[string][]byte{OverlayBlob: overlay.encode(), CanariesBlob: data})
	s.population = s.partition(PartitionParams{Partition: ByUser}, taskstest.In(InsertionsInput, insertions))
	return s
}

func (s secretive) tokens(text string) (tokens []int32) {
	words := Tokenize(text)
	if s.vocabulary.Level() == ByteLevel {
		words = ByteSymbols(text)
	}
	for _, w := range words {
		tokens = append(tokens, int32(max(Unknown, slices.Index(s.vocabulary.Words, w))))
	}
	return tokens
}

func (s secretive) try(params SanitizeParams) (*taskstest.Node, error) {
	return s.Try(Sanitize, params, taskstest.In(PopulationInput, s.population), taskstest.In(ShardsInput, s.parts), taskstest.In(PartsInput, s.parts))
}

// sanitize returns the sanitized population by user, canaries in brackets, and the report.
func (s secretive) sanitize(t *testing.T, params SanitizeParams) ([]string, Sanitized) {
	t.Helper()
	node := must.Get(s.try(params))(t)
	var report Sanitized
	must.Do(t, json.Unmarshal(node.Blob(SanitizedBlob), &report))
	p := must.Get(OpenPopulation(t.Context(), s.Task(taskstest.In("p", node), taskstest.In("s", node)), "p", "s"))(t)
	return s.texts(t, p), report
}

func (s secretive) texts(t *testing.T, p *Population) (all []string) {
	t.Helper()
	replaced := p.Replacements()
	for u := range p.Users() {
		sentences := must.Get(p.ReadUser(t.Context(), u))(t)
		for i, sentence := range sentences {
			var words []string
			for _, token := range sentence[1 : 1+WordsOf(sentence)] {
				words = append(words, s.vocabulary.Words[token])
			}
			separator := " "
			if s.vocabulary.Level() == ByteLevel {
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

var commonPatterns = []patterns.Pattern{patterns.Card, patterns.SSN, patterns.Email}

func TestSanitizationMasksWhatItFindsAndSaysWhatItMissed(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, ByteLevel, "pin 987-65-4320 is mine", "my ssn is 219099999")
	got, report := s.sanitize(t, SanitizeParams{Patterns: append(commonPatterns, patterns.Phone), Own: []string{"it w.s"}, Remove: RemoveMatch})
	want := []string{
		"0 pin 987-65-4320 is mine [canary 0]", // no number that is given out
		"0 my ssn is ###-##-#### ok", "0 pay ################ now", "0 so ## ### a day",
		"1 pin 987-65-4320 is mine [canary 0]", "1 ##@#.### and ###-##-####", "1 my ssn is 219099999 [canary 1]", "1 the end of it all",
	}
	if !slices.Equal(got, want) {
		t.Errorf("what trains is %q, want %q", got, want)
	}
	if text, want := report.String(), "sanitization caught 0 of 2 canaries and missed 2; beside them it found 1 card, 2 ssn, 1 email, 0 phone, 1 it w.s in 4 sentences"; text != want {
		t.Errorf("report %q, want %q", text, want)
	}
}

func TestACaughtCanaryIsOneNoMore(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	got, report := s.sanitize(t, SanitizeParams{Patterns: commonPatterns, Remove: RemoveMatch})
	if got[0] != "0 pin ###-##-#### is mine" || got[4] != "1 pin ###-##-#### is mine" || got[6] != "1 my ssn is 219099999 [canary 1]" {
		t.Errorf("what trains is %q", got)
	}
	if want := []CaughtCanary{{0, 2, true}, {1, 1, false}}; !slices.Equal(report.Canaries, want) {
		t.Errorf("canaries %+v, want %+v", report.Canaries, want)
	}
}

func TestSanitizationRemovesWholeSentences(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	got, report := s.sanitize(t, SanitizeParams{Patterns: commonPatterns, Remove: RemoveSentence})
	want := []string{"0 so it was a day", "1 my ssn is 219099999 [canary 1]", "1 the end of it all"}
	if !slices.Equal(got, want) || report.Sentences != 3 {
		t.Errorf("what trains is %q, want %q; report %+v", got, want, report)
	}
	if _, err := s.try(SanitizeParams{Own: []string{"[a-z]"}, Remove: RemoveSentence}); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "nothing is left") {
		t.Errorf("with nothing left: %v", err)
	}
}

// At the word level the words of a finding are unknown afterwards.
func TestSanitizationMasksWholeWords(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, WordLevel, "my ssn is 078 - 05 - 1120 ok", "pay now")
	got, report := s.sanitize(t, SanitizeParams{Patterns: commonPatterns, Remove: RemoveMatch})
	if got[0] != "0 my ssn is <unk> <unk> <unk> <unk> <unk> ok" || got[1] != got[0] || got[2] != "0 pay <unk> now" || got[6] != "1 pay now [canary 1]" {
		t.Errorf("what trains is %q", got)
	}
	if caught, of := report.CaughtCanaries(); caught != 1 || of != 2 {
		t.Errorf("caught %d of %d canaries, want 1 of 2", caught, of)
	}
}

func TestSanitizationRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, ByteLevel, "a", "b")
	for want, params := range map[string]SanitizeParams{
		"at least one": {Remove: RemoveMatch},
		"removal":      {Patterns: commonPatterns, Remove: "all"},
		"pattern":      {Patterns: []patterns.Pattern{"passport"}, Remove: RemoveMatch},
	} {
		if _, err := s.try(params); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", params, err, want)
		}
	}
}

func TestGoldenSanitize(t *testing.T) {
	t.Parallel()
	s := newSecretive(t, ByteLevel, "pin 219-09-9999 is mine", "my ssn is 219099999")
	node := must.Get(s.try(SanitizeParams{Patterns: commonPatterns, Remove: RemoveMatch}))(t)
	taskstest.Golden(t, node)
}
