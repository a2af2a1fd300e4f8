package datasets

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/forms"
)

// SplitsBlob of a corpus has, where its parts are splits of the data's own, the part of each
// example of the source, in its order: uvarints, in turn the part (0 train, 1 test, 2
// validation) and how many examples in a row are in it.
const SplitsBlob = "splits"

// Divides reports whether the test or validation part is a split of the data's own.
// Examples outside the chosen splits are then not read.
func (o Origin) Divides() bool { return o.TestSplit != "" || o.ValidationSplit != "" }

// FileSplits are the splits of files as Origin.Files has them.
func FileSplits(splits []string) string { return strings.Join(splits, "\n") }

// fileSplits holds the split of each file.
func (o Origin) fileSplits(files int) ([]string, error) {
	splits := make([]string, files)
	if o.Files == "" {
		return splits, nil
	}
	if splits = strings.Split(o.Files, "\n"); len(splits) != files {
		return nil, fmt.Errorf("splits of %d files, and the source has %d; expected one for each", len(splits), files)
	}
	return splits, nil
}

// Named reports whether anything is said about splits: else they play no part.
func (o Origin) Named() bool { return o.Divides() || o.Split != "" || o.Columns.Split != "" }

// SplitByFile reports whether names of files tell splits: splits are read, and no column has them.
func (o Origin) SplitByFile() bool { return o.Named() && o.Columns.Split == "" }

// trainSplit is the split that is trained on.
func (o Origin) trainSplit() string { return cmp.Or(o.Split, forms.TrainSplit) }

// splits are those that are read, by their parts; without a name where a part has none.
func (o Origin) splits() [3]string {
	return [...]string{train: o.trainSplit(), test: o.TestSplit, validation: o.ValidationSplit}
}

// wanted are the names of the splits that are read.
func (o Origin) wanted() []string {
	names := o.splits()
	return slices.DeleteFunc(names[:], func(name string) bool { return name == "" })
}

// checkSplits reports splits that cannot be told apart.
func (o Origin) checkSplits() error {
	if o.Files != "" && !o.SplitByFile() {
		return errors.New("splits of files, where no split is named, or a column has them; expected a split to read, and no such column")
	}
	names := o.wanted()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("the split %q is taken for two parts; expected a split for each", name)
		}
	}
	return nil
}

// splitReader tells the parts of records by their splits.
type splitReader struct {
	Origin
	seen map[string]bool // splits of the source, at most maxSplits
	file string          // the split of the file that is read, if its name says it
}

// begin begins a file of a split, or of none, and reports whether anything of it is wanted.
func (s *splitReader) begin(split string) bool {
	if s.file = ""; split == "" || !s.SplitByFile() {
		return true
	}
	s.file, s.seen[split] = split, true
	return slices.Contains(s.wanted(), split)
}

// ofFile gives a record the part of the file's split, if the file has one.
func (s *splitReader) ofFile(rec *Record) {
	if s.file != "" {
		rec.part, _, _ = s.part(nil) // begin has found it among those that are wanted
	}
}

// lacking reports whether splits are wanted of a file that has none: neither of its own, nor in
// a column, nor by its name.
func (s *splitReader) lacking(own bool) bool {
	if own {
		s.file = "" // its rows know better
	}
	return s.SplitByFile() && !own && s.file == ""
}

// maxSplits bounds the values remembered of a column that holds no splits.
const maxSplits = 50

// part is that of a record of a split; false where it is not read. A record of a source
// without splits trains.
func (s *splitReader) part(split *string) (partNumber, bool, error) {
	if !s.Named() {
		return train, true, nil
	}
	if s.file != "" {
		split = &s.file
	}
	if split == nil || *split == "" {
		return 0, false, fmt.Errorf("%q is missing", s.Columns.Split)
	}
	if len(s.seen) < maxSplits {
		s.seen[*split] = true
	}
	names := s.splits()
	at := slices.Index(names[:], *split)
	return partNumber(max(at, 0)), at >= 0, nil
}

// absent says which split that is wanted there is none of; nil where all are there.
func (s *splitReader) absent() error {
	for _, name := range s.wanted() {
		if s.Named() && !s.seen[name] && len(s.seen) < maxSplits {
			return fmt.Errorf("there is no split %q; expected one of %s", name, forms.Quoted(slices.Sorted(maps.Keys(s.seen))))
		}
	}
	return nil
}

// withoutSplits refuses splits of a file that has none.
func withoutSplits(name, what string) error {
	return &SourceError{File: name, mistaken: true, Err: fmt.Errorf("the file is %s, which has no splits of its own; name the column that has them (data.columns.split), put its files into a directory for each split, or remove data.split, data.test.split and data.validation.split", what)}
}

// partRuns are the parts of examples, one after another.
type partRuns struct {
	encoded []byte
	part    partNumber
	length  uint64 // of the run that is not encoded yet
}

func (r *partRuns) add(part partNumber) {
	if part != r.part {
		r.flush()
		r.part = part
	}
	r.length++
}

func (r *partRuns) flush() {
	if r.length > 0 {
		r.encoded = binary.AppendUvarint(append(r.encoded, byte(r.part)), r.length)
		r.length = 0
	}
}

// readSplits replaces the parts that coins have drawn by those of the data's own splits. An
// example of the training split keeps its drawn part.
func readSplits(ctx context.Context, t *tasks.Task, parts []partNumber) error {
	encoded, err := t.Blob(ctx, CorpusInput, SplitsBlob)
	if err != nil {
		return err
	}
	at := uint64(0)
	for len(encoded) > 0 {
		part := partNumber(encoded[0])
		length, n := binary.Uvarint(encoded[1:])
		if n <= 0 || part > validation || length > uint64(len(parts))-at {
			return fmt.Errorf("splits of a corpus: %w", storage.ErrCorrupt)
		}
		for i := range parts[at : at+length] {
			parts[at+uint64(i)] = parts[at+uint64(i)].within(part)
		}
		at, encoded = at+length, encoded[1+n:]
	}
	if at != uint64(len(parts)) {
		return fmt.Errorf("splits of %d examples of a corpus with %d: %w", at, len(parts), storage.ErrCorrupt)
	}
	return nil
}

// within is the part of an example for which coins have drawn p, and whose split is that of a
// part: the coins count in the training split alone.
func (p partNumber) within(split partNumber) partNumber {
	if split != train {
		return split
	}
	return p
}
