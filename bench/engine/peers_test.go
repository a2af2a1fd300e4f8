package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func TestAPeerIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peer.json")
	for content, want := range map[string]string{
		`{"name":"PyTorch","rows":[{"row":"training","tokens_per_second":50.5,"mode":"compiled"}]}`: "",
		`{"rows":[]}`: "no name or no rows",
		`PyTorch`:     "bench/pytorch/pytorch.py",
	} {
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
		p, err := ReadPeer(path)
		switch {
		case want == "" && (err != nil || p.row("training") != PeerRow{"training", 50.5, "compiled"} || p.TokensPerSecond("gru") != 0):
			t.Errorf("%s: %+v, %v", content, p, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: error %v, want the path and %q", content, err, want)
		}
	}
}

func TestEachRowIsComparedWithItsFastestPeer(t *testing.T) {
	t.Parallel()
	stock := &Peer{"stock", []PeerRow{{"training", 4000, ""}, {"lstm", 5000, "compiled"}, {"memory", 7, ""}}}
	tuned := &Peer{"tuned", []PeerRow{{"training", 5000, "eager"}, {"lstm", 4000, "eager"}, {"characters", 1, ""}}}
	report := Report{Price: 0.036, Rows: []Row{
		{Name: "peak", GFLOPS: 1}, {Name: "training", TokensPerSecond: 10_000}, {Name: "lstm", TokensPerSecond: 4000}, {Name: "memory"},
	}}
	report.Compare([]*Peer{stock, tuned})
	if len(report.Rows) != 6 {
		t.Fatalf("rows %+v, want one more for each that a peer has too", report.Rows)
	}
	training, lstm := report.Rows[4], report.Rows[5]
	if training.Name != "best-peer-training" || training.TokensPerSecond != 5000 || training.Ratio != 2 || training.MillionCost != 0.002 {
		t.Errorf("%+v: want 2 times the tuned peer, which costs twice as much", training)
	}
	if lstm.Name != "best-peer-lstm" || lstm.Ratio != 0.8 || !strings.Contains(lstm.What, "stock, compiled;") {
		t.Errorf("%+v: want 0.8 times the stock peer, compiled", lstm)
	}
	var table strings.Builder
	report.Print(&table)
	if row := strings.Join(wordsOf(table.String(), "training"), " "); row != "training 10000 2.50 2.00" {
		t.Errorf("row %q of the table, want the multiples of both peers:\n%s", row, &table)
	}
	if row := strings.Join(wordsOf(table.String(), "best-peer-training"), " "); row != "best-peer-training 5000 2.00 times 0.002" {
		t.Errorf("row %q of the table:\n%s", row, &table)
	}
}
