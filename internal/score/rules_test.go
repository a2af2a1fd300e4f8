package score

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func TestThePageOfContractHasItsRules(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../docs/contracts/score.md"))(t)
	for _, want := range []string{"\n## Rules\n\n" + contract.List() + "\n", fmt.Sprintf("`%q` and `%d`", contract.Identity().Contract, contract.Version)} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has not: %s", want)
		}
	}
}
