package score

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestThePageOfTheContractHasItsRulesWordForWord(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/contracts/score.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n## Rules\n\n" + contract.List() + "\n", fmt.Sprintf("`%q` and `%d`", contract.Identity().Contract, contract.Version)} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has not: %s", want)
		}
	}
}
