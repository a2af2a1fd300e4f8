package randomsampling

import (
	"slices"
	"strings"
	"testing"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// pin is a space with fixed bytes before, between and after its random ones.
var pin = canaries.Space{Words: 9, Alphabet: canaries.Digits, Format: "no ##-#.!"}

func tokensOf(content string) []int32 {
	var tokens []int32
	for i := range len(content) {
		tokens = append(tokens, text.FirstWord+int32(content[i]))
	}
	return tokens
}

func TestReferencesComeFromTheSpaceOfTheCanaries(t *testing.T) {
	t.Parallel()
	choices := pin.Choices(text.Bytes)[3:]
	excluded := [][]int32{tokensOf("12-3.!"), tokensOf("00-0.!")}
	seen := map[string]bool{}
	drawn := drawReferences(1, 20_000, len(choices), excluded, pin.Sampler(choices, 3))
	for i := range drawn.Count() {
		row := drawn.row(i)
		if contains(excluded, row) {
			t.Fatalf("reference %d is a canary", i)
		}
		var content []byte
		for j, token := range row {
			if !slices.Contains(choices[j], token) {
				t.Fatalf("reference %d has token %d at %d", i, token, j)
			}
			content = append(content, byte(token-text.FirstWord))
		}
		seen[string(content)] = true
	}
	// One of the 998 is missed with probability 2e-6 at most.
	if len(seen) != 998 {
		t.Errorf("%d different references of the 998 that there are", len(seen))
	}
}

// Were more references drawn than there are sequences, their number would promise an
// exposure that no canary can have.
func TestAReferenceSetLargerThanItsSpaceIsRefused(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model := auditstest.Untrained(g, text.FirstWord+text.Bytes)
	given := auditstest.Canaries(t, g, []population.Placement{{Canary: population.Canary{Tokens: tokensOf("no 12-3.!")}}})
	rank := func(references int, space canaries.Space, prefix int) error {
		_, err := g.Try(Kind, Params{References: references, Space: space, Prefix: prefix, Count: 1},
			taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
		return err
	}
	if err := rank(999, pin, 3); err != nil {
		t.Errorf("999 references of the 999 that there are: %v", err)
	}
	if err := rank(1000, pin, 3); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "1000 references and 1 canaries, which differ after the prefix; expected at most the 1000 sequences") {
		t.Errorf("1000 references: %v", err)
	}
	if err := rank(256, canaries.Space{Words: 9}, 8); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "256 references and 1 canaries") {
		t.Errorf("256 references of 255 ordinary words beside the canary: %v", err)
	}
	if err := rank(10, pin, 9); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "a prefix of 9 leaves nothing") {
		t.Errorf("a prefix of all bytes: %v", err)
	}
	if err := rank(10, canaries.Space{Words: 9, Alphabet: "hex"}, 3); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), `alphabet "hex"`) {
		t.Errorf("an unknown alphabet: %v", err)
	}
}
