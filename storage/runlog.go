package storage

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A run's log is a series of numbered objects, each created if absent, so that any number of
// processes can append and all read the same order. To keep the series short the leader folds it: a
// snapshot is an ordinary entry at the next number that replaces all earlier entries.
//
// Two rules make that safe:
//
//  - A compaction deletes only the entries before the previous snapshot.
//    Readers walk back from the end to the newest intact snapshot, so a snapshot
//    torn by a power cut costs only a longer walk.
//  - A delayed appender may create an entry at a number that has been folded and
//    deleted meanwhile, which no reader visits. So it then looks for a snapshot
//    above its entry: one that lists the entry's id has folded it; otherwise the
//    entry is deleted and appended again.

// LogEntry is one entry of a run's log.
type LogEntry struct {
	// Number counts from 1 without gaps.
	Number int
	// Snapshot entries replace all entries before them.
	Snapshot bool
	// Torn entries were damaged by a power cut; their Data is nil and their content is lost.
	Torn bool
	// Data is the JSON that was appended, compacted.
	Data json.RawMessage
}

// logRecord is the sealed content of an entry.
type logRecord struct {
	// ID identifies the entry to its maker.
	ID string `json:"id"`
	// Snapshot and Folds are set in snapshots; Folds are the ids of the entries
	// between this snapshot and the previous one.
	Snapshot bool            `json:"snapshot,omitempty"`
	Folds    []string        `json:"folds,omitempty"`
	Data     json.RawMessage `json:"data"`
}

// numberedRecord is a record with its number; a torn one has no ID.
type numberedRecord struct {
	logRecord
	number int
	torn   bool
}

// AppendLog appends an entry, which must be JSON, to a run's log and returns its number. Once it
// returns, the entry is durable and visible to every later reader. After an error that wraps
// ErrUnknown, the entry may or may not have been appended.
func (a *Archive) AppendLog(ctx context.Context, run string, entry json.RawMessage) (int, error) {
	if err := CheckRunID(run); err != nil {
		return 0, err
	}
	record := logRecord{ID: rand.Text(), Data: entry}
	data, err := seal(logFormat, record)
	if err != nil {
		return 0, a.fail("appending to the log of run", run, err)
	}
	for {
		n, err := a.tryAppend(ctx, run, record.ID, data)
		if err != nil {
			return 0, a.fail("appending to the log of run", run, err)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// tryAppend returns 0 if the entry must be appended again at another number.
func (a *Archive) tryAppend(ctx context.Context, run, id string, data []byte) (int, error) {
	numbers, err := a.numbersBelow(ctx, runLogDir(run))
	if err != nil {
		return 0, err
	}
	n := newest(numbers) + 1
	if err := a.createOwn(ctx, runLogName(run, n), data); err != nil {
		if errors.Is(err, ErrExists) {
			return 0, nil
		}
		return 0, err
	}
	stands, err := a.entryStands(ctx, run, n, id)
	if err != nil || stands {
		return n, err
	}
	return 0, a.store.Delete(ctx, runLogName(run, n))
}

// entryStands reports whether readers see the entry created at n, or a snapshot that has folded it.
func (a *Archive) entryStands(ctx context.Context, run string, n int, id string) (bool, error) {
	numbers, err := a.numbersBelow(ctx, runLogDir(run))
	if err != nil {
		return false, err
	}
	for _, above := range numbers {
		if above <= n {
			continue
		}
		r, err := a.readRecord(ctx, run, above)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if err == nil && r.Snapshot {
			return a.wasFolded(ctx, run, n, id, r)
		}
	}
	return true, nil
}

// wasFolded decides by the lowest snapshot above n. If that snapshot does not list the id, either
// an earlier snapshot had freed the number, or the snapshot that folded the entry has been deleted;
// entries are deleted in ascending order, so in the second case the entry is also gone.
func (a *Archive) wasFolded(ctx context.Context, run string, n int, id string, snapshot numberedRecord) (bool, error) {
	if slices.Contains(snapshot.Folds, id) {
		return true, nil
	}
	there, err := a.exists(ctx, runLogName(run, n))
	if err == nil && !there {
		err = fmt.Errorf("%w: entry %d was overtaken by two compactions; read the log to see whether it counted", ErrUnknown, n)
	}
	return false, err
}

// ReadLog returns the entries of a run's log from number from on, in order. If a compaction has
// folded some of those, the first entry is the newest snapshot and replaces all entries that the
// caller has read; otherwise the first is number from. A caller that has read up to n continues
// with from = n+1; 1 reads the whole log.
func (a *Archive) ReadLog(ctx context.Context, run string, from int) ([]LogEntry, error) {
	if err := CheckRunID(run); err != nil {
		return nil, err
	}
	records, err := a.readRecords(ctx, run, from)
	if err != nil {
		return nil, a.fail("reading the log of run", run, err)
	}
	entries := make([]LogEntry, len(records))
	for i, r := range records {
		entries[i] = LogEntry{Number: r.number, Snapshot: r.Snapshot, Torn: r.torn, Data: r.Data}
	}
	return entries, nil
}

// CompactLog appends a snapshot that replaces all entries up to number last, which must be the last
// entry: if another has been appended, the error wraps ErrExists, the log is unchanged, and the
// caller reads on and folds again. It returns the snapshot's number. A number with an error means
// that the snapshot exists but old entries could not be deleted; the next compaction tries again.
// Only the leader compacts.
func (a *Archive) CompactLog(ctx context.Context, run string, last int, snapshot json.RawMessage) (int, error) {
	if err := CheckRunID(run); err != nil {
		return 0, err
	}
	n, err := a.compact(ctx, run, last, snapshot)
	return n, a.fail("compacting the log of run", run, err)
}

func (a *Archive) compact(ctx context.Context, run string, last int, snapshot json.RawMessage) (int, error) {
	records, err := a.readRecords(ctx, run, 1)
	if err != nil {
		return 0, err
	}
	if len(records) == 0 || records[len(records)-1].number != last {
		return 0, fmt.Errorf("%w: the last entry is no longer %d", ErrExists, last)
	}
	record := logRecord{ID: rand.Text(), Snapshot: true, Data: snapshot}
	for _, r := range records {
		if !r.Snapshot && !r.torn {
			record.Folds = append(record.Folds, r.ID)
		}
	}
	data, err := seal(logFormat, record)
	if err != nil {
		return 0, err
	}
	if err := a.createOwn(ctx, runLogName(run, last+1), data); err != nil {
		return 0, err
	}
	return last + 1, a.deleteEntriesBefore(ctx, run, records[0].number)
}

// deleteEntriesBefore deletes one by one, in ascending order: see wasFolded.
func (a *Archive) deleteEntriesBefore(ctx context.Context, run string, first int) error {
	numbers, err := a.numbersBelow(ctx, runLogDir(run))
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n >= first {
			break
		}
		if err := a.store.Delete(ctx, runLogName(run, n)); err != nil {
			return err
		}
	}
	return nil
}

// errGap reports that entries vanished while the log was read.
var errGap = errors.New("an entry is missing")

// readTries limits how often a read restarts because a compaction deleted
// entries that it was about to read. After a compaction the next listing shows
// its snapshot, so a second try nearly always succeeds.
const readTries = 10

// readRecords returns the records from number from on, or from the newest whole
// snapshot if that is later.
func (a *Archive) readRecords(ctx context.Context, run string, from int) ([]numberedRecord, error) {
	var err error
	for range readTries {
		var numbers []int
		if numbers, err = a.numbersBelow(ctx, runLogDir(run)); err != nil {
			return nil, err
		}
		var records []numberedRecord
		records, err = a.walkBack(ctx, run, numbers, max(from, 1))
		if !errors.Is(err, errGap) {
			return records, err
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
}

func (a *Archive) walkBack(ctx context.Context, run string, numbers []int, from int) ([]numberedRecord, error) {
	var records []numberedRecord
	want := newest(numbers)
	for _, n := range slices.Backward(numbers) {
		if want < from {
			break
		}
		if n != want {
			return nil, fmt.Errorf("%w: number %d", errGap, want)
		}
		r, err := a.readRecord(ctx, run, n)
		if errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("%w: number %d", errGap, n)
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
		if r.Snapshot {
			slices.Reverse(records)
			return records, nil
		}
		want--
	}
	if len(numbers) > 0 && want >= from {
		return nil, fmt.Errorf("%w: number %d", errGap, want)
	}
	slices.Reverse(records)
	return records, nil
}

// readRecord returns a torn entry as such, not as an error.
func (a *Archive) readRecord(ctx context.Context, run string, n int) (numberedRecord, error) {
	r := numberedRecord{number: n}
	err := a.readSealed(ctx, logFormat, runLogName(run, n), &r.logRecord)
	if errors.Is(err, ErrCorrupt) {
		return numberedRecord{number: n, torn: true}, nil
	}
	return r, err
}

// createOwn creates an object with bytes that no other maker would choose.
func (a *Archive) createOwn(ctx context.Context, name string, data []byte) error {
	_, err := a.create(ctx, name, data, func(found []byte) bool { return bytes.Equal(found, data) })
	return err
}

// numbersBelow lists the numbered objects of a directory, ascending.
func (a *Archive) numbersBelow(ctx context.Context, dir string) ([]int, error) {
	var numbers []int
	for child, err := range a.store.Children(ctx, dir) {
		if err != nil {
			return nil, err
		}
		if n, ok := nameNumber(child); ok {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

func newest(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	return numbers[len(numbers)-1]
}
