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
	for rule := OneObjectALine; rule <= ClassesAddUp; rule++ {
		if line := fmt.Sprintf("\n%d. %s\n", rule, rule); rule.String() == "" || !strings.Contains(string(page), line) {
			t.Errorf("rule %d is not on the page: %q", rule, line)
		}
	}
	if len(rules) != int(ClassesAddUp) || !strings.Contains(string(page), fmt.Sprintf("`%q` and `%d`", Contract, Version)) {
		t.Errorf("%d rules, contract %s, version %d: not those of the page", len(rules), Contract, Version)
	}
}
