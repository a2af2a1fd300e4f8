package external

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestThePageOfTheContractHasItsRulesWordForWord(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/contracts/train.md")
	if err != nil {
		t.Fatal(err)
	}
	for rule := InItsDirectory; rule <= FollowsTheSeed; rule++ {
		if line := fmt.Sprintf("\n%d. %s\n", rule, rule); rule.String() == "" || !strings.Contains(string(page), line) {
			t.Errorf("rule %d is not on the page: %q", rule, line)
		}
	}
	if len(rules) != int(FollowsTheSeed) || !strings.Contains(string(page), fmt.Sprintf("# Train: a contract, version %d\n", Version)) {
		t.Errorf("%d rules, version %d: not those of the page", len(rules), Version)
	}
}
