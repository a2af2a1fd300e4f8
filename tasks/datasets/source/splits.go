package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/population"
)

// Divides reports whether the test or validation part is one of the data's own splits. Examples
// outside the chosen splits are then not read.
func (o Origin) Divides() bool { return o.TestSplit != "" || o.ValidationSplit != "" }

// FileSplits encodes the splits of files for Origin.Files.
func FileSplits(splits []string) string { return strings.Join(splits, "\n") }

// FileSplits returns the split of each file.
func (o Origin) FileSplits(files int) ([]string, error) {
	splits := make([]string, files)
	if o.Files == "" {
		return splits, nil
	}
	if splits = strings.Split(o.Files, "\n"); len(splits) != files {
		return nil, fmt.Errorf("splits of %d files, and the source has %d; expected one for each", len(splits), files)
	}
	return splits, nil
}

// Named reports whether any split is configured; otherwise splits are ignored.
func (o Origin) Named() bool { return o.Divides() || o.Split != "" || o.Columns.Split != "" }

// SplitByFile reports whether file names determine splits: splits are read, and not from a column.
func (o Origin) SplitByFile() bool { return o.Named() && o.Columns.Split == "" }

// splits returns the splits that are read, in the order of Parts; empty for a part without one.
func (o Origin) splits() [3]string {
	return [...]string{cmp.Or(o.Split, forms.TrainSplit), o.TestSplit, o.ValidationSplit}
}

// wanted returns the names of the splits that are read.
func (o Origin) wanted() []string {
	names := o.splits()
	return slices.DeleteFunc(names[:], func(name string) bool { return name == "" })
}

func (o Origin) checkSplits() error {
	if o.Files != "" && !o.SplitByFile() {
		return errors.New("splits of files without a split to read, or with a column of splits; expected a split to read, and no such column")
	}
	names := o.wanted()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("the split %q is used for two parts; expected a separate split for each", name)
		}
	}
	return nil
}

// splitReader determines the parts of records by their splits.
type splitReader struct {
	Origin
	seen map[string]bool // splits of the source, at most maxSplits
	file string          // split of the current file, if its name determines it
}

// begin begins a file with a split, which may be empty, and reports whether to read it.
func (s *splitReader) begin(split string) bool {
	if s.file = ""; split == "" || !s.SplitByFile() {
		return true
	}
	s.file, s.seen[split] = split, true
	return slices.Contains(s.wanted(), split)
}

// ofFile sets the part of a record to that of the file's split, if the file has one. Records
// without a split train.
func (s *splitReader) ofFile(rec *Record) {
	if s.file != "" {
		rec.Part, _, _ = s.part(nil) // begin has checked that the split is read
	}
	rec.Part = cmp.Or(rec.Part, population.Train)
}

// lacking reports whether splits are required of a file that has none: not its own, not in a
// column, not by its name.
func (s *splitReader) lacking(own bool) bool {
	if own {
		s.file = "" // its rows have their own
	}
	return s.SplitByFile() && !own && s.file == ""
}

// maxSplits bounds the values remembered of a column that does not hold splits.
const maxSplits = 50

// part returns the part of a record of a split, or false if the split is not read. Records of a
// source without splits train.
func (s *splitReader) part(split *string) (part population.Part, wanted bool, err error) {
	if !s.Named() {
		return population.Train, true, nil
	}
	if s.file != "" {
		split = &s.file
	}
	if split == nil || *split == "" {
		return "", false, fmt.Errorf("%q is missing", s.Columns.Split)
	}
	if len(s.seen) < maxSplits {
		s.seen[*split] = true
	}
	names := s.splits()
	at := slices.Index(names[:], *split)
	if at < 0 {
		return "", false, nil
	}
	return population.Parts[at], true, nil
}

// absent returns an error for a required split that the source lacks, nil if it has all.
func (s *splitReader) absent() error {
	for _, name := range s.wanted() {
		if s.Named() && !s.seen[name] && len(s.seen) < maxSplits {
			return fmt.Errorf("there is no split %q; expected one of %s", name, forms.Quoted(slices.Sorted(maps.Keys(s.seen))))
		}
	}
	return nil
}

func withoutSplits(name, form string) error {
	return &Error{File: name, mistaken: true, Err: fmt.Errorf("the file is %s, which has no splits of its own; name the column that has them (data.columns.split), put its files into a directory for each split, or remove data.split, data.test.split and data.validation.split", form)}
}
