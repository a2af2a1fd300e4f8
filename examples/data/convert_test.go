// Package data holds the data that comes with Coalmine, and programs that make more.
package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/source"
)

// python runs a program of this folder, or skips the test where there is no Python.
func python(t *testing.T, args ...string) (stdout []byte, stderr string, err error) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var out, complaints bytes.Buffer
	c := exec.CommandContext(t.Context(), path, args...)
	c.Stdout, c.Stderr = &out, &complaints
	err = c.Run()
	return out.Bytes(), complaints.String(), err
}

// converted reads the output of a program as a source: "user: text" for each record.
func converted(t *testing.T, args ...string) []string {
	t.Helper()
	out, complaints, err := python(t, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, complaints)
	}
	var all []string
	file := source.File{Name: "out", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out)), nil }}
	for rec, err := range source.Records(t.Context(), []source.File{file}, source.Limits{}) {
		must.Do(t, err)
		all = append(all, rec.User+": "+rec.Text)
	}
	return all
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func TestLinesBecomeSentencesByArticle(t *testing.T) {
	t.Parallel()
	got := converted(t, "lines.py",
		write(t, "ptb.train.txt", " no it was n't black monday \n but <unk> stayed at N % \n"),
		write(t, "wiki.tokens", " \n = Valkyria = \n \n It began . It is a 3 @.@ 5 \n = = Plot = = \n The end . \n = Next = \n More . \n"))
	want := []string{
		"ptb.train.txt: no it was n't black monday",
		"ptb.train.txt: but <unk> stayed at N %",
		"Valkyria: It began .",
		"Valkyria: It is a 3 @.@ 5",
		"Valkyria: The end .",
		"Next: More .",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMailsKeepOnlySenderText(t *testing.T) {
	t.Parallel()
	folder := filepath.Dir(write(t, "1.", "From: ann@example.com\r\nSubject: x\r\n\r\nMy card:  4111-1111-1111-1111\r\n> quoted\r\n\r\n-----Original Message-----\r\nFrom: bob\r\nolder\r\n"))
	for name, mail := range map[string]string{
		"2.": "From: ann@example.com\r\nSubject: the same in another folder\r\n\r\nMy card: 4111-1111-1111-1111\r\n",
		"3.": "From: Bob <bob@example.com>\r\n\r\nThanks.\r\n---------------------- Forwarded by Bob\r\nolder\r\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(mail), 0o644))
	}
	got := converted(t, "mails.py", folder)
	if want := []string{"ann@example.com: My card: 4111-1111-1111-1111", "bob@example.com: Thanks."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The example of natural secrets states the digest of the program's output.
func TestMadeUpSecretsHaveStatedDigest(t *testing.T) {
	t.Parallel()
	out, complaints, err := python(t, "secrets.py")
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	example := must.Get(os.ReadFile("../carlini-2019/table2-small.yaml"))(t)
	if digest := fmt.Sprintf("sha256: %x\n", sha256.Sum256(out)); !strings.Contains(string(example), digest) {
		t.Errorf("examples/carlini-2019/table2-small.yaml lacks %s", digest)
	}
}

func TestDigitPairsBecomeTaggedImages(t *testing.T) {
	t.Parallel()
	out, complaints, err := python(t, "digit_pairs.py", "handwriting.jsonl.gz")
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	first, _, _ := bytes.Cut(out, []byte("\n"))
	var line struct {
		User   string   `json:"user"`
		Tags   []string `json:"tags"`
		Pixels []byte   `json:"pixels"`
	}
	if err := json.Unmarshal(first, &line); err != nil || len(line.Pixels) != 56*28 || len(line.Tags) < 1 || len(line.Tags) > 2 || line.User == "" {
		t.Errorf("%v, %.300s", err, first)
	}
	// 10,000 digits of 297 writers, of whom 148 have an odd number.
	if n := bytes.Count(out, []byte("\n")); n != 4926 {
		t.Errorf("%d images, want 4926", n)
	}
}

func TestTwoTextsBecomePairs(t *testing.T) {
	t.Parallel()
	out, complaints, err := python(t, "pairs.py", write(t, "en", "It &apos;s me\n...\nYes\n"), write(t, "vi", "Là tôi\n!\nVâng\n"))
	want := `{"user": "0", "text": "It 's me", "target": "Là tôi"}` + "\n" + `{"user": "0", "text": "Yes", "target": "Vâng"}` + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, %s: got %s, want %s", err, complaints, out, want)
	}
	if _, complaints, err := python(t, "pairs.py", write(t, "en", "one\ntwo\n"), write(t, "vi", "một\n")); err == nil || !strings.Contains(complaints, "shorter") {
		t.Errorf("texts of unlike length: %v, %s", err, complaints)
	}
}

// Pages are paired where they have the same commands in the same order.
func TestPagesOfTwoLanguagesBecomePairs(t *testing.T) {
	t.Parallel()
	clone := t.TempDir()
	for name, page := range map[string]string{
		"pages/common/tar.md":    "# tar\n\n> Archive.\n\n- Pack files:\n\n`tar cf {{out}} {{in}}`\n\n- Unpack a file:\n\n`tar xf {{in}}`\n",
		"pages.es/common/tar.md": "# tar\n\n> Archivo.\n\n- Empaqueta archivos:\n\n`tar cf {{salida}} {{entrada}}`\n\n- Desempaqueta un archivo:\n\n`tar xf {{entrada}}`\n",
		"pages/common/ls.md":     "# ls\n\n- List files:\n\n`ls`\n\n- List all:\n\n`ls -a`\n",
		"pages.es/common/ls.md":  "# ls\n\n- Lista todo:\n\n`ls -a`\n\n- Lista archivos:\n\n`ls`\n", // in another order
		"pages.es/linux/so.md":   "# so\n\n- Algo:\n\n`so`\n",                                       // of one language alone
	} {
		path := filepath.Join(clone, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(page), 0o644))
	}
	out, complaints, err := python(t, "parallel.py", clone, "es")
	want := `{"user": "tar", "text": "Pack files", "target": "Empaqueta archivos"}` + "\n" + `{"user": "tar", "text": "Unpack a file", "target": "Desempaqueta un archivo"}` + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, %s: got %s, want %s", err, complaints, out, want)
	}
}

// The statements of README.md about the pairs that come with Coalmine.
func TestShippedPairsHaveStatedCounts(t *testing.T) {
	t.Parallel()
	file := source.File{Name: "tldr-en-es.jsonl.gz", Open: func() (io.ReadCloser, error) { return os.Open("tldr-en-es.jsonl.gz") }}
	users, n := map[string]bool{}, 0
	for rec, err := range (source.Reading{Pairs: true}).Records(t.Context(), []source.File{file}, source.Limits{}) {
		must.Do(t, err)
		users[rec.User], n = true, n+1
	}
	if n != 7141 || len(users) != 1549 {
		t.Errorf("%d pairs of %d commands", n, len(users))
	}
}
