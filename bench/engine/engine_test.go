package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/must"
	"coalmine/tasks/datasets/text"
)

const speeches = "../../examples/data/state-of-the-union.jsonl.gz"

func TestARunMeasuresTheRowsAskedFor(t *testing.T) { // not parallel: it measures allocations
	var seen []string
	report := must.Get(Run(t.Context(), Options{
		Repeat: 2, Only: []string{"allocations", "peak", "memory", "scoring-whole"}, Done: func(r Row) { seen = append(seen, r.Name) },
	}))(t)
	if got := strings.Join(seen, " "); got != "peak allocations scoring-whole memory" {
		t.Errorf("rows %q, want those asked for in the order of the table", got)
	}
	peak, allocations, scoring, memory := report.Rows[0], report.Rows[1], report.Rows[2], report.Rows[3]
	if peak.GFLOPS <= 0 {
		t.Errorf("peak of %v GFLOP/s", peak.GFLOPS)
	}
	if !build.Race && (allocations.Allocations == nil || *allocations.Allocations != 0) {
		t.Errorf("allocations %+v: want 0 in the steady state", allocations)
	}
	if scoring.GFLOPS <= 0 || scoring.TokensPerSecond <= 0 || scoring.Reached == nil {
		t.Errorf("scoring %+v: want a rate and a goal", scoring)
	}
	if memory.Megabytes == nil || *memory.Megabytes < 20 || *memory.Megabytes > 64 {
		t.Errorf("memory %+v: want under 64 MB, and more than the logits alone", memory)
	}
}

func TestAFigureOfZeroIsPrinted(t *testing.T) {
	t.Parallel()
	none := 0.0
	data := must.Get(json.Marshal(Row{Name: "x", Allocations: &none}))(t)
	if want := `{"row":"x","what":"","allocations":0}`; string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
}

func TestImpossibleOptionsAreErrors(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"repeat 0: want at least 1": {},
		`no row "speed": want some`: {Repeat: 1, Only: []string{"speed"}},
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestBatchesAreRealSentences(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{0, text.SentenceWords} {
		batches := must.Get(readBatches(t.Context(), speeches, cut))(t)
		longest := 0
		for _, batch := range batches {
			if len(batch) != batchSize {
				t.Fatalf("a batch of %d sentences", len(batch))
			}
			padded := pad(batch)
			for i, s := range batch {
				longest = max(longest, len(s))
				if s[0] != text.Begin || len(padded[i]) != len(padded[0]) || len(padded[i]) < len(s) {
					t.Fatalf("sentence %v is padded to %v", s, padded[i])
				}
			}
		}
		if whole := longest > text.SentenceWords+1; whole != (cut == 0) {
			t.Errorf("cut at %d: the longest sentence has %d tokens", cut, longest)
		}
	}
}

func TestATextThatIsNotThereSkipsTheRow(t *testing.T) {
	t.Parallel()
	var r Row
	must.Do(t, measureSentences(t.Context(), &bench{Options: Options{Repeat: 1, Text: filepath.Join(t.TempDir(), "none")}}, &r))
	if !strings.Contains(r.Skipped, "--text") || r.Reached != nil {
		t.Errorf("row %+v: want it skipped, and the flag to mend it", r)
	}
}

func TestAPeerIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peer.json")
	for content, want := range map[string]string{
		`{"name":"PyTorch","rows":[{"row":"training","tokens_per_second":50.5}]}`: "",
		`{"rows":[]}`: "no name or no rows",
		`PyTorch`:     "bench/pytorch/pytorch.py",
	} {
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
		p, err := ReadPeer(path)
		switch {
		case want == "" && (err != nil || p.TokensPerSecond("training") != 50.5 || p.TokensPerSecond("gru") != 0):
			t.Errorf("%s: %+v, %v", content, p, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: error %v, want the path and %q", content, err, want)
		}
	}
}

func TestTheMedianOfAnEvenNumberIsTheMean(t *testing.T) {
	t.Parallel()
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
	if got := median([]float64{9, 1, 3}); got != 3 {
		t.Errorf("median %v, want 3", got)
	}
}
