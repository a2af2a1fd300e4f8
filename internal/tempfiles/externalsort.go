// This file sorts more records than fit into memory: it writes sorted runs to a temporary file and
// finally merges them (Knuth, The Art of Computer Programming 3, section 5.4).

package tempfiles

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// Sorter orders records by a number, equal numbers by arrival, in bounded memory. It
// is not safe for concurrent use.
type Sorter struct {
	limit   int // bytes of records in memory
	records []keyed
	arena   []byte
	file    *File // nil until the first spill
	end     int64 // of the file
	runs    []run
}

// keyed is a record in the arena.
type keyed struct {
	key  uint64
	from int
	to   int
}

// run is a sorted piece of the file.
type run struct{ offset, length int64 }

const (
	memory        = 64 << 20
	keyedOverhead = 24 // bytes of a keyed
)

// NewSorter returns an empty sorter, which uses up to 64 MiB of memory.
func NewSorter() *Sorter { return &Sorter{limit: memory} }

// Add adds a copy of a record.
func (s *Sorter) Add(key uint64, record []byte) error {
	from := len(s.arena)
	s.arena = append(s.arena, record...)
	s.records = append(s.records, keyed{key, from, len(s.arena)})
	if len(s.arena)+keyedOverhead*len(s.records) < s.limit {
		return nil
	}
	return s.spill()
}

// order sorts the records in memory; the arena keeps the order of arrival.
func (s *Sorter) order() {
	slices.SortFunc(s.records, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.from, b.from))
	})
}

func (s *Sorter) spill() error {
	if s.file == nil {
		f, err := OpenFile("", "coalmine-sort-")
		if err != nil {
			return fmt.Errorf("sorting needs a temporary file: %w", err)
		}
		s.file = f
	}
	s.order()
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.end), 1<<20)
	start := s.end
	var header []byte
	for _, r := range s.records {
		header = binary.AppendUvarint(header[:0], r.key)
		header = binary.AppendUvarint(header, uint64(r.to-r.from))
		w.Write(header)
		w.Write(s.arena[r.from:r.to])
		s.end += int64(len(header) + r.to - r.from)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sorting in %s (set TMPDIR to a place with more room): %w", os.TempDir(), err)
	}
	s.runs = append(s.runs, run{start, s.end - start})
	s.records, s.arena = s.records[:0], s.arena[:0]
	return nil
}

// Sorted yields the records in order, each valid only until the next. The sorter
// accepts no further records.
func (s *Sorter) Sorted() iter.Seq2[[]byte, error] {
	if s.file == nil {
		return s.inMemory
	}
	return s.merged
}

func (s *Sorter) inMemory(yield func([]byte, error) bool) {
	s.order()
	for _, r := range s.records {
		if !yield(s.arena[r.from:r.to], nil) {
			return
		}
	}
}

func (s *Sorter) merged(yield func([]byte, error) bool) {
	if err := s.spill(); err != nil {
		yield(nil, err)
		return
	}
	s.records, s.arena = nil, nil
	var heads runHeap
	for i, r := range s.runs {
		h := &runHead{number: i, r: bufio.NewReaderSize(io.NewSectionReader(s.file, r.offset, r.length), 64<<10)}
		if more, err := h.next(); err != nil {
			yield(nil, err)
			return
		} else if more {
			heads = append(heads, h)
		}
	}
	heap.Init(&heads)
	for len(heads) > 0 {
		h := heads[0]
		if !yield(h.record, nil) {
			return
		}
		more, err := h.next()
		switch {
		case err != nil:
			yield(nil, err)
			return
		case more:
			heap.Fix(&heads, 0)
		default:
			heap.Pop(&heads)
		}
	}
}

// Close removes the temporary file.
func (s *Sorter) Close() {
	if s.file != nil {
		_ = s.file.Close() // it is no longer needed
	}
}

// runHead is the first record of a run not yet yielded.
type runHead struct {
	number int
	r      *bufio.Reader
	key    uint64
	record []byte
}

func (h *runHead) next() (more bool, err error) {
	h.key, err = binary.ReadUvarint(h.r)
	if err == io.EOF {
		return false, nil
	}
	var length uint64
	if err == nil {
		length, err = binary.ReadUvarint(h.r)
	}
	if err == nil {
		h.record = slices.Grow(h.record[:0], int(length))[:length]
		_, err = io.ReadFull(h.r, h.record)
	}
	if err != nil {
		return false, fmt.Errorf("reading back sorted records: %w", err)
	}
	return true, nil
}

// runHeap orders heads by key, then by run: earlier runs arrived earlier.
type runHeap []*runHead

func (h runHeap) Len() int      { return len(h) }
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runHead)) }
func (h runHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].key, h[j].key), cmp.Compare(h[i].number, h[j].number)) < 0
}

func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
