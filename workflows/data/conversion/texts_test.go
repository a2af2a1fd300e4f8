package conversion

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
)

// folder writes files by their paths.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

// novels are files in folders; letters a file for each user.
var (
	novels = map[string]string{
		"austen/b.txt": "Two.\n", "austen/deep/a.txt": "\ufeffOne line,\r\nits second.\n\n\nNext one.", "carroll/x.txt": "  Down \n",
		".git/c.txt": "hidden", "austen/.d.txt": "hidden", "austen/e.md": "no text", "nobody/f.txt": " \n\n",
	}
	letters = map[string]string{"ann.txt": "Hi \"you\" <b>.\nBye.", "bob.txt": "Yes."}
)

func TestTextsComeFromFoldersOrFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files map[string]string
		unit  forms.Unit
		want  []string
		users int
	}{
		{novels, forms.Lines, []string{"austen: Two.", "austen: One line,", "austen: its second.", "austen: Next one.", "carroll: Down"}, 2},
		{novels, forms.Paragraphs, []string{"austen: Two.", "austen: One line, its second.", "austen: Next one.", "carroll: Down"}, 2},
		{novels, forms.WholeFiles, []string{"austen: Two.", "austen: One line, its second. Next one.", "carroll: Down"}, 2},
		{letters, forms.Lines, []string{`ann: Hi "you" <b>.`, "ann: Bye.", "bob: Yes."}, 2},
	} {
		var out bytes.Buffer
		found := must.Get(Texts(TextFiles{Folder: folder(t, c.files), Ending: ".txt", Unit: c.unit}, &out))(t)
		if got := read(t, out.Bytes()); !slices.Equal(got, c.want) || found.Users != c.users || found.Examples != len(c.want) || found.Skipped != 0 {
			t.Errorf("by %s: %q and %+v, want %q", c.unit, got, found, c.want)
		}
	}
}

// read reads JSON lines as an experiment does.
func read(t *testing.T, lines []byte) (texts []string) {
	t.Helper()
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(lines)), nil }
	for r, err := range source.Records(t.Context(), []source.File{{Name: "a.jsonl", Open: open}}, source.Limits{}) {
		must.Do(t, err)
		texts = append(texts, r.User+": "+r.Text)
	}
	return texts
}

func TestTextFaultsAreReported(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxText/2) + "\n" + strings.Repeat("y", maxText/2) + "\n"
	for want, c := range map[string]struct {
		files map[string]string
		unit  forms.Unit
	}{
		`no file ends in ".txt"`:                             {map[string]string{"a/b.md": "x"}, forms.Lines},
		"the file a.txt is beside folders":                   {map[string]string{"a.txt": "x", "b/c.txt": "x"}, forms.Lines},
		"a.txt, line 1: the line is not UTF-8; convert it":   {map[string]string{"a.txt": "x\x00y\x00\n"}, forms.Lines},
		"a.txt, line 2: the line is not UTF-8; convert it":   {map[string]string{"a.txt": "x\n\xff\n"}, forms.Lines},
		"a.txt, line 1: the file has more than 1048576 byte": {map[string]string{"a.txt": long}, forms.WholeFiles},
		"a.txt, line 2: the line has more than 1048576 byte": {map[string]string{"a.txt": "x\n" + strings.Repeat("x", maxText+1)}, forms.Lines},
		"1 files have no text; expected at least one":        {map[string]string{"a.txt": " \n"}, forms.Lines},
	} {
		_, err := Texts(TextFiles{Folder: folder(t, c.files), Ending: ".txt", Unit: c.unit}, new(bytes.Buffer))
		must.Say(t, err, want)
	}
	if _, err := Texts(TextFiles{Folder: filepath.Join(t.TempDir(), "none"), Ending: ".txt", Unit: forms.Lines}, new(bytes.Buffer)); err == nil {
		t.Error("a folder that is not there is read")
	}
}

func TestFaultyTextsAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	files := maps.Clone(letters)
	files["bob.txt"] = strings.Repeat("\xff\n", 7)
	var out bytes.Buffer
	found := must.Get(Texts(TextFiles{Folder: folder(t, files), Ending: ".txt", Unit: forms.Lines, SkipCorrupt: true}, &out))(t)
	if found.Skipped != 7 || len(found.FirstSkipped) != maxSkippedNamed || found.FirstSkipped[1] != "bob.txt, line 2: the line is not UTF-8" || found.Users != 1 || found.Empty != 1 {
		t.Errorf("%+v", found)
	}
}
