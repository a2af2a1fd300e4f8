package canaries

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/text"
)

// At the subword level words are tokens with a space before.
func TestCanariesOfSubwordsAreWordsOfOneTokenEach(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"Ġ", "▁"} {
		v := text.NewVocabulary(append(text.Specials(), "blue", mark, mark+"my", mark+"pin", mark+"red", mark+"blue", mark+"green"))
		if v.Level() != text.SubwordLevel {
			t.Fatalf("%s: level %s", mark, v.Level())
		}
		p := DrawParams{Seed: 1, Configurations: grid[:1], PerConfiguration: 4, Space: Space{Words: 5, Format: "my pin # # #", Symbols: "blue green red"}}
		for _, c := range drawn(t, &p, v) {
			content := v.Text(c.Tokens)
			if !slices.Equal(c.Words[:2], []string{mark + "my", mark + "pin"}) || strings.Count(content, " ") < 4 {
				t.Errorf("canary %q is %q", content, c.Words)
			}
			for _, token := range c.Tokens[2:] {
				if token < text.FirstWord+4 {
					t.Errorf("canary %q has a random token %q that is no word", content, v.Words[token])
				}
			}
		}
		p.Space.Symbols = "blue yellow"
		_, err := drawAll(&p, v)
		must.Say(t, err, "yellow")
	}
}
