package sources

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ulikunitz/xz/lzma"

	"coalmine/internal/must"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
)

// randomTexts are n texts that compression makes little smaller.
func randomTexts(n int) []string {
	rng, texts := rand.New(rand.NewPCG(1, 2)), make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%016x%016x%016x%016x", rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64())
	}
	return texts
}

// each joins the results for the texts.
func each(texts []string, format string) string {
	var all strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&all, format, text)
	}
	return all.String()
}

func lzmaOf(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w, err := lzma.NewWriter(&out)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	must.Do(t, err)
	return out.String()
}

func tarOf(t *testing.T, texts []string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i, text := range texts {
		must.Do(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("user %d/%d.txt", i%5, i), Size: int64(len(text)), Mode: 0o644}))
		must.Get(io.WriteString(w, text))(t)
	}
	must.Do(t, w.Close())
	return out.String()
}

// inMiddle damages a file behind its first records, and far from its end.
func inMiddle(data, with string) string {
	at := len(data) / 4 / 512 * 512
	return data[:at] + with + data[at+len(with):]
}

// Where faults are skipped, a damaged file is stored as it is: the bytes after the damage are
// of no use, and count for the file's digest all the same.
func TestDamagedFileIsUploadedIfFaultsAreSkipped(t *testing.T) {
	t.Parallel()
	texts := randomTexts(40_000) // 2.5 MB
	dump := each(texts, `<row OwnerUserId="1" Body="%s" />`+"\n")
	const leaf = `"to be",`
	for name, c := range map[string]struct {
		data    string
		skipped bool
	}{
		"a.tar":       {inMiddle(tarOf(t, texts[:4000]), strings.Repeat("~", 1024)), true},
		"a.json":      {`{"users":["A"],"user_data":{"A":{"x":["to b"],"y":["e"]},"B":{"x":[!` + strings.Repeat(leaf, 200_000), true},
		"a.xml":       {"<posts>\n" + dump[:len(dump)/4] + "\n</posts>\n" + dump, true},
		"a.jsonl.gz":  {inMiddle(gzipped(each(texts, `{"user":"ann","text":"%s"}`+"\n")), strings.Repeat("\xff", 2000)), true},
		"a.csv.lzma":  {lzmaOf(t, "user,text\nann,hello\n") + strings.Repeat("~", 2<<20), false},
		"a.csv.gz":    {gzipped("user,text\nann,hello\n") + strings.Repeat("~", 2<<20), true},
		"a.jsonl.zst": {zstandard(line("ann", "hello")) + strings.Repeat("~", 2<<20), true},
	} {
		s := find(t, filepath.Join(directory(t, map[string]string{name: c.data}), name))
		reading := source.Reading{Origin: source.Origin{SkipFaults: true}}
		if strings.HasPrefix(name, "a.csv") {
			reading.Form = forms.CSV
		}
		facts, err := s.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{Reading: reading, VocabularySize: 2}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := facts[0].Source.Skipped; (got != nil) != c.skipped {
			t.Errorf("%s: skipped %+v, want some: %v", name, got, c.skipped)
		}
		store := kept{}
		if err := s.Upload(t.Context(), store); err != nil || len(store) != 1 || len(store[s.Files[0].Digest]) != len(c.data) {
			t.Errorf("%s: uploaded as %v, %v", name, s.Files[0].Digest, err)
		}
	}
}
