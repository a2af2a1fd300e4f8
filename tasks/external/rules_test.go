package external

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
