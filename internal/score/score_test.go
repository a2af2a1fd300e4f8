//go:build unix

package score

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/goroutines"
	"coalmine/internal/must"
)

// described answers describe, the first request.
const described = `read line; echo '{"id": 1, "result": {"contract": "coalmine/score", "version": 1, "model": "m", "longest_input": 0, "deterministic": true, "methods": ["loglikelihood"]}}'; `

// asking is a client of a shell that answers so.
func asking(t *testing.T, script string, o Options) (*Client, error) {
	t.Helper()
	o.Args, o.Name, o.Pause = []string{"sh", "-c", script}, "scorer", time.Millisecond
	c, err := Start(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

var pairs = []Pair{{"my pin is", " 1234"}, {"", "my"}}

func TestCommandScoresPairs(t *testing.T) {
	t.Parallel()
	heard := filepath.Join(t.TempDir(), "heard")
	c := must.Get(asking(t, described+`read line; echo "$line" > "`+heard+`"; echo '{"id": 2, "result": [[-1.5, false], [0.001, true]]}'; cat`, Options{}))(t)
	got, err := c.LogLikelihoods(t.Context(), pairs, 8)
	if want := []Answer{{-1.5, false}, {0, true}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	const line = `{"id":2,"method":"loglikelihood","pairs":[["my pin is"," 1234"],["","my"]]}`
	if got, err := os.ReadFile(heard); err != nil || string(got) != line+"\n" {
		t.Errorf("it was asked %q, want %q", got, line)
	}
}

// Answers come in any order: here the first comes when the second has.
func TestAnswersMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	c := must.Get(asking(t, described+`id() { expr "$1" : '.*"id":\([0-9]*\)'; }
		read a; read b; case "$a" in *pin*) pin=$(id "$a") other=$(id "$b");; *) pin=$(id "$b") other=$(id "$a");; esac
		echo "{\"id\": $other, \"result\": [[-3, false]]}"; echo "{\"id\": $pin, \"result\": [[-2, false]]}"; read line`, Options{Concurrency: 2}))(t)
	got, err := c.LogLikelihoods(t.Context(), pairs, 1)
	if want := []Answer{{-2, false}, {-3, false}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// Each fault of a command is one sentence that names the command and the rule, and quotes its
// last output.
func TestContractFaultsAreReported(t *testing.T) {
	t.Parallel()
	var none contracts.Rule
	answers := func(result string) string {
		return described + `echo loading >&2; read line; echo '{"id": 2, "result": ` + result + `}'; read line`
	}
	for want, c := range map[string]struct {
		script string
		rule   contracts.Rule
	}{
		"it ended with exit status 1, and left 1 of 1 requests unanswered; its last lines on standard error:\n  no module named torch": {"echo no module named torch >&2; exit 1", none},
		"it ended with exit status 0, and left 1 of 2 requests unanswered; it printed nothing":                                         {described + "read line; exit 0", none},
		`it printed "Loading weights" to standard output; expected answers alone`:                                                      {"echo Loading weights; " + described, OneObjectALine},
		`which is not a JSON object: unexpected end`:                                                                                   {described + `read line; echo '{"id": 2'; read line`, OneObjectALine},
		"it ended with signal: killed, and left 1 of 2 requests unanswered; it":                                                        {described + `read line; printf '{"id": 2, "res'; kill -9 $$`, none},
		"which is not a JSON object: unexpected end of":                                                                                {described + `read line; printf '{"id": 2, "res'`, OneObjectALine},
		"it answered request 1 twice, the second time by":                                                                              {described + `echo '{"id": 1, "result": 1}'; read line; read line`, OneAnswerEach},
		"it answered request 7, which it was not asked; the last one was":                                                              {described + `echo '{"id": 7, "result": 1}'; read line; read line`, OneAnswerEach},
		"has no id": {described + `echo '{"result": 1}'; read line; read line`, OneAnswerEach},
		"has both or neither of result and error":           {described + `echo '{"id": 2}'; read line; read line`, OneObjectALine},
		"it gave 1 answers to 2 pairs":                      {answers("[[-1, true]]"), InTheirOrder},
		"expected a list such as [-12.5, false]":            {answers("[[-1], [-2, true]]"), InTheirOrder},
		"expected a list such as [-12.5, false] ":           {answers("[[-1, null], [-2, true]]"), InTheirOrder},
		"cannot unmarshal":                                  {answers(`"none"`), InTheirOrder},
		"a number that JSON has not, NaN or Infinity":       {answers("[[NaN, true], [-1, true]]"), FiniteLogarithms},
		"a number that JSON has not, NaN or Infinity: ":     {answers("[[-Infinity, true], [-1, true]]"), FiniteLogarithms},
		`"-1e999" stands for a log-probability; expected a`: {answers("[[-1e999, true], [-1, true]]"), FiniteLogarithms},
		`"null" stands for a log-probability`:               {answers("[[null, true], [-1, true]]"), FiniteLogarithms},
		"0.7 stands for a log-probability":                  {answers("[[0.7, true], [-1, true]]"), FiniteLogarithms},
		`it answers loglikelihood by the error "no memory"`: {described + `read line; echo '{"id": 2, "error": {"message": "no memory"}}'; read line`, none},
		"by the error \"busy\", and so 3 times in a row":    {described + `for id in 2 3 4; do read line; echo "{\"id\": $id, \"error\": {\"message\": \"busy\", \"retry\": true}}"; done; read line`, none},
		`it implements version 2 of the contract "other"`:   {`read line; echo '{"id": 1, "result": {"contract": "other", "version": 2}}'; read line`, DescribeFirst},
		"it does not name its model":                        {strings.Replace(described, `"m"`, `""`, 1), DescribeFirst},
		"its longest_input is -1":                           {strings.Replace(described, `"longest_input": 0`, `"longest_input": -1`, 1), DescribeFirst},
		`its methods are ["score"]`:                         {strings.Replace(described, `["loglikelihood"]`, `["score"]`, 1), DescribeFirst},
		"it describes itself by":                            {`read line; echo '{"id": 1, "result": 3}'; read line`, DescribeFirst},
		"a line of more than 64 MiB":                        {described + `read line; head -c 70000000 /dev/zero | tr '\0' x; read line`, OneObjectALine},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			client, err := asking(t, c.script, Options{Retries: goroutines.Retries{Tries: 3}})
			if err == nil {
				_, err = client.LogLikelihoods(t.Context(), pairs, 8)
			}
			if err == nil || !strings.HasPrefix(err.Error(), `command "scorer": `) || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v, want %q", err, want)
			}
			if got := contracts.RuleOf(err); got != c.rule || c.rule != none && !strings.Contains(err.Error(), fmt.Sprintf("(rule %d of the contract score)", c.rule.Number)) {
				t.Errorf("%v: rule %d, want %d", err, got.Number, c.rule.Number)
			}
			if retryable := c.rule == none && !strings.Contains(want, "no memory"); contracts.Retryable(err) != retryable {
				t.Errorf("%v: retryable %v, want that of those that break no rule and refuse nothing for good", err, !retryable)
			}
		})
	}
}

// impatient gives a command time to describe itself.
var impatient = Options{Command: childprocess.Command{Terms: childprocess.Terms{AnswerSeconds: 2}}}

func TestSilentCommandTimesOut(t *testing.T) {
	t.Parallel()
	c, err := asking(t, described+"echo thinking >&2; exec sleep 1000", impatient)
	must.Do(t, err)
	_, err = c.LogLikelihoods(t.Context(), pairs, 8)
	if err == nil || !strings.Contains(err.Error(), "it did not answer request 2 (loglikelihood, 2 of them) within 2s; raise --timeout, or training.limits.answer in an experiment") || contracts.RuleOf(err) != OneAnswerEach {
		t.Errorf("got %v", err)
	}
	if !contracts.Retryable(err) {
		t.Errorf("%v: expected that another process may do better", err)
	}
	<-c.conversation.Over()
	if _, again := c.LogLikelihoods(t.Context(), pairs, 8); again == nil || again.Error() != err.Error() {
		t.Errorf("asked again: %v, want %v", again, err)
	}
}

// A command that reads nothing fills the pipe, and is given up as one that never answers.
func TestCommandThatDoesNotReadTimesOut(t *testing.T) {
	t.Parallel()
	c, err := asking(t, described+"exec sleep 1000", impatient)
	must.Do(t, err)
	_, err = c.LogLikelihoods(t.Context(), []Pair{{"", strings.Repeat("a", 1<<20)}}, 1)
	if contracts.RuleOf(err) != OneAnswerEach {
		t.Errorf("got %v", err)
	}
}

func TestCommandEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	c := must.Get(Start(ctx, Options{Command: childprocess.Command{Args: []string{"sh", "-c", described + "sleep 1000 & exec sleep 1001"}}}))(t)
	enough := errors.New("enough")
	cancel(enough)
	if _, err := c.LogLikelihoods(ctx, pairs, 1); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
	<-c.conversation.Over()
}

func TestCloseReportsBadEnd(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]struct {
		script string
		grace  time.Duration
	}{
		"it ended with exit status 4 (rule 12 of the contract score); its last lines on standard error:\n  bye":       {"read line; echo bye >&2; exit 4", 0},
		"it did not end within 100ms of the end of its input, and was killed (rule 12 of the contract score)":         {"exec sleep 1000", 100 * time.Millisecond},
		"it ended and left 1 processes behind, which were killed (rule 12 of the contract score); it printed nothing": {"exec setsid sleep 1000 >/dev/null & cat", 0},
	} {
		c := must.Get(asking(t, described+o.script, Options{Command: childprocess.Command{Grace: o.grace}}))(t)
		must.Say(t, c.Close(), want)
	}
}

func FuzzAnswers(f *testing.F) {
	for _, result := range []string{`[[-1.5, false], [0, true]]`, `{"contract": "coalmine/score", "version": 1}`, `[[NaN, true]]`, `[]`, `["a", "b"]`, `[[-1], [-2, 0]]`, `1e9`, ``} {
		f.Add([]byte(result))
	}
	f.Fuzz(func(t *testing.T, result []byte) { checkDecoded(t, result) })
}

// checkDecoded decodes a result as that of each method: accepted values are in range.
func checkDecoded(t *testing.T, result []byte) {
	if d, err := decodeDescription(result); err == nil && (d.Model == "" || d.LongestInput < 0) {
		t.Errorf("%s describes %+v", result, d)
	}
	answers, err := DecodeAnswers(result, 2, InTheirOrder, FiniteLogarithms)
	if err == nil && len(answers) != 2 {
		t.Errorf("%s has %d answers", result, len(answers))
	}
	for _, a := range answers {
		if err == nil && !(a.LogProb <= 0) {
			t.Errorf("%s has the log-probability %g", result, a.LogProb)
		}
	}
	if tokens, err := decodeTokens(result, 2); err == nil && len(tokens) != 2 {
		t.Errorf("%s has tokens of %d pairs", result, len(tokens))
	}
	if texts, err := listOf[string](GreedyText, result, 2, "prompts"); err == nil && len(texts) != 2 {
		t.Errorf("%s has %d texts", result, len(texts))
	}
}

func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		`{"contract":"coalmine/score","version":1,"methods":["loglikelihood"],"model":"` + strings.Repeat("x", 1001) + `"}`:                                   "it names its model by 1001 bytes",
		`{"contract":"coalmine/score","version":1,"model":"m","methods":["loglikelihood","` + strings.Repeat(`x`, 101) + `"]}`:                                "a method has a name of more than 100 bytes",
		`{"contract":"coalmine/score","version":1,"model":"m","methods":["loglikelihood"` + strings.Repeat(`,"other"`, 100) + `]}`:                            "it has 101 methods; expected at most 100",
		`{"contract":"coalmine/score","version":1,"model":"` + strings.Repeat("x", 1000) + `","methods":["loglikelihood"` + strings.Repeat(`,"o"`, 99) + `]}`: "",
	} {
		_, err := decodeDescription(json.RawMessage(result))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v, want %q", result, err, want)
		}
	}
	zero, err := DecodeAnswers(json.RawMessage(`[["-inf",false],[-0.0,true],["-Infinity",false]]`), 3, InTheirOrder, FiniteLogarithms)
	if err != nil || zero[0].LogProb != -MaxLoss || zero[1].LogProb != 0 || zero[2].LogProb != -MaxLoss {
		t.Errorf("the logarithms of 0 and of 1: %v, %+v", err, zero)
	}
	if _, err := DecodeAnswers(json.RawMessage(`[["inf",false]]`), 1, InTheirOrder, FiniteLogarithms); err == nil || !strings.Contains(err.Error(), "stands for a log-probability; expected a finite number, or \"-inf\"") {
		t.Errorf("a probability above 1: %v", err)
	}
	if _, err := DecodeAnswers(json.RawMessage(`[[-1e101,false]]`), 1, InTheirOrder, FiniteLogarithms); err == nil || !strings.Contains(err.Error(), "-1e+101 stands for a log-probability") {
		t.Errorf("a logarithm that no model computes: %v", err)
	}
	if _, err := decodeTokens(json.RawMessage("[["+strings.Repeat("-1,", 1<<20)+"-1]]"), 1); err == nil || !strings.Contains(err.Error(), "has 1048577 tokens; expected at most 1048576") {
		t.Errorf("a continuation of too many tokens: %v", err)
	}
}
