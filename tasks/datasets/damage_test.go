package datasets

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
)

// importedFrom is a source of tasks that has imported files only.
type importedFrom struct {
	tasks.Source
	archive *storage.Archive
}

func (s importedFrom) Imported(ctx context.Context, d storage.Digest) (io.ReadCloser, error) {
	return s.archive.OpenSource(ctx, d)
}

// A file that was damaged on its way mostly makes no sense, and yet nothing is
// wrong with it: the import must be tried again, not given up.
func TestTransferDamageIsNotPermanent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text      string
		rule      *storagetest.Fault
		permanent bool
	}{
		"a fault of the source": {text: "{\n", permanent: true},
		"a byte is wrong":       {text: `{"user":"u","text":"a"}` + "\n", rule: &storagetest.Fault{Op: storagetest.Get, Flip: true}},
		"the end is missing":    {text: `{"user":"u","text":"a"}` + "\n", rule: &storagetest.Fault{Op: storagetest.Get, Truncate: 3}},
		"nothing comes":         {text: `{"user":"u","text":"a"}` + "\n", rule: &storagetest.Fault{Op: storagetest.Get, Truncate: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := storagetest.WithFaults(storagetest.NewMemory())
			archive := storage.NewArchive(store)
			digest, _, err := archive.PutSource(t.Context(), bytes.NewReader([]byte(test.text)))
			must.Do(t, err)
			if test.rule != nil {
				store.Add(test.rule)
			}
			spec := must.Get(tasks.NewSpec(Import, ImportParams{Sources: []storage.Digest{digest}}))(t)
			err = Import.Run(t.Context(), tasks.NewTask(spec, importedFrom{archive: archive}, nil, nil, nil))
			if err == nil || tasks.IsPermanent(err) != test.permanent || errors.Is(err, storage.ErrCorrupt) == test.permanent {
				t.Errorf("got %v, want it permanent: %v", err, test.permanent)
			}
		})
	}
}

func TestSurveyAndImportSkipSameRecords(t *testing.T) {
	t.Parallel()
	data := []byte("user,text\nann,hello there\n,there\nbob,again\nbob,\n")
	reading := source.Reading{Origin: source.Origin{Form: forms.CSV, SkipFaults: true}}
	facts := must.Get(Survey(t.Context(), []source.File{fileOf("posts", data)}, source.Limits{}, []Recipe{{Reading: reading, VocabularySize: 1}}))(t)
	want := []string{`file 1, line 3: "user" is empty`, `file 1, line 5: "text" is empty`}
	if got := facts[0].Source.Skipped; got == nil || got.Records != 2 || !slices.Equal(got.First, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}
