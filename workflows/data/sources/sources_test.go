package sources

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
)

// line is one example.
func line(user, text string) string { return fmt.Sprintf(`{"user":%q,"text":%q}`+"\n", user, text) }

// directory writes files by name below a new directory.
func directory(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

func zstandard(text string) string {
	w, _ := zstd.NewWriter(nil)
	return string(w.EncodeAll([]byte(text), nil))
}

// three files of a directory, in their order.
func three() map[string]string {
	return map[string]string{
		"a.jsonl":     line("ann", "one two") + line("bob", "three"),
		"b.jsonl.gz":  gzipped(line("ann", "four")),
		"c.jsonl.zst": zstandard(line("cid", "five six seven")),
	}
}

func find(t *testing.T, name string) *Source {
	t.Helper()
	return must.Get(LocalFinder{}.Find(t.Context(), name, ""))(t)
}

func survey(t *testing.T, s *Source) datasets.ImportMetrics {
	t.Helper()
	facts := must.Get(s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 2, Words: 1}}))(t)
	return facts[0].Source
}

func TestDirectoryListsDataFilesByName(t *testing.T) {
	t.Parallel()
	files := three()
	want := []storage.Digest{
		storage.DigestOf([]byte(files["a.jsonl"])),
		storage.DigestOf([]byte(files["b.jsonl.gz"])),
		storage.DigestOf([]byte(files["c.jsonl.zst"])),
	}
	files["README.md"], files[".hidden.jsonl"], files[".git/x.jsonl"] = "text", "no JSON", "no JSON"
	s := find(t, directory(t, files))
	if m := survey(t, s); m.Users != 3 || m.Examples != 4 || m.Words != 7 {
		t.Errorf("counted %+v; ann is in two files, and one user", m)
	}
	if got := s.Digests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("digests %v, want %v", got, want)
	}
}

func TestUnreadableSourcesAreReported(t *testing.T) {
	t.Parallel()
	one := line("ann", "one")
	for name, c := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"nothing":      {map[string]string{"README": "x"}, []string{"holds no data", ".jsonl.zst"}},
		"subdirectory": {map[string]string{"a.jsonl": one, "more/b.jsonl": one}, []string{"subdirectory more", "is not read"}},
		"a bad line":   {map[string]string{"a.jsonl": one, "b.jsonl": one + "oops\n"}, []string{"b.jsonl, line 2", "not JSON"}},
		"a cut file":   {map[string]string{"a.jsonl": one, "b.jsonl.gz": gzipped(one)[:20]}, []string{"b.jsonl.gz", "truncated"}},
		"no lines":     {map[string]string{"a.jsonl": "", "b.jsonl": ""}, []string{"holds no records"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := directory(t, c.files)
			s, err := LocalFinder{}.Find(t.Context(), dir, "")
			if err == nil {
				_, err = s.Survey(t.Context(), source.Limits{}, nil)
			}
			must.Say(t, err, append(c.says, dir)...)
		})
	}
	_, err := LocalFinder{Folder: "/elsewhere"}.Find(t.Context(), "absent.jsonl", "")
	must.Say(t, err, "absent.jsonl", "no such file", "/elsewhere")
	_, err = LocalFinder{}.Find(t.Context(), "/dev/null", "")
	must.Say(t, err, "/dev/null", "neither a regular file nor a directory")
}

// splitReading reads the split test as the test part.
var splitReading = source.Reading{Origin: source.Origin{TestSplit: "test"}}

func TestSubdirectoriesAreSplits(t *testing.T) {
	t.Parallel()
	dir := directory(t, map[string]string{"train/a.jsonl": line("ann", "one") + line("bob", "two"), "test/a.jsonl": line("cid", "three"), "raw/README": "text"})
	s := find(t, dir)
	if got := s.Splits(); !slices.Equal(got, []string{"test", "train"}) {
		t.Errorf("splits %q", got)
	}
	facts, err := s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{Reading: splitReading, VocabularySize: 1}})
	if err != nil || facts[0].Parts.Train.Examples != 2 || facts[0].Parts.Test.Examples != 1 {
		t.Errorf("%+v, %v", facts, err)
	}
	for _, f := range s.Files {
		if f.Digest == (storage.Digest{}) {
			t.Errorf("the digest of %s is not known", f.Name)
		}
	}
	_, err = s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 1}})
	must.Say(t, err, dir, "has the subdirectories test, train", "data.split: train")
	_, err = LocalFinder{}.Find(t.Context(), directory(t, map[string]string{"train/a.jsonl": "", "train/more/b.jsonl": ""}), "")
	must.Say(t, err, "subdirectory more", "is not read")
}

func TestShardNamesAreSplits(t *testing.T) {
	t.Parallel()
	s := find(t, directory(t, map[string]string{
		"train-00000-of-00002.jsonl": line("ann", "one"), "train-00001-of-00002.jsonl": line("ann", "two"), "test-00000-of-00001.jsonl": line("bob", "three"),
		"other.jsonl": "",
	}))
	if got := s.Splits(); !slices.Equal(got, []string{"", "test", "train", "train"}) {
		t.Errorf("splits %q", got)
	}
	facts, err := s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 1}})
	if err != nil || facts[0].Parts.Train.Examples != 3 {
		t.Errorf("nobody asks for splits: %+v, %v", facts, err)
	}
}

func TestRelativeNameIsFoundBesideExperiment(t *testing.T) {
	t.Parallel()
	dir := directory(t, map[string]string{"texts/a.jsonl": line("ann", "one")})
	s, err := LocalFinder{Folder: dir}.Find(t.Context(), "texts", "")
	if err != nil || len(s.Files) != 1 || s.Files[0].Name != filepath.Join(dir, "texts", "a.jsonl") {
		t.Errorf("found %+v, %v", s, err)
	}
}

// shelf keeps sources in memory.
type shelf struct {
	kept map[storage.Digest]string
	puts int
}

func (s *shelf) HasSource(_ context.Context, d storage.Digest) (bool, error) {
	_, there := s.kept[d]
	return there, nil
}

func (s *shelf) PutSource(_ context.Context, body io.ReadSeeker) (storage.Digest, error) {
	s.puts++
	data, err := io.ReadAll(body)
	digest := storage.DigestOf(data)
	s.kept[digest] = string(data)
	return digest, err
}

func TestOnlyMissingFilesAreUploaded(t *testing.T) {
	t.Parallel()
	to := &shelf{kept: map[storage.Digest]string{}}
	files := three()
	dir := directory(t, files)
	for _, puts := range []int{3, 3} {
		s := find(t, dir)
		survey(t, s)
		if err := s.Upload(t.Context(), to); err != nil || to.puts != puts {
			t.Fatalf("%d uploads, %v; want %d", to.puts, err, puts)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "b.jsonl.gz"), []byte(gzipped(line("eve", "new"))), 0o600))
	s := find(t, dir)
	survey(t, s)
	if err := s.Upload(t.Context(), to); err != nil || to.puts != 4 {
		t.Errorf("%d uploads, %v; only one file is new", to.puts, err)
	}
}

func TestFileChangedAfterSurveyIsRejected(t *testing.T) {
	t.Parallel()
	dir := directory(t, map[string]string{"a.jsonl": line("ann", "one")})
	s := find(t, dir)
	survey(t, s)
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(line("ann", "two")), 0o600))
	must.Say(t, s.Upload(t.Context(), &shelf{kept: map[storage.Digest]string{}}), "a.jsonl", "the file has changed since it was checked")
}

func TestDirectoryMayHoldOneOtherForm(t *testing.T) {
	t.Parallel()
	reading := source.Reading{Origin: source.Origin{Form: forms.CSV}}
	tables := directory(t, map[string]string{
		"b.csv": "user,text\nbob,two words\n", "a.csv.gz": gzipped("user,text\nann,one\n"), "notes.txt": "left out", ".c.csv": "hidden",
	})
	var users []string
	for record, err := range find(t, tables).Records(t.Context(), source.Limits{}, reading) {
		must.Do(t, err)
		users = append(users, record.User)
	}
	if !slices.Equal(users, []string{"ann", "bob"}) {
		t.Errorf("users %q", users)
	}
	both := directory(t, map[string]string{"b.csv": "left out, too", "a.jsonl": line("ann", "one")})
	if files := find(t, both).Files; len(files) != 1 || filepath.Base(files[0].Name) != "a.jsonl" {
		t.Errorf("files %v", files)
	}
	_, err := LocalFinder{}.Find(t.Context(), directory(t, map[string]string{"b.csv": "", "a.parquet": ""}), "")
	must.Say(t, err, "holds files of several forms: .csv, .parquet; expected one")
}

// SQLite keeps changes beside a database until it has joined them.
func TestDatabaseWithPendingChangesIsRejected(t *testing.T) {
	t.Parallel()
	const database, changes = "SQLite format 3\x00 and pages", "7\x7f\x06\x82 and pages"
	for name, c := range map[string]struct {
		files   map[string]string
		refused bool
	}{
		"whole":               {map[string]string{"a.sqlite": database}, false},
		"with changes":        {map[string]string{"a.sqlite": database, "a.sqlite-wal": changes}, true},
		"with no changes":     {map[string]string{"a.sqlite": database, "a.sqlite-wal": ""}, false},
		"cut off":             {map[string]string{"a.sqlite": database, "a.sqlite-journal": "\xd9\xd5\x05\xf9 and pages"}, true},
		"with a journal kept": {map[string]string{"a.sqlite": database, "a.sqlite-journal": strings.Repeat("\x00", 512)}, false},
		"another file":        {map[string]string{"a.sqlite": "user,text\n", "a.sqlite-wal": changes}, false},
	} {
		folder := directory(t, c.files)
		for _, source := range []string{folder, filepath.Join(folder, "a.sqlite")} {
			_, err := LocalFinder{}.Find(t.Context(), source, "")
			if refused := err != nil && strings.Contains(err.Error(), "a part of the database stands in"); refused != c.refused || err != nil && !refused {
				t.Errorf("%s: got %v, want it refused: %v", name, err, c.refused)
			}
		}
	}
}
