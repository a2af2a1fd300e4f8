package examples

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"coalmine/internal/must"
)

func TestTheProgramHasEveryExample(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.yaml", "*/*.yaml", "*/*/*.yaml", "external/*/*/*.py", "data/*.gz"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range found {
			want := must.Get(os.ReadFile(file))(t)
			if got, err := fs.ReadFile(Root, "examples/"+filepath.ToSlash(file)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v, or other contents", file, err)
			}
		}
	}
	if err := fstest.TestFS(files, "quickstart.yaml"); err != nil {
		t.Error(err)
	}
}

func TestFindMatchesNameSuffixes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"quickstart": "examples/quickstart.yaml", "thakkar-2020/table1-small": "examples/thakkar-2020/table-1-small.yaml",
		"table-1-small": "examples/thakkar-2020/table-1-small.yaml", "table1-small": "examples/carlini-2019/table1-small.yaml", "experiment": "", "figure1-small": "examples/carlini-2019/figure1-small.yaml",
		"examples/external/transformer/experiment.yaml": "examples/external/transformer/experiment.yaml", "nothing": "", "small": "", "../quickstart": "",
	} {
		got, err := Find(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestAnUnknownExampleListsAFewNames(t *testing.T) {
	t.Parallel()
	_, err := Find("nothing")
	if err == nil || strings.Count(err.Error(), "\n") != 6 || !strings.Contains(err.Error(), "coalmine data example lists all ") {
		t.Errorf("%v, want 5 names and the command that lists all", err)
	}
}

func TestRootHasOnlyExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"quickstart.yaml", "examplesquickstart.yaml", "examples/../quickstart.yaml", "examples//quickstart.yaml", "."} {
		if f, err := Root.Open(name); err == nil {
			f.Close()
			t.Errorf("%s is there", name)
		}
	}
}

// The data that programs make are those that the examples name.
func TestMadeDataAreNamedByTheirExamples(t *testing.T) {
	t.Parallel()
	for _, m := range MadeData() {
		text, err := fs.ReadFile(Root, "examples/"+m.Example+".yaml")
		if err != nil || !strings.Contains(string(text), "source: "+m.File) || !strings.Contains(string(text), "coalmine data example "+m.Example) {
			t.Errorf("%s does not read %s, or does not say how it is made: %v", m.Example, m.File, err)
		}
		for _, argument := range m.Files {
			if _, err := fs.Stat(Root, "examples/data/"+argument); err != nil {
				t.Error(err)
			}
		}
	}
}
