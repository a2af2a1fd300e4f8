package datasets

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// The phrases of random texts are those that regular expressions find.
func TestPhrasesAreCountedAsRegularExpressionsFindThem(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var texts []string
		for range 200 {
			words := make([]string, 1+rng.IntN(12))
			for i := range words {
				words[i] = string(rune('a' + rng.IntN(6)))
			}
			texts = append(texts, strings.Join(words, " "))
		}
		checkPhrase(t, texts, text.WordLevel, Phrase{Fixed: []string{"a", "", "b"}, Random: []string{"c", "d", "e"}}, "(?:^| )a ([cde]) b(?: |$)")
		checkPhrase(t, texts, text.WordLevel, Phrase{Fixed: []string{"a", "", ""}}, "(?:^| )a (. .)(?: |$)")
		checkPhrase(t, texts, text.WordLevel, Phrase{Fixed: []string{"a", "", "neverwritten"}}, "neverwritten")
		checkPhrase(t, texts, text.WordLevel, Phrase{}, "(nothing)")
		checkPhrase(t, texts, text.ByteLevel, Phrase{Fixed: []string{"a", " ", "", " ", ""}, Random: []string{"b", "f"}}, "a ([bf] [bf])")
	}
}

// Different secrets are counted in all parts of the source, up to where texts are cut.
func TestSecretsOfTheSourceAreCounted(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat(`{"user": "u", "text": "078-05-1120 and ab"}`+"\n", 3) + `{"user": "v", "text": "078-05-1121, ab, ac"}` + "\n" +
		`{"user": "v", "text": "` + strings.Repeat(" ", 40) + `078-05-1122"}` + "\n"
	recipe := func(w filters.Wanted, level text.Level) Recipe {
		r := Recipe{Reading: source.Reading{Level: level, Sequence: 30}, Words: 10, TestFraction: 0.4, Secrets: w}
		if level == text.WordLevel {
			r.VocabularySize = 3
		}
		return r
	}
	ssn, both := filters.Wanted{Named: []filters.Pattern{filters.SSN}}, filters.Wanted{Named: []filters.Pattern{filters.SSN}, Own: []string{"a[bc]"}}
	facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", []byte(lines))}, source.Limits{},
		[]Recipe{recipe(ssn, text.ByteLevel), recipe(both, text.ByteLevel), recipe(filters.Wanted{}, text.ByteLevel), recipe(ssn, text.WordLevel)}))(t)
	for i, want := range []int{2, 4, -1, -1} {
		if got := facts[i].Secrets; (got == nil) != (want < 0) || got != nil && *got != want {
			t.Errorf("recipe %d: %v secrets, want %d", i, got, want)
		}
	}
}

// checkPhrase compares a survey with an expression, looked for from every place on.
func checkPhrase(t *testing.T, texts []string, level text.Level, phrase Phrase, expression string) {
	t.Helper()
	var lines strings.Builder
	found, pattern := map[string]bool{}, regexp.MustCompile(expression)
	for _, text := range texts {
		fmt.Fprintf(&lines, "{\"user\": \"u\", \"text\": %q}\n", text)
		for from := range text {
			if match := pattern.FindStringSubmatch(text[from:]); match != nil {
				found[match[len(match)-1]] = true
			}
		}
	}
	recipe := Recipe{Reading: source.Reading{Level: level}, Words: 10, Phrases: []Phrase{phrase}}
	if level == text.WordLevel {
		recipe.VocabularySize = 3
	}
	facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", []byte(lines.String()))}, source.Limits{}, []Recipe{recipe, recipe}))(t)
	for _, f := range facts {
		if len(f.Phrases) != 1 || f.Phrases[0] != len(found) {
			t.Errorf("%v: %v, want %d", phrase, f.Phrases, len(found))
		}
	}
}
