package sources

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
	"coalmine/workflows/data/conversion"
)

// Text files as people have them: folders of users, or a file for each.
var (
	novels = map[string]string{
		"austen/emma.txt": "One.\nTwo.\n\nThree.", "austen/letters/1796.txt": "Four.", "carroll/alice.txt": "\ufeffDown.\r\n",
		"README.md": "no text", "austen/.draft.txt": "hidden", ".git/x.txt": "hidden",
	}
	letters = map[string]string{"ann.txt": "Hi.\nBye.", "bob.txt": "Yes.", "notes.pdf": "no text"}
)

func records(t *testing.T, s *Source, r source.Reading) (all []string) {
	t.Helper()
	for rec, err := range s.Records(t.Context(), source.Limits{}, r) {
		must.Do(t, err)
		all = append(all, rec.User+": "+rec.Text)
	}
	return all
}

// A directory of text files reads as the output of data convert, example by example.
func TestTextDirectoryMatchesConvertedTexts(t *testing.T) {
	t.Parallel()
	for _, files := range []map[string]string{novels, letters} {
		for _, unit := range []forms.Unit{forms.Lines, forms.Paragraphs, forms.WholeFiles} {
			dir := directory(t, files)
			var converted bytes.Buffer
			must.Get(conversion.Texts(conversion.TextFiles{Folder: dir, Ending: forms.TextEnd, Unit: unit}, &converted))(t)
			lines := must.Get(Text(converted.Bytes()).Find(t.Context(), "texts.jsonl", ""))(t)
			want := records(t, lines, source.Reading{})
			got := records(t, find(t, dir), source.Reading{Origin: source.Origin{Form: forms.Texts, Unit: unit}})
			if !slices.Equal(got, want) || len(got) < 2 {
				t.Errorf("by %s: %q, want %q", unit, got, want)
			}
		}
	}
}

// kept is an uploader that keeps its uploads.
type kept map[storage.Digest][]byte

func (k kept) HasSource(_ context.Context, d storage.Digest) (bool, error) { return k[d] != nil, nil }

func (k kept) PutSource(_ context.Context, body io.ReadSeeker) (storage.Digest, error) {
	data, err := io.ReadAll(body)
	d := storage.DigestOf(data)
	k[d] = data
	return d, err
}

// Workers see neither the directory nor its names, and read the uploads.
func TestTextFilesAreOneFileOfTheStore(t *testing.T) {
	t.Parallel()
	store := kept{}
	var found []storage.Digest
	for range 2 { // elsewhere, with other files beside them
		s := find(t, directory(t, novels))
		if m := survey(t, s); m.Users != 2 || m.Examples != 5 {
			t.Errorf("counted %+v", m)
		}
		must.Do(t, s.Upload(t.Context(), store))
		found = append(found, s.Digests()...)
	}
	if len(found) != 2 || found[0] != found[1] || len(store) != 1 {
		t.Fatalf("digests %v of the same texts, and %d files stored", found, len(store))
	}
	uploaded := must.Get(Text(store[found[0]]).Find(t.Context(), "as uploaded", ""))(t)
	if got, want := records(t, uploaded, source.Reading{}), records(t, find(t, directory(t, novels)), source.Reading{}); !slices.Equal(got, want) {
		t.Errorf("%q were uploaded, and %q found", got, want)
	}
}

func TestTextFaultsNameFileAndLine(t *testing.T) {
	t.Parallel()
	files := maps.Clone(novels)
	files["bronte/jane.txt"] = "Fine.\n\xffBad.\nFine.\n\xff\xfe\n"
	dir := directory(t, files)
	_, err := find(t, dir).Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 2, Words: 1}})
	must.Say(t, err, dir+`, bronte/jane.txt, line 2: "text" is not valid UTF-8 from its byte 1`)
	skipping := source.Reading{Origin: source.Origin{SkipFaults: true}}
	facts := must.Get(find(t, dir).Survey(t.Context(), source.Limits{}, []datasets.Recipe{{Reading: skipping, VocabularySize: 2, Words: 1}}))(t)
	if m := facts[0].Source; m.Users != 3 || m.Examples != 7 || m.Skipped == nil || m.Skipped.Records != 2 {
		t.Errorf("%+v, %+v", m, m.Skipped)
	}
}

func TestAmbiguousTextDirectoriesAreRejected(t *testing.T) {
	t.Parallel()
	mixed := directory(t, map[string]string{"ann.txt": "Hi.", "bob/a.txt": "Yes."})
	_, err := LocalFinder{}.Find(t.Context(), mixed, "")
	must.Say(t, err, mixed, "has the text file ann.txt beside folders", "not both")

	named := directory(t, map[string]string{"b\xff/a.txt": "Hi."})
	_, err = LocalFinder{}.Find(t.Context(), named, "")
	must.Say(t, err, `has the file name "b\xff", which is not UTF-8; rename the file`)

	led := directory(t, map[string]string{"novels/ann/a.txt": "Hi.", "elsewhere/a.txt": "Yes.", "notes.pdf": "no text"})
	for link, to := range map[string]string{"novels/bob": "../elsewhere", "novels/notes.pdf": "../notes.pdf", "novels/.trash": "../elsewhere"} {
		must.Do(t, os.Symlink(to, filepath.Join(led, link)))
	}
	_, err = LocalFinder{}.Find(t.Context(), filepath.Join(led, "novels"), "")
	must.Say(t, err, "novels: has the link bob to a directory, which is not followed; replace it by the directory")
	must.Do(t, os.Remove(filepath.Join(led, "novels/bob")))
	if got := records(t, find(t, filepath.Join(led, "novels")), source.Reading{}); !slices.Equal(got, []string{"ann: Hi."}) {
		t.Errorf("beside links to what is no text: %q", got)
	}

	gone := directory(t, letters)
	s := find(t, gone)
	must.Do(t, os.Remove(filepath.Join(gone, "bob.txt")))
	_, err = s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 2, Words: 1}})
	must.Say(t, err, filepath.Join(gone, "bob.txt"), "no such file")
}

// Beside data files text files are notes.
func TestTextFilesBesideDataAreLeftOut(t *testing.T) {
	t.Parallel()
	for split, files := range map[string]map[string]string{
		"":      {"a.jsonl": line("ann", "one"), "README.txt": "Notes."},
		"train": {"train/a.jsonl": line("ann", "one"), "test/a.jsonl": line("bob", "two"), "train/README.txt": "Notes."},
	} {
		got := records(t, find(t, directory(t, files)), source.Reading{Origin: source.Origin{Split: split}})
		if !slices.Equal(got, []string{"ann: one"}) {
			t.Errorf("split %q: %q", split, got)
		}
	}
}

// A server reads texts below an allowed directory, and follows no link out of it.
func TestServerReadsOnlyAllowedTextDirectories(t *testing.T) {
	t.Parallel()
	base := directory(t, map[string]string{"secret.txt": "secret", "root/novels/austen/emma.txt": "One.", "root/led/ann.txt": "Hi."})
	must.Do(t, os.Symlink("../../secret.txt", filepath.Join(base, "root/led/bob.txt")))
	allowed, err := Allow([]string{filepath.Join(base, "root")})
	must.Do(t, err)
	s := must.Get(allowed.Find(t.Context(), "novels", ""))(t)
	if got := records(t, s, source.Reading{}); !slices.Equal(got, []string{"austen: One."}) {
		t.Errorf("%q", got)
	}
	led := must.Get(allowed.Find(t.Context(), "led", ""))(t)
	_, err = led.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 2, Words: 1}})
	must.Say(t, err, "bob.txt", "escapes")
}

// A file with the name of a data file keeps a directory from being one of texts; the
// error says so.
func TestDataFileAmongTextsIsReported(t *testing.T) {
	t.Parallel()
	const move = "or, to read its text files, move the data file elsewhere: "
	for data, says := range map[string]string{"austen/meta.json": "read as splits of the data", "austen/letters/meta.json": "has a subdirectory letters", "meta.csv": "has a subdirectory austen"} {
		files := maps.Clone(novels)
		files[data] = "{}"
		if data == "austen/meta.json" {
			delete(files, "austen/letters/1796.txt")
		}
		s, err := LocalFinder{}.Find(t.Context(), directory(t, files), "")
		if err == nil {
			_, err = s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 2, Words: 1}})
		}
		must.Say(t, err, says, move+data)
	}
}

// Nobody may ever write to a pipe.
func TestPipeNamedAsTextIsRejected(t *testing.T) {
	t.Parallel()
	dir := directory(t, letters)
	if err := exec.CommandContext(t.Context(), "mkfifo", filepath.Join(dir, "cid.txt")).Run(); err != nil {
		t.Skip("there are no pipes with names here: ", err)
	}
	_, err := find(t, dir).Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 2, Words: 1}})
	must.Say(t, err, dir, "cid.txt is not a regular file; expected a text file")
}
