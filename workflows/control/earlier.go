package control

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/planned"
)

// Earlier is the run before a new one of the same name with another experiment.
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

// earlier returns the newest earlier run of the same name; nil if there is none, or it cannot be
// read.
func (l *Local) earlier(ctx context.Context, run *runs.Run, spec *experiment.Spec) (*Earlier, error) {
	ids, err := l.runs.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var newest *runs.Run
	prefix := run.ID[:strings.LastIndexByte(run.ID, '-')+1]
	for _, id := range ids {
		if id == run.ID || !strings.HasPrefix(id, prefix) {
			continue
		}
		switch r, err := l.get(ctx, id); {
		case errors.Is(err, ErrNoRun), errors.Is(err, storage.ErrNotFound), runs.IsUnreadable(err):
		case err != nil:
			return nil, err
		case r.Spec.Name == spec.Name && (newest == nil || r.State.Submitted.After(newest.State.Submitted)):
			newest = r
		}
	}
	if newest == nil || newest.Spec.Digest == run.Spec.Digest {
		return nil, nil
	}
	before, err := planned.Experiment(newest)
	if err != nil {
		return nil, nil // from a build with other fields
	}
	return &Earlier{newest.ID, newest.State.Phase, l.changesOf(ctx, experiment.SpecDifferences(before, spec))}, nil
}

// changesOf returns the changes, with the differing files for code. All digests of code make
// one change.
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
			continue // collected, or one experiment has no code: the digests show that
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

// openCode opens the code with the digest that is the value of a field.
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

// differingFiles returns the files that are in only one of two archives of code, or differ, sorted.
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
