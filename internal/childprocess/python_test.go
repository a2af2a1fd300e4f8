package childprocess

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAMissingModuleIsExplained(t *testing.T) {
	lines := []string{"Traceback (most recent call last):", "ModuleNotFoundError: No module named 'numpy.linalg'"}
	message := (&FailedError{io.EOF, lines}).Error()
	if want := "\n  the Python of the command lacks the module numpy.linalg: install it there, or name another Python in the command, such as /usr/bin/python3"; !strings.HasSuffix(message, want) || len(lines) != 2 {
		t.Errorf("%q, want the last line %q", message, want)
	}
	for _, other := range [][]string{lines[:1], append(lines, "Segmentation fault")} {
		if message := (&FailedError{io.EOF, other}).Error(); strings.Contains(message, "install") {
			t.Errorf("another failure is explained by %q", message)
		}
	}
}

// The environment and the offer are shared by tests.
func TestCommandsFindTheOfferedModulesLast(t *testing.T) {
	withdraw := OfferPython(fstest.MapFS{"mine/part.py": {Data: []byte("x = 1")}})
	for before, want := range map[string]string{"": "", "/own:/other": "/own:/other:"} {
		t.Setenv(pythonPath, before)
		for _, c := range []Command{{}, {Write: []string{t.TempDir()}}} {
			p := shell(t, c, `cat "${PYTHONPATH##*:}/mine/part.py" && echo && echo "$PYTHONPATH"`)
			printed, err := io.ReadAll(p.Output)
			text, path, _ := strings.Cut(strings.TrimSpace(string(printed)), "\n")
			if err != nil || text != "x = 1" || path != want+offered.directory.Path {
				t.Errorf("it prints %q (%v), want the module and its directory after %q", printed, err, want)
			}
		}
	}
	directory := offered.directory.Path
	withdraw()
	if _, err := os.Stat(directory); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", filepath.Base(directory), err)
	}
}
