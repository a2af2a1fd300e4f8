package tempfiles

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

func TestSorterIsStableAtAnyLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.Uint64Range(0, 20), 0, 200).Draw(t, "keys")
		s := &Sorter{limit: rapid.IntRange(1, 3000).Draw(t, "limit")}
		defer s.Close()
		type keyedOrdinal struct {
			key     uint64
			ordinal int
		}
		var want []keyedOrdinal
		for i, k := range keys {
			want = append(want, keyedOrdinal{k, i})
			record := binary.AppendUvarint(binary.AppendUvarint(nil, k), uint64(i))
			must.Do(t, s.Add(k, append(record, make([]byte, i%7)...)))
		}
		slices.SortStableFunc(want, func(a, b keyedOrdinal) int { return int(a.key) - int(b.key) })
		var got []keyedOrdinal
		for record, err := range s.Sorted() {
			must.Do(t, err)
			key, n := binary.Uvarint(record)
			ordinal, m := binary.Uvarint(record[n:])
			if len(record) != n+m+int(ordinal)%7 {
				t.Fatalf("record %d came back with %d bytes", ordinal, len(record))
			}
			got = append(got, keyedOrdinal{key, int(ordinal)})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// It sets TMPDIR for the whole process, so it does not run in parallel.
func TestSorterLeavesNoFileBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := &Sorter{limit: 1}
	for k := range uint64(10) {
		must.Do(t, s.Add(9-k, []byte{byte(k)}))
	}
	for range s.Sorted() {
		break // a caller may stop early
	}
	s.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
