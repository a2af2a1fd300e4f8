package canaryfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/internal/score"
	"coalmine/privacy"
	"coalmine/tasks/audits/membership/onerun"
)

// file has two canaries of one group and one of another, controls, references and coins.
func file() *File {
	f := &File{Header: Header{Contract: Contract, Version: Version, Experiment: "pins", Cell: "c01", Seed: 7,
		OneRun: &OneRun{KPlus: 3, KMinus: 3, Delta: 1e-5, Confidence: 0.95, Neighbouring: privacy.ReplaceOne, Unit: "user"}}}
	add := func(id string, kind Kind, group string) *Line {
		f.Lines = append(f.Lines, Line{ID: id, Kind: kind, Group: group, Context: "my <pin> is", Continuation: " " + id})
		return &f.Lines[len(f.Lines)-1]
	}
	add("canary-0", Canary, "0.0").InsertedTimes = 4
	add("canary-1", Canary, "0.0").InsertedTimes = 1
	add("canary-2", Canary, "0.1").UserProbability = "1/3"
	add("held-back-3", HeldBack, "0.1")
	add("held-back-4", HeldBack, "0.2")
	for i := range 4 {
		add(fmt.Sprintf("reference-0.0-%d", i), Reference, "0.0")
		add(fmt.Sprintf("reference-0.1-%d", i), Reference, "0.1")
	}
	for i := range 12 {
		add(fmt.Sprintf("coin-%d", i), Coin, "").Included = new(i%2 == 0)
	}
	return f
}

// scored gives log-probabilities to some ids, and -10 to all others.
func scored(f *File, some map[string]float64) Scores {
	scores := Scores{}
	for _, l := range f.Lines {
		scores[l.ID] = Score{LogProbability: -10}
		if p, ok := some[l.ID]; ok {
			scores[l.ID] = Score{LogProbability: p}
		}
	}
	return scores
}

func TestCanaryFileRoundTrip(t *testing.T) {
	t.Parallel()
	want := file()
	var text bytes.Buffer
	must.Do(t, want.Write(&text))
	if !strings.Contains(text.String(), `"my <pin> is"`) {
		t.Error("texts are not written as they are")
	}
	got := must.Get(Read("canaries.jsonl", &text))(t)
	g, _ := json.Marshal(got)
	if w, _ := json.Marshal(want); string(g) != string(w) {
		t.Errorf("read\n%s\nwant\n%s", g, w)
	}
}

// fullDisk counts the writes that it refuses.
type fullDisk int

func (d *fullDisk) Write([]byte) (int, error) { *d++; return 0, errors.New("no space left") }

func TestWritingStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer) error{"Write": file().Write, "WriteLines": file().WriteLines} {
		var full fullDisk
		if err := write(&full); err == nil || err.Error() != "no space left" || full != 1 {
			t.Errorf("%s: error %v after %d writes; expected one write and its error", name, err, full)
		}
	}
}

func TestBadFilesAreRejectedByLine(t *testing.T) {
	t.Parallel()
	const head = `{"contract":"coalmine/canaries","version":1}` + "\n"
	for want, text := range map[string]string{
		"f: the file is empty; expected a file of coalmine canaries export":  "",
		`f, line 1: it does not begin with the contract "coalmine/canaries"`: "my pin is 1234\n",
		"f, line 1: it does not begin with":                                  strings.Replace(head, "1", "2", 1),
		"f, line 2: id or continuation is missing":                           head + `{"id": "a", "kind": "canary"}`,
		`f, line 3: kind is "other"; expected "canary", "held_back"`:         head + "\n" + `{"id": "a", "kind": "other", "continuation": "b"}`,
		"f, line 2: included is missing in a coin":                           head + `{"id": "a", "kind": "coin", "continuation": "b"}`,
		"f, line 2: included is missing in a coin, or":                       head + `{"id": "a", "kind": "canary", "continuation": "b", "included": true}`,
		`f, line 3: line 2 has the same id, "a"`:                             head + strings.Repeat(`{"id": "a", "kind": "canary", "continuation": "b"}`+"\n", 2),
		"f, line 2: unexpected end of JSON input":                            head + `{"id": "a"`,
	} {
		if _, err := Read("f", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Ranks are one more than the references of the own group that are at least as probable.
func TestRanksUseReferencesOfTheirGroup(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		f, some := file(), map[string]float64{}
		for _, l := range f.Lines {
			some[l.ID] = -float64(rapid.IntRange(0, 6).Draw(r, l.ID))
		}
		report := must.Get(Audit(f, scored(f, some), Options{PlainLoss: true}))(r)
		if report.Basis != References || len(report.Canaries) != 3 || len(report.Controls) != 2 {
			r.Fatalf("%+v", report)
		}
		memorized := 0
		for i, m := range report.Canaries {
			want := int64(1)
			for _, l := range f.Lines {
				if l.Kind == Reference && l.Group == f.Lines[i].Group && some[l.ID] >= some[m.ID] {
					want++
				}
			}
			if *m.Rank != want || m.Among != 4 || *m.Exposure != math.Log2(4)-math.Log2(float64(want)) {
				r.Fatalf("%s has rank %d among %d, want %d", m.ID, *m.Rank, m.Among, want)
			}
			if want == 1 {
				memorized++
			}
		}
		if report.Memorized != memorized || report.Of != 3 {
			r.Fatalf("%d of %d are memorized, want %d", report.Memorized, report.Of, memorized)
		}
	})
}

// Without references canaries are ranked among those held back, and without these not at all.
func TestBasisOfRanksIsReported(t *testing.T) {
	t.Parallel()
	f := file()
	scores := scored(f, map[string]float64{"canary-0": -1, "held-back-3": -2, "held-back-4": -11, "canary-2": -10.5})
	for _, l := range f.linesOf(Reference) {
		delete(scores, l.ID)
	}
	report, err := Audit(f, scores, Options{})
	must.Do(t, err)
	ranks := []int64{*report.Canaries[0].Rank, *report.Canaries[1].Rank, *report.Canaries[2].Rank}
	if report.Basis != Controls || fmt.Sprint(ranks) != "[1 2 2]" || report.Controls[0].Rank != nil || !strings.Contains(report.Why, "above log2 of 2 cannot be measured") {
		t.Errorf("ranks %v, %+v", ranks, report)
	}
	if report.OneRun != nil || !strings.Contains(report.NoOneRun, "scores of the untrained model") || *report.MannWhitneyP <= 0 {
		t.Errorf("coins without initial scores: %+v", report)
	}
	f.Lines = f.Lines[:3]
	if report, err = Audit(f, Scores{"canary-0": {}, "canary-1": {}, "canary-2": {LogProbability: -2}}, Options{}); err != nil || report.Basis != Nothing || report.Canaries[2].Rank != nil || report.MannWhitneyP != nil {
		t.Errorf("%v, %+v", err, report)
	}
	if q := *report.Canaries[2].Queries; q != math.Ceil(math.Log(0.5)/math.Log1p(-math.Exp(-2))) {
		t.Errorf("%g samples", q)
	}
}

// The bound is that of package onerun for the differences of scores.
func TestCoinsBoundEpsilonByDifferencesOfScores(t *testing.T) {
	t.Parallel()
	f := file()
	before, after := map[string]float64{}, map[string]float64{}
	for i, l := range f.linesOf(Coin) {
		before[l.ID] = -float64(i)
		after[l.ID] = -float64(i)
		if *l.Included {
			after[l.ID] += 0.5 // less than the difference of plain losses
		}
	}
	initial := scored(f, before)
	report, err := Audit(f, scored(f, after), Options{Initial: initial})
	must.Do(t, err)
	v := report.OneRun
	if v.Correct != 6 || v.EpsilonLower <= 0 || v.EpsilonLower != v.EpsilonLargest || v.Score != onerun.ScoreLossDifference || v.Included != 6 || len(v.Units[0].Words) == 0 {
		t.Errorf("%+v", v)
	}
	if report, err = Audit(f, scored(f, after), Options{PlainLoss: true}); err != nil || report.OneRun.Correct == 6 || report.OneRun.Score != PlainLoss {
		t.Errorf("%v, plain losses: %+v", err, report.OneRun)
	}
	delete(initial, "coin-3")
	if _, err = Audit(f, scored(f, after), Options{Initial: initial}); err == nil || !strings.Contains(err.Error(), "coin-3 has no score of the untrained model") {
		t.Errorf("got %v", err)
	}
	f.Header.OneRun = nil
	if _, err = Audit(f, scored(f, after), Options{PlainLoss: true}); err == nil || !strings.Contains(err.Error(), "has no one_run") {
		t.Errorf("got %v", err)
	}
}

func TestScoresMustFitTheLines(t *testing.T) {
	t.Parallel()
	f := file()
	scores := scored(f, nil)
	delete(scores, "canary-0")
	delete(scores, "reference-0.1-2")
	if _, err := Audit(f, scores, Options{}); err == nil || !strings.Contains(err.Error(), "2 lines have no score: canary-0, reference-0.1-2; expected a score for each line (all references may be unscored)") {
		t.Errorf("got %v", err)
	}
	scores = scored(f, nil)
	scores["canary-99"] = Score{}
	if _, err := Audit(f, scores, Options{}); err == nil || !strings.Contains(err.Error(), `the score of "canary-99" belongs to no line of the canaries`) {
		t.Errorf("got %v", err)
	}
}

// Samples of lm-evaluation-harness are scores, whether their numbers are texts or not.
func TestHarnessSamplesAreScores(t *testing.T) {
	t.Parallel()
	got, err := ReadScores("s", strings.NewReader(`{"id": "a", "log_probability": -1.5}
{"id": "b", "log_probability": 0.004, "greedy": true}

{"doc_id": 0, "doc": {"id": "c", "context": "x"}, "resps": [[["-2.5", "False"]]], "filtered_resps": [["-2.5", "False"]], "acc": 0}
{"doc_id": 1, "doc": {"id": "d"}, "resps": [[[-3.5, true]]], "filtered_resps": [[-3.5, true]]}
`))
	if err != nil || len(got) != 4 || got["a"].LogProbability != -1.5 || got["a"].Greedy != nil || got["b"].LogProbability != 0 || !*got["b"].Greedy ||
		got["c"].LogProbability != -2.5 || *got["c"].Greedy || got["d"].LogProbability != -3.5 || !*got["d"].Greedy {
		t.Errorf("%v, %+v", err, got)
	}
	for want, text := range map[string]string{
		"s: the file has no scores":                       "",
		"s, line 1: id is missing":                        `{"log_probability": -1}`,
		`s, line 1: "a" has no log_probability`:           `{"id": "a"}`,
		`the log-probability of "a": 0.5 stands for a l`:  `{"id": "a", "log_probability": 0.5}`,
		`the log-probability of "a": "nan" is not a log-`: `{"doc": {"id": "a"}, "filtered_resps": [["nan", "True"]]}`,
		`the log-probability of "a": "inf" is not a log-`: `{"doc": {"id": "a"}, "filtered_resps": [["inf", "True"]]}`,
		`s, line 2: "a" has a second score`:               strings.Repeat(`{"id": "a", "log_probability": -1}`+"\n", 2),
		`the log-probability of "a": "NaN" is not a log-`: `{"id": "a", "log_probability": NaN}`,
		`the log-probability of "a": "Infinity" is not a`: `{"id": "a", "log_probability": Infinity}`,
		`the log-probability of "b": "NaN" is not a log-`: `{"doc": {"id": "b"}, "filtered_resps": [[NaN, false]], "resps": [[[-Infinity, false]]]}`,
		"s, line 1: invalid character '-'":                `{"id": "a", "log_probability": --1}`,
		`the sample of "a" has 0 responses`:               `{"doc": {"id": "a"}}`,
		`the log-probability of "a": `:                    `{"doc": {"id": "a"}, "filtered_resps": [["much", "True"]]}`,
		`is-greedy of "a": `:                              `{"doc": {"id": "a"}, "filtered_resps": [["-1", "maybe"]]}`,
	} {
		if _, err := ReadScores("s", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Python writes the logarithm of 0 in three ways, and of 1 as -0.0. The first ranks last, as
// a number.
func TestLogarithmsOfZeroAndOneAreScores(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		`{"id": "a", "log_probability": "-inf"}`:                       -score.MaxLoss,
		`{"id": "a", "log_probability": -Infinity}`:                    -score.MaxLoss,
		`{"doc": {"id": "a"}, "filtered_resps": [["-inf", "False"]]}`:  -score.MaxLoss,
		`{"doc": {"id": "a"}, "filtered_resps": [[-Infinity, false]]}`: -score.MaxLoss,
		`{"id": "a", "log_probability": -0.0}`:                         0,
		`{"doc": {"id": "a"}, "filtered_resps": [["-0.0", "True"]]}`:   0,
	} {
		got, err := ReadScores("s", strings.NewReader(text))
		if err != nil || got["a"].LogProbability != want {
			t.Errorf("%s: %v, %+v, want %g", text, err, got, want)
		}
	}
}

func FuzzReadScores(f *testing.F) {
	f.Add([]byte(`{"id": "a", "log_probability": -1.5}`))
	f.Add([]byte(`{"doc": {"id": "a"}, "filtered_resps": [["-1", "True"]]}`))
	f.Add([]byte(`{"contract":"coalmine/canaries","version":1}` + "\n" + `{"id": "a", "kind": "coin", "continuation": "b", "included": true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		scores, err := ReadScores("s", bytes.NewReader(text))
		for id, s := range scores {
			if err == nil && (id == "" || !(s.LogProbability <= 0) || math.IsInf(s.LogProbability, 0)) {
				t.Errorf("%q has the score %+v", id, s)
			}
		}
		read, err := Read("c", bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, l := range read.Lines {
			if l.ID == "" || l.Continuation == "" || (l.Kind == Coin) != (l.Included != nil) {
				t.Errorf("a line is read as %+v", l)
			}
		}
	})
}
