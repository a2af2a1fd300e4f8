package main

import (
	"strings"
	"testing"

	"coalmine/workers/clients"
	"coalmine/workers/clients/clientstest"
)

func TestContractCheckReportsBrokenClientRules(t *testing.T) {
	t.Parallel()
	line := clientstest.Command()
	passed := prints(t, "contract", "check", "client", "--command", line)
	for _, want := range []string{"pass   describes itself\n", "pass   ends with its input\n", "program unigrams 1, 2 tensors, reads tokens, up to 2 users at once\n", "0 of 15 checks failed"} {
		if !strings.Contains(passed, want) {
			t.Errorf("%q is missing in\n%s", want, passed)
		}
	}
	code, out, messages := coalmine(t, "contract", "check", "client", "--command", line, "--config", `{"fault": "nan"}`)
	for _, want := range []string{"fail   trains on a user's examples\n", `has values that are not finite`, "       rule 5: " + clients.FiniteNumbers.Sentence, " of 15 checks failed"} {
		if code != exitCellFailed || !strings.Contains(out, want) {
			t.Errorf("exit status %d, %q is missing in\n%s%s", code, want, out, messages)
		}
	}
	var report clients.Report
	text := prints(t, "contract", "check", "client", "--json", "--command", line, "--command-memory", "4GiB")
	if decodeJSON(t, text, &report); len(report.Findings) != 15 || report.Program == nil {
		t.Errorf("%+v", report)
	}
	refuses(t, `required flag(s) "command" not set`, "contract", "check", "client")
	refuses(t, "--config 7: expected a JSON object", "contract", "check", "client", "--command", "true", "--config", "7")
	refuses(t, "--command-memory \"much\": expected a size", "contract", "check", "client", "--command", "true", "--command-memory", "much")
	refuses(t, "--timeout -1s: expected a time above 0", "contract", "check", "client", "--command", "true", "--timeout", "-1s")
}
