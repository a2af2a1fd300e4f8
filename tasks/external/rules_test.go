package external

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"coalmine/internal/contracts"
	"coalmine/internal/must"
)

func TestThePageOfTheContractHasItsRulesWordForWord(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../docs/contracts/train.md"))(t)
	for _, want := range []string{"\n## Rules\n\n" + contract.List() + "\n", fmt.Sprintf("# Train: a contract, version %d\n", contract.Version)} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has not: %s", want)
		}
	}
}

// A program may rely on the length at which texts are cut, and one that is measured by longer texts fails
// or is called too slow.
func TestSampleTextsKeepToLengthOfData(t *testing.T) {
	t.Parallel()
	words := Sample{Words: []string{"a", "bb", "ccc"}, Length: 95, MaxWords: 150}
	bytes := Sample{Words: []string{"a", "\\x00"}, Length: 95, MaxWords: 150, Symbols: true}
	longest := 0
	for i := range 20 {
		longest = max(longest, len(strings.Fields(words.text(i))), len(bytes.text(i)))
	}
	if longest != 150 {
		t.Errorf("the longest text has %d words or bytes, want 150", longest)
	}
}

// A training's report on its canaries has the requested form, or one message names the fault.
func TestCosinesAreCheckedAgainstRequest(t *testing.T) {
	t.Parallel()
	asked := OneShot{Canaries: 2, Unseen: 3, Final: true}
	for told, want := range map[string]string{
		`{"dimension": 1000, "final": [0.1, 1], "largest": [0.1, -1], "unseen": [0, 0, 1.00001]}`: "",
		`{"dimension": 999, "final": [0.1, 1], "largest": [0.1, 1], "unseen": [0, 0, 0]}`:         "has the dimension 999; expected at least 1000 for 2 canaries",
		`{"dimension": 1000, "final": [0.1], "largest": [0.1, 1], "unseen": [0, 0, 0]}`:           "has 1 cosines in final; expected 2",
		`{"dimension": 1000, "final": [0.1, 1], "unseen": [0, 0, 0]}`:                             "has 0 cosines in largest; expected 2",
		`{"dimension": 1000, "final": [0.1, 1], "largest": [0.1, 1], "unseen": [0, 0]}`:           "has 2 cosines in unseen; expected 3",
		`{"dimension": 1000, "final": [0.1, 1], "largest": [0.1, -3], "unseen": [0, 0, 0]}`:       "has -3 as number 2 of largest; expected a cosine, from -1 to 1",
		`{"dimension": 1000, "final": [0.1, NaN]}`:                                                "is no JSON object of numbers",
		`[]`: "is no JSON object of numbers",
	} {
		_, err := asked.parse([]byte(told))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", told, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || contracts.RuleOf(err) != TellsOfCanaries):
			t.Errorf("%s: got %v, want %q", told, err, want)
		}
	}
	if c, err := (&OneShot{Canaries: 200, Final: true}).parse([]byte(`{"dimension": 1999}`)); err == nil {
		t.Errorf("got %v, want ten dimensions for a canary", c)
	}
}
