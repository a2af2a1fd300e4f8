package taskstest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
)

var whole = flag.Bool("whole", false, "try every input where a test otherwise tries a sample of them")

// Whole reports whether a test tries every input instead of a sample, as in make check.
func Whole() bool { return *whole }

var rewrite = flag.Bool("rewrite", false, "write golden and generated files anew instead of comparing with them")

// File fails the test when a committed file differs from the one that the code generates.
func File(t testing.TB, path string, got []byte) {
	t.Helper()
	if *rewrite {
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, got, 0o644)))
		return
	}
	want := must.Get(os.ReadFile(path))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code makes of it, which begins\n%.4000s\nIf that is right, run the package's tests with -rewrite and look at the difference.", path, got)
	}
}

// goldenMu guards the golden files while parallel tests rewrite them.
var goldenMu sync.Mutex

// goldenPath is the file with a package's golden digests, one per line: "datasets/import@1
// <digest>".
var goldenPath = filepath.Join("testdata", "golden.txt")

// Golden fails the test when the outputs of the nodes, all of one kind, differ from
// testdata/golden.txt for the kind and its version: bytes that change without a version would let
// old and new outputs mix under one key. After raising the version, run the package's tests with
// -rewrite.
func Golden(t *testing.T, nodes ...*Node) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("equal bytes are promised among x86-64 machines")
	}
	kind := nodes[0].Kind
	name, got := fmt.Sprintf("%s@%d", kind, nodes[0].Version), digestOf(nodes)
	goldenMu.Lock()
	defer goldenMu.Unlock()
	lines := must.Get(readGolden())(t)
	want, known := lines[name]
	switch {
	case *rewrite:
		maps.DeleteFunc(lines, func(old, _ string) bool { return strings.HasPrefix(old, kind+"@") })
		lines[name] = got
		must.Do(t, writeGolden(lines))
	case !known:
		t.Errorf("%s has no golden digest; run: go test . -run Golden -rewrite", name)
	case got != want:
		t.Errorf("the outputs of %s changed: digest %s, recorded %s.\n"+
			"Raise the kind's version, then run: go test . -run Golden -rewrite.", name, got, want)
	}
}

func digestOf(nodes []*Node) string {
	h := tasks.NewHasher("golden")
	for _, n := range nodes {
		h.String(n.Kind)
		h.String(n.Digest().String())
	}
	return h.Sum().String()
}

func readGolden() (map[string]string, error) {
	data, err := os.ReadFile(goldenPath)
	if os.IsNotExist(err) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, digest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return nil, fmt.Errorf("%s: line %q is not \"kind@version digest\"", goldenPath, line)
		}
		lines[name] = digest
	}
	return lines, nil
}

func writeGolden(lines map[string]string) error {
	var names []string
	for name := range lines {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	for _, name := range names {
		fmt.Fprintf(&out, "%s %s\n", name, lines[name])
	}
	if err := os.MkdirAll(filepath.Dir(goldenPath), 0o755); err != nil {
		return err
	}
	return os.WriteFile(goldenPath, out.Bytes(), 0o644)
}
