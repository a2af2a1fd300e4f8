package datasets

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
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
