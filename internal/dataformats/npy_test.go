package dataformats

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

func TestNPYHeaderIsAligned(t *testing.T) {
	t.Parallel()
	for _, shape := range [][]int{{0}, {3}, {2, 28, 28, 1}, {123456789, 64, 64, 3}} {
		head := NPYBytes(shape...)
		if length := int(binary.LittleEndian.Uint16(head[8:])); len(head)%64 != 0 || len(head) != 10+length || !bytes.HasSuffix(head, []byte("\n")) {
			t.Errorf("%v: %q has %d bytes, and says %d", shape, head, len(head), length)
		}
	}
	if head := string(NPYBytes(3)); !strings.Contains(head, "'shape': (3,), }") {
		t.Errorf("the shape of a list is %q; expected a tuple of one", head)
	}
}

func TestNumPyReadsItElsewhere(t *testing.T) {
	t.Parallel()
	python := testserver.Python(t, "numpy")
	for want, file := range map[string][]byte{
		"uint8 (2, 3, 1) [[[1], [2], [3]], [[4], [5], [255]]]\n": append(NPYBytes(2, 3, 1), 1, 2, 3, 4, 5, 255),
		"float32 (2, 2) [[1.0, -0.5], [0.0, 3.0]]\n":             NPYFloats([]float32{1, -0.5, 0, 3}, 2, 2),
	} {
		path := filepath.Join(t.TempDir(), "a.npy")
		must.Do(t, os.WriteFile(path, file, 0o600))
		out, err := exec.CommandContext(t.Context(), python, "-c", `import numpy, sys; a = numpy.load(sys.argv[1], mmap_mode="r"); print(a.dtype, a.shape, a.tolist())`, path).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%v: %s, want %s", err, out, want)
		}
	}
}

func TestNPYFloatsRoundTrip(t *testing.T) {
	t.Parallel()
	values := []float32{1, 2, 3, 4, 5, 6}
	file := NPYFloats(values, 2, 3)
	if header := string(file[:len(file)-24]); len(header)%64 != 0 || !strings.HasSuffix(header, "\n") || !strings.Contains(header, "'<f4'") || !strings.Contains(header, "'shape': (2, 3)") {
		t.Errorf("header %q", header)
	}
	if got, err := ReadNPYFloats(file, 6); err != nil || !slices.Equal(got, values) {
		t.Errorf("read %v, %v", got, err)
	}
	for _, cut := range [][]byte{nil, file[:9], file[:20], file[1:]} {
		if _, err := ReadNPYFloats(cut, 6); err == nil {
			t.Errorf("%d bytes of %d were read", len(cut), len(file))
		}
	}
}
