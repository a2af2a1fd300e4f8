package checkpoints

import (
	"bytes"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func TestASegmentHasTheColumnsOfWhatItSpends(t *testing.T) {
	t.Parallel()
	plain := []Row{{Round: 1, Loss: 2.5, NoiseDeviation: 0.25}, {Round: 2, Clients: 4}}
	spending := slices.Clone(plain)
	spending[0].Epsilon, spending[0].EpsilonProved = 1.5, 4.25
	spending[1].EpsilonInfinite, spending[1].Stopped = true, true
	for _, rows := range [][]Row{plain, spending} {
		data, err := writeSegment(rows)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeSegment(data); err != nil || !slices.Equal(got, rows) {
			t.Errorf("rows came back as %+v (%v), want %+v", got, err, rows)
		}
		file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if _, there := file.Schema().Lookup("epsilon_proved"); there != (rows[0].Epsilon > 0) {
			t.Errorf("a segment with %+v has the columns %v", rows[0], file.Schema())
		}
	}
}

// A segment without spending has the bytes that it had before there was any.
func TestAPlainSegmentHasNoTraceOfSpending(t *testing.T) {
	t.Parallel()
	rows := []Row{{Round: 1}}
	data, err := writeSegment(rows)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("epsilon")) || bytes.Contains(data, []byte("stopped")) {
		t.Errorf("the segment names columns of a privacy account: %q", data)
	}
}
