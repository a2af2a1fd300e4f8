package sources_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
)

const table = "author,body\nann,hello there\nbob,again\n"

var byAuthor = source.Reading{Origin: source.Origin{Form: forms.CSV, Columns: forms.Columns{User: "author", Text: "body"}}}

// surveyed is a file as a source whose digest is known, and its entry.
func surveyed(t *testing.T, text string) (*sources.Source, *sources.Entry) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "posts")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	s := must.Get(sources.LocalFinder{}.Find(t.Context(), path, ""))(t)
	must.Get(s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{Reading: byAuthor, VocabularySize: 1}}))(t)
	return s, &sources.Entry{Name: "posts", SHA256: experiment.SourceDigest(s.Digests()), Files: s.Digests(), Reading: byAuthor}
}

func TestImportMatchesNodeOfExperiments(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	s, e := surveyed(t, table)
	m := sources.Importer{Archive: archive}
	must.Do(t, m.Add(t.Context(), s, e))
	g := taskstest.NewGraph(t)
	want := g.Run(datasets.Import, datasets.Recipe{Reading: byAuthor.Complete()}.Import([]storage.Digest{g.Import([]byte(table))}, source.Limits{}))
	commit := must.Get(archive.Committed(t.Context(), want.Key))(t)
	for _, b := range commit.Blobs {
		if got, err := archive.ReadBlob(t.Context(), want.Key, b); err != nil || string(got) != string(want.Blob(b.Name)) {
			t.Errorf("%s: %q, %v; the task has %q", b.Name, got, err, want.Blob(b.Name))
		}
	}
	entries, err := sources.Library{Archive: archive}.Entries(t.Context())
	if err != nil || len(entries) != 1 || entries[0].Corpus != want.Key || entries[0].Holds.Users != 2 {
		t.Errorf("entries %+v, %v", entries, err)
	}
	if err := m.Add(t.Context(), s, e); err != nil {
		t.Errorf("the same source again: %v", err)
	}
}

func TestSourceIsFoundByName(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	here := sources.LocalFinder{Library: func(context.Context) (*sources.Library, error) { return &sources.Library{Archive: archive}, nil }}
	_, err := here.Find(t.Context(), "store:posts", "")
	must.Say(t, err, "store:posts", "has no named sources", "data import")
	s, e := surveyed(t, table)
	must.Do(t, (&sources.Importer{Archive: archive}).Add(t.Context(), s, e))
	must.Do(t, os.Remove(s.Files[0].Name))
	for _, finder := range []sources.Finder{here, sources.Served{Archive: archive}} {
		found := must.Get(finder.Find(t.Context(), "store:posts", ""))(t)
		facts, err := found.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{Reading: byAuthor, VocabularySize: 1}})
		if err != nil || facts[0].Source.Examples != 2 || !reflect.DeepEqual(found.Digests(), e.Files) {
			t.Errorf("%+v, %v", facts, err)
		}
	}
	_, err = here.Find(t.Context(), "store:other", "")
	must.Say(t, err, "expected one of posts")
	_, err = sources.LocalFinder{}.Find(t.Context(), "store:posts", "")
	must.Say(t, err, "no store is given", "--store")
}

func TestImportRejectsTakenName(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	m := sources.Importer{Archive: storage.NewArchive(memory)}
	s, e := surveyed(t, table)
	must.Do(t, m.Add(t.Context(), s, e))
	s, e = surveyed(t, table+"cid,more\n")
	err := m.Add(t.Context(), s, e)
	must.Say(t, err, "the name posts", "coalmine data remove posts")
	if there, err := m.Archive.HasSource(t.Context(), e.Files[0]); there || err != nil {
		t.Errorf("the other source is stored: %v, %v", there, err)
	}
}

// TestFailedImportLeavesNoName fails the writes of one step after another.
func TestFailedImportLeavesNoName(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"sources/*", "commits/*", "library/*"} {
		store := storagetest.WithFaults(storagetest.NewMemory())
		store.Add(&storagetest.Fault{Name: at, Op: storagetest.Put, Err: errBroken}, &storagetest.Fault{Name: at, Op: storagetest.Create, Err: errBroken})
		m := sources.Importer{Archive: storage.NewArchive(store)}
		s, e := surveyed(t, table)
		if err := m.Add(t.Context(), s, e); err == nil {
			t.Errorf("%s: no error", at)
		}
		if names, err := m.Archive.Entries(t.Context()); len(names) > 0 || err != nil {
			t.Errorf("%s: names %v, %v", at, names, err)
		}
		store.Clear()
		if err := m.Add(t.Context(), s, e); err != nil {
			t.Errorf("%s: once more: %v", at, err)
		}
	}
}

var errBroken = errors.New("broken")
