package control

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks/datasets/source"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
)

// Choice is the run chosen for a name that fits several runs of one experiment: the newest.
type Choice struct {
	Name string // as given
	Run  string
	Fits int // number of runs
}

// String describes the choice, for display.
func (c Choice) String() string {
	return fmt.Sprintf("%q fits %d runs; using the newest, %s", c.Name, c.Fits, c.Run)
}

type choiceKey struct{}

// WithChoiceReporter returns a context that calls tell with each choice.
func WithChoiceReporter(ctx context.Context, tell func(Choice)) context.Context {
	return context.WithValue(ctx, choiceKey{}, tell)
}

// ReportChoice reports a choice to the function of WithChoiceReporter, if ctx has one.
func ReportChoice(ctx context.Context, c Choice) {
	if tell, ok := ctx.Value(choiceKey{}).(func(Choice)); ok {
		tell(c)
	}
}

// find returns the run that a name means.
func (l *Local) find(ctx context.Context, name string) (*runs.Run, error) {
	if name == "" || name == experiment.Latest {
		return l.latest(ctx)
	}
	fits, err := l.fitting(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(fits) == 1 {
		return l.get(ctx, fits[0])
	}
	return l.newest(ctx, name, fits)
}

// findOnly is find for operations that cannot be undone. A name that fits several runs is an error, and so
// is the id of a removed run, even if ids of later runs begin with it.
func (l *Local) findOnly(ctx context.Context, name string) (*runs.Run, error) {
	if name == "" || name == experiment.Latest {
		return l.latest(ctx)
	}
	fits, err := l.fitting(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(fits[0], name+"."):
		return nil, fmt.Errorf("run %q: %w in %s; other runs begin with it: %s (give a whole id)", name, ErrNoRun, l.archive, strings.Join(fits, ", "))
	case len(fits) > 1:
		return nil, fmt.Errorf("run %q: %w begin with it: %s; give a whole id", name, ErrAmbiguous, strings.Join(fits, ", "))
	}
	return l.get(ctx, fits[0])
}

func (l *Local) latest(ctx context.Context) (*runs.Run, error) {
	all, unreadable, err := l.runs.Readable(ctx)
	if err != nil {
		return nil, err
	}
	if all = present(all); len(all) > 0 {
		return all[0], nil
	}
	if n := len(unreadable); n > 0 {
		return nil, fmt.Errorf("%w: none of the %d runs in %s can be read (coalmine status lists them); for example %s: %w", ErrNoRun, n, l.archive, unreadable[0].ID, unreadable[0].Err)
	}
	return nil, fmt.Errorf("%w: %s has no runs yet; start one with: coalmine run FILE", ErrNoRun, l.archive)
}

// fitting returns the ids of the runs that a name may mean, at least one.
func (l *Local) fitting(ctx context.Context, name string) ([]string, error) {
	ids, err := l.runs.IDs(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(ids, name) {
		return []string{name}, nil
	}
	if _, err := l.runs.Get(ctx, name); runs.IsUnreadable(err) {
		return []string{name}, nil // the run has lost its record
	}
	fits := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, name) })
	if named := slices.DeleteFunc(slices.Clone(fits), func(id string) bool { return !runs.BelongsTo(id, name) }); len(named) > 0 {
		return named, nil // drops experiments with longer names that begin with it
	}
	if len(fits) == 0 {
		return nil, fmt.Errorf("run %q: %w in %s; see: coalmine status%s", name, ErrNoRun, l.archive, similar(name, ids))
	}
	return fits, nil
}

// similar returns a clause that names the run that an unknown name may mean: that of a cell, or one with a
// similar name.
func similar(name string, ids []string) string {
	isRun := func(name string) bool {
		return name == experiment.Latest || slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(id, name) })
	}
	if run, cell, ok := strings.Cut(name, "/"); ok && isRun(run) {
		return fmt.Sprintf("; expected a run without the cell %s: %s", readable.Text(cell), readable.Text(run))
	}
	names := slices.Clone(ids)
	for _, id := range ids {
		names = append(names, id[:max(0, strings.LastIndexByte(id, '-'))])
	}
	return readable.DidYouMean(readable.Nearest(name, names))
}

// newest returns the last submitted of several runs if all belong to one experiment. It ignores removed and
// unreadable runs.
func (l *Local) newest(ctx context.Context, name string, fits []string) (newest *runs.Run, err error) {
	n := 0
	for run, err := range l.existing(ctx, oneOfEachFirst(fits)) {
		switch {
		case err != nil:
			return nil, err
		case newest != nil && run.Spec.Name != newest.Spec.Name:
			return nil, fmt.Errorf("run %q: %w of different experiments begin with it: %s", name, ErrAmbiguous, strings.Join(fits, ", "))
		}
		newest = newer(newest, run)
		n++
	}
	switch {
	case n == 0:
		return nil, fmt.Errorf("run %q: %w with a readable record in %s; see: coalmine status", name, ErrNoRun, l.archive)
	case n > 1:
		ReportChoice(ctx, Choice{name, newest.ID, n})
	}
	return newest, nil
}

// oneOfEachFirst moves one id of each experiment to the front, so that few runs are read if experiments differ.
func oneOfEachFirst(ids []string) []string {
	seen := map[string]bool{}
	var first, others []string
	for _, id := range ids {
		experiment := id[:max(0, strings.LastIndexByte(id, '-'))]
		if seen[experiment] {
			others = append(others, id)
			continue
		}
		seen[experiment] = true
		first = append(first, id)
	}
	return append(first, others...)
}

func bySubmission(a, b *runs.Run) int { return a.State.Submitted.Compare(b.State.Submitted) }

// newer returns the last submitted of two runs; a may be nil.
func newer(a, b *runs.Run) *runs.Run {
	if a == nil || bySubmission(b, a) > 0 {
		return b
	}
	return a
}

// existing reads the runs with these ids, except removed and unreadable ones, up to the first error.
func (l *Local) existing(ctx context.Context, ids []string) iter.Seq2[*runs.Run, error] {
	return func(yield func(*runs.Run, error) bool) {
		for _, id := range ids {
			run, err := l.get(ctx, id)
			if errors.Is(err, ErrNoRun) || errors.Is(err, storage.ErrNotFound) || runs.IsUnreadable(err) {
				continue
			}
			if !yield(run, err) || err != nil {
				return
			}
		}
	}
}

// removed reports whether a run has no record any more. Its log, which recorded its end, may be gone too.
func (l *Local) removed(ctx context.Context, id string) bool {
	there, err := l.archive.HasRun(ctx, id)
	return err == nil && !there && errors.Is(l.runs.AddSpec(ctx, &runs.Run{ID: id}), storage.ErrNotFound)
}

// Earlier is the run before a new run of the same name with another experiment.
type Earlier struct {
	Run   string     `json:"run"`
	Phase runs.Phase `json:"state"`
	// Changes lists the fields in which the experiments differ, with the files for code.
	Changes []Change `json:"changes"`
}

// Change is a field in which two experiments differ.
type Change struct {
	experiment.Difference
	// Files names the files of training.code that differ.
	Files []string `json:"files,omitempty"`
}

// String returns a text such as "training.code: train.py" or "training.rounds: 40 -> 60".
func (c Change) String() string {
	if len(c.Files) > 0 {
		return c.Path + ": " + strings.Join(c.Files, ", ")
	}
	return c.Difference.String()
}

// earlier returns the newest earlier run of the same name. It returns nil if there is no such run, or if that run
// has the same experiment or cannot be read.
func (l *Local) earlier(ctx context.Context, run *runs.Run, spec *experiment.Spec) (*Earlier, error) {
	ids, err := l.runs.IDs(ctx)
	if err != nil {
		return nil, err
	}
	prefix := run.ID[:strings.LastIndexByte(run.ID, '-')+1]
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == run.ID || !strings.HasPrefix(id, prefix) })
	var newest *runs.Run
	for r, err := range l.existing(ctx, ids) {
		if err != nil {
			return nil, err
		}
		if r.Spec.Name == spec.Name {
			newest = newer(newest, r)
		}
	}
	if newest == nil || newest.Spec.Digest == run.Spec.Digest {
		return nil, nil
	}
	before, err := runs.Experiment(newest)
	if err != nil {
		return nil, nil // from a build with other fields
	}
	return &Earlier{newest.ID, newest.State.Phase, l.changesOf(ctx, experiment.SpecDifferences(before, spec))}, nil
}

// changesOf returns the changes, with the differing files for code. It merges all digests of code into one change.
func (l *Local) changesOf(ctx context.Context, differences []experiment.Difference) []Change {
	changes, code := []Change{}, -1
	for _, d := range differences {
		if d.Path != "training.code_sha256" && d.Path != "training.scorer_sha256" {
			changes = append(changes, Change{Difference: d})
			continue
		}
		if code < 0 {
			code = len(changes)
			changes = append(changes, Change{Difference: d})
		}
		files, err := l.changedFiles(ctx, d)
		if err != nil || len(files) == 0 {
			continue // collected, or one experiment has no code: show the digests
		}
		c := &changes[code]
		c.Path, c.Files = "training.code", slices.Compact(slices.Sorted(slices.Values(append(c.Files, files...))))
	}
	return changes
}

// changedFiles compares two archives of code.
func (l *Local) changedFiles(ctx context.Context, d experiment.Difference) ([]string, error) {
	before, err := l.openCode(ctx, d.Before)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	after, err := l.openCode(ctx, d.After)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	return differingFiles(before, after)
}

// openCode opens the code whose digest is the value of a field.
func (l *Local) openCode(ctx context.Context, value json.RawMessage) (io.ReadCloser, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, err
	}
	digest, err := storage.ParseDigest(text)
	if err != nil {
		return nil, err
	}
	return l.archive.OpenSource(ctx, digest)
}

// differingFiles returns the files that differ or are in only one of two archives of code, sorted.
func differingFiles(before, after io.Reader) ([]string, error) {
	old, err := digests(before)
	if err != nil {
		return nil, err
	}
	files, err := digests(after)
	if err != nil {
		return nil, err
	}
	for name, digest := range old {
		if files[name] == digest {
			delete(files, name)
		} else {
			files[name] = digest
		}
	}
	return slices.Sorted(maps.Keys(files)), nil
}

// digests returns the digests of the files of an archive, each with the file's mode, by name.
func digests(r io.Reader) (map[string]string, error) {
	archive, files := tar.NewReader(r), map[string]string{}
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, archive); err != nil {
			return nil, err
		}
		files[h.Name] = fmt.Sprintf("%o %x", h.Mode, hash.Sum(nil))
	}
}

// File is an experiment file as its author wrote it.
type File struct {
	// Name is the file's name in messages.
	Name string
	Text []byte
	// Sets are overrides, each path=value.
	Sets []string
	// Priority is the priority of the run, as in runs.Spec.
	Priority *int
}

// AllowSources lets submitted files name data in allowed places. Otherwise they can name only uploaded data.
func (l *Local) AllowSources(allowed *sources.Allowed) { l.allowed = allowed }

func (l *Local) SubmitFile(ctx context.Context, file File, fresh bool) (Submitted, error) {
	finder := sources.Served{Archive: l.archive, Allowed: l.allowed}
	// Pass no secret key: this process's keys are not for clients.
	s, err := submission.PrepareFile(ctx, file.Name, file.Text, experiment.Options{Sets: file.Sets}, finder, nil)
	if err != nil {
		return Submitted{}, blame(err)
	}
	if err := s.Upload(ctx, l); err != nil {
		return Submitted{}, err
	}
	record := s.Record()
	record.Priority = file.Priority
	return l.Submit(ctx, record, fresh)
}

// blame marks mistakes of an experiment and of its data as errors of the client.
func blame(err error) error {
	if _, large := errors.AsType[*compile.SizeError](err); large {
		return fmt.Errorf("experiment %w: %w", ErrExperiment, err)
	}
	_, mistake := errors.AsType[*experiment.Error](err)
	_, faulty := errors.AsType[*source.Error](err)
	if mistake || faulty {
		return fmt.Errorf("experiment %w: %w", ErrInput, err)
	}
	return err
}
