// This file imports sources into a store under a name: their files, and the corpus that
// datasets/import reads from them, as the node of experiments. An experiment names such a
// source store:NAME; if it reads the source with the settings of the import, the corpus is
// available, and no worker reads the files.
//
// The files are stored first, then the blobs of the corpus and its commit, finally the name. A
// killed import leaves no name; the next import reuses its objects, or the next collection
// removes them.

package sources

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// Importer imports sources into a store.
type Importer struct {
	Archive *storage.Archive
	// Version and Kernels identify the importing program, as for workers.
	Version, Kernels string
	// Progress, if set, gets the number of examples read so far.
	Progress func(tasks.Progress)
}

// Add imports a surveyed source under the name of an entry, and completes the entry with the
// facts of the source. If another source has the name, the error wraps storage.ErrExists;
// adding the same source again changes nothing.
func (m *Importer) Add(ctx context.Context, source *Source, e *Entry) error {
	spec, err := tasks.NewSpec(datasets.Import, datasets.Recipe{Reading: e.Reading}.Import(e.Files, e.Limits))
	if err != nil {
		return err
	}
	e.Corpus = spec.Key
	if err := m.free(ctx, e); err != nil {
		return err
	}
	if err := source.Upload(ctx, uploader{m.Archive}); err != nil {
		return err
	}
	commit, err := m.standing(ctx, spec)
	if commit == nil && err == nil {
		commit, err = m.run(ctx, spec)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(commit.Metrics, &e.Holds); err != nil {
		return fmt.Errorf("metrics of %s: %w", spec.Key.Short(), err)
	}
	if err := m.Archive.CreateEntry(ctx, e.Name, e); err != nil {
		return err
	}
	// A collection that began before the name existed may have deleted an older file.
	return source.Upload(ctx, uploader{m.Archive})
}

// free returns an error if another source has the name, before anything is stored.
func (m *Importer) free(ctx context.Context, e *Entry) error {
	var there Entry
	err := m.Archive.Entry(ctx, e.Name, &there)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return err
	case there.Corpus != e.Corpus:
		return fmt.Errorf("the name %s is that of another source, or of one that was read otherwise (sha256 %s): choose another name, or free it by: coalmine data remove %s: %w", e.Name, there.SHA256.Short(), e.Name, storage.ErrExists)
	}
	return nil
}

// standing returns the commit of a node, nil if it is not done.
func (m *Importer) standing(ctx context.Context, spec tasks.Spec) (*storage.Commit, error) {
	c, err := m.Archive.Committed(ctx, spec.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if there, err := m.Archive.Available(ctx, c); err != nil || !there {
		return nil, err
	}
	return c, nil
}

// run executes the import and commits it, as a worker would.
func (m *Importer) run(ctx context.Context, spec tasks.Spec) (*storage.Commit, error) {
	started := time.Now()
	out := &sink{archive: m.Archive, key: spec.Key}
	runner := tasks.NewRunner()
	runner.Source, runner.Report = source{runner, m.Archive}, m.Progress
	task := runner.Task(spec, out)
	if err := datasets.Import.Run(ctx, task); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	ours := &storage.Commit{
		Key: spec.Key, Kind: spec.Kind, KindVersion: spec.Version, Attempt: "0.import." + strings.ToLower(rand.Text()[:8]), Blobs: out.blobs, Metrics: task.Metrics(),
		Provenance: storage.Provenance{
			Worker: "data import", Host: host, Version: m.Version, Arch: runtime.GOARCH, Kernels: m.Kernels,
			Started: started.UTC(), Seconds: time.Since(started).Seconds(),
		},
	}
	stands, won, err := m.Archive.Commit(ctx, ours)
	if err == nil && !won && ours.Provenance.Comparable(stands.Provenance) && stands.Differs(ours) != "" {
		err = fmt.Errorf("the import is not deterministic: %s; report this", stands.Differs(ours))
	}
	return stands, err
}

// source reads imported files from the store.
type source struct {
	*tasks.Runner
	archive *storage.Archive
}

// Imported implements tasks.Source.
func (s source) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return s.archive.OpenSource(ctx, digest)
}

// sink stores the outputs of the import.
type sink struct {
	archive *storage.Archive
	key     storage.Key
	mu      sync.Mutex
	blobs   []storage.Blob
}

// Put implements tasks.Sink.
func (s *sink) Put(ctx context.Context, name string, data []byte, durability storage.Durability) error {
	blob, err := s.archive.PutBlob(ctx, s.key, name, data, durability)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs = append(s.blobs, blob)
	return nil
}

// uploader stores files in an archive.
type uploader struct{ *storage.Archive }

// PutSource implements sources.Uploader.
func (u uploader) PutSource(ctx context.Context, body io.ReadSeeker) (storage.Digest, error) {
	digest, _, err := u.Archive.PutSource(ctx, body)
	return digest, err
}
