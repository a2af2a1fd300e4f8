package npy

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheBeginningOfAFileIsAligned(t *testing.T) {
	t.Parallel()
	for _, shape := range [][]int{{0}, {3}, {2, 28, 28, 1}, {123456789, 64, 64, 3}} {
		head := Bytes(shape...)
		if length := int(binary.LittleEndian.Uint16(head[8:])); len(head)%64 != 0 || len(head) != 10+length || !bytes.HasSuffix(head, []byte("\n")) {
			t.Errorf("%v: %q has %d bytes, and says %d", shape, head, len(head), length)
		}
	}
	if head := string(Bytes(3)); !strings.Contains(head, "'shape': (3,), }") {
		t.Errorf("the shape of a list is %q; expected a tuple of one", head)
	}
}

func TestNumPyReadsIt(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil || exec.CommandContext(t.Context(), python, "-c", "import numpy").Run() != nil {
		t.Skip("no python3 with NumPy: scripts/setup.sh installs it where it may")
	}
	path := filepath.Join(t.TempDir(), "a.npy")
	if err := os.WriteFile(path, append(Bytes(2, 3, 1), 1, 2, 3, 4, 5, 255), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", `import numpy, sys; a = numpy.load(sys.argv[1], mmap_mode="r"); print(a.dtype, a.shape, a.tolist())`, path).CombinedOutput()
	if want := "uint8 (2, 3, 1) [[[1], [2], [3]], [[4], [5], [255]]]\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}
