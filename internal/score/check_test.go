package score_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/must"
	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

func TestMain(m *testing.M) { os.Exit(servetest.Main(m)) }

func untrained(t *testing.T) []byte {
	t.Helper()
	var words []string
	for _, word := range strings.Fields(strings.Join(score.DefaultTexts, " ")) {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return servetest.Untrained(t, models.GRU, words)
}

func check(t *testing.T, o score.Options) *score.Report {
	t.Helper()
	o.Name = "scorer"
	return must.Get(score.Check(t.Context(), o, score.DefaultTexts))(t)
}

func TestARightCommandPassesEveryCheck(t *testing.T) {
	t.Parallel()
	report := check(t, score.Options{Command: servetest.Command(t, untrained(t))})
	const ids = "describe order concurrency empty-context spaces too-long unknown-method determinism total-probability token-sums generation end-of-input"
	if contracts.CountFailed(report.Findings) != 0 || contracts.IDs(report.Findings) != ids || report.Command.LongestInput != 2000 {
		t.Errorf("%+v", report)
	}
	for _, f := range report.Findings {
		if f.Status != contracts.Passed || f.Sentence == "" {
			t.Errorf("%+v, want that it passes", f)
		}
	}
}

// broken commands stand in front of a right one and spoil its messages. Each is a program of
// sed on its answers, or on its requests.
func TestEachBrokenRuleIsFound(t *testing.T) {
	t.Parallel()
	sed, cat := "exec sed -u -e ", ""
	var none contracts.Rule
	for name, c := range map[string]struct {
		requests, answers string
		want              contracts.Rule
		message           string
	}{
		"prints between messages":   {cat, sed + `'/^{"id":3,/i Batch 1 of 7'`, score.OneObjectALine, `it printed "Batch 1 of 7" to standard output`},
		"answers twice":             {cat, sed + `'/^{"id":2,/p'`, score.OneAnswerEach, "it answered request 2 twice"},
		"mixes up ids":              {cat, sed + `'s/"id":4,/"id":X,/; s/"id":5,/"id":4,/; s/"id":X,/"id":5,/'`, score.OneAnswerEach, "request"},
		"never answers":             {cat, sed + `'/^{"id":3,/d'`, score.OneAnswerEach, "it did not answer request"},
		"gives NaN":                 {cat, sed + `'/^{"id":2,/s/\[\[-[0-9.]*/[[NaN/'`, score.FiniteLogarithms, "NaN or Infinity"},
		"gives probabilities":       {cat, sed + `'s/\[\[-/[[/'`, score.FiniteLogarithms, "which is not above 0"},
		"gives half of the answers": {cat, sed + `'/^{"id":2,/s/\],\[.*/]]}/'`, score.InTheirOrder, "1 answers to 4 pairs"},
		"gives no greedy":           {cat, sed + `'/^{"id":2,/s/,false//g'`, score.InTheirOrder, "expected a list such as"},
		"does not say who it is":    {cat, sed + `'s/"contract"/"agreement"/'`, score.DescribeFirst, `version 1 of the contract ""`},
		"has no loglikelihood":      {cat, sed + `'s/"loglikelihood",//'`, score.DescribeFirst, `expected "loglikelihood" among them`},
		"says too short an input":   {cat, sed + `'s/"longest_input":2000/"longest_input":100/'`, score.NothingIsCut, "its longest_input is 100 tokens"},
		"is not deterministic":      {cat, sed + `'/^{"id":[3579],/s/\[\[-\([0-9]*\)\./[[-\1.0/; /^{"id":1[13579],/s/\[\[-\([0-9]*\)\./[[-\1.0/'`, score.Deterministic, "of the same request the second time"},
		"strips an empty context":   {sed + `'s/\[\["",/[["the people are free to be a day in april",/g'`, cat, none, "either the space between is lost"},
		"takes every method":        {sed + `'s/"no_such_method"/"loglikelihood","pairs":[["the","people"]]/'`, cat, score.UnknownMethods, `it answers the method "no_such_method"`},
		"has errors without words":  {cat, sed + `'s/"message":"[^"]*"/"message":""/'`, score.ErrorsAreAnswers, "its error has no message"},
		"dies of an unknown method": {sed + `'/no_such_method/Q'`, cat, none, "unanswered"},
		"gives no probabilities":    {cat, sed + `'s/\[-[0-9]*\./[-0./g'`, score.AtMostOne, "probabilities that add up to"},
		"has other tokens":          {cat, sed + `'/false\|true/!s/\[\[-[0-9.]*/[[-50/'`, score.TokensAddUp, "add up to"},
		"generates without an end":  {sed + `'s/"until":\["[^\\]*"\]/"until":["never"]/'`, cat, score.GreedyText, "expected a text without it"},
		"ends badly":                {cat, "cat; exit 7", score.EndsWithItsInput, "exit status 7"},
		"stays":                     {cat, "cat; exec sleep 1000", score.EndsWithItsInput, "did not end within"},
		"leaves a process":          {cat, "setsid sleep 1000 >/dev/null 2>&1 & cat", score.EndsWithItsInput, "1 processes behind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := score.Options{Command: childprocess.Command{Args: spoiled(t, c.requests, c.answers)}}
			switch c.message { // those two wait for ever
			case "it did not answer request":
				o.AnswerSeconds = 1
			case "did not end within":
				o.Grace = 100 * time.Millisecond
			}
			report := check(t, o)
			for _, f := range report.Findings {
				if strings.Contains(f.Message, c.message) && f.Status != contracts.Passed && (c.want.Number == 0 || f.Rule == c.want.Number && f.Status == contracts.Failed && f.Sentence == c.want.Sentence) {
					return
				}
			}
			t.Errorf("rule %d is not found broken, with %q: %+v", c.want.Number, c.message, report.Findings)
		})
	}
}

// spoiled is a right command whose requests and answers pass through shell commands.
func spoiled(t *testing.T, requests, answers string) []string {
	t.Helper()
	right := "'" + strings.Join(servetest.Command(t, untrained(t)).Args, "' '") + "'"
	line := right
	if requests != "" {
		line = requests + " | " + line
	}
	if answers != "" {
		line += " | { " + answers + "; }"
	}
	path := filepath.Join(t.TempDir(), "spoiled.sh")
	must.Do(t, os.WriteFile(path, []byte(line+"\n"), 0o600))
	return []string{"sh", path}
}

func TestFailedStartIsOneFinding(t *testing.T) {
	t.Parallel()
	report := check(t, score.Options{Command: childprocess.Command{Args: []string{"sh", "-c", "echo no module named torch >&2; exit 1"}}})
	if len(report.Findings) != 1 || contracts.CountFailed(report.Findings) != 1 || report.Command != nil || !strings.Contains(report.Findings[0].Message, "no module named torch") {
		t.Errorf("%+v", report)
	}
}

func TestCheckRejectsUnsuitableTexts(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"2 texts; expected at least 3":                     {"a b c", "a b d"},
		`text 2 is "a b"; expected at least 3 words`:       {"a b c", "a b", "a b d"},
		`text 3 is "a b c"; expected at least 3 words, an`: {"a b c", "a b d", "a b c"},
	} {
		_, err := score.Check(t.Context(), score.Options{}, texts)
		must.Say(t, err, want)
	}
}
