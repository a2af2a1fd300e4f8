package dataformats

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// ratio bounds how much a file may grow.
const ratio = 200

const sentence = "the red boat sails\n"

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	return must.Get(hex.DecodeString(strings.ReplaceAll(text, " ", "")))(t)
}

func packed(t testing.TB, text string, open func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	must.Do(t, err)
	return b.Bytes()
}

func gzipped(t testing.TB, text string) []byte {
	return packed(t, text, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
}

func zstandard(t testing.TB, text string) []byte {
	return packed(t, text, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })
}

func inXZ(t testing.TB, text string) []byte {
	return packed(t, text, func(w io.Writer) (io.WriteCloser, error) {
		return xz.WriterConfig{DictCap: 1 << 16}.NewWriter(w)
	})
}

func inLZMA(t testing.TB, text string) []byte {
	return packed(t, text, func(w io.Writer) (io.WriteCloser, error) { return lzma.NewWriter(w) })
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func read(content io.Reader) (string, error) {
	r, err := NewDecompressor(content, ratio)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

// Files of xz were made by XZ Utils: xz --check=crc32 --x86 --lzma2 and so on.
func TestWellFormedContentIsRead(t *testing.T) {
	t.Parallel()
	skippable := []byte("\x5e\x2a\x4d\x18\x03\x00\x00\x00abc")
	// A frame without its size, of one block that is not compressed; A8 is a window of 2 GiB.
	window := func(descriptor byte) []byte {
		n := len(sentence)<<3 | 1
		return join(zstdMagic, []byte{0, descriptor, byte(n), byte(n >> 8), 0}, []byte(sentence))
	}
	for name, content := range map[string][]byte{
		"plain":                           []byte(sentence),
		"gzip":                            gzipped(t, sentence),
		"gzip, two members":               join(gzipped(t, "the red "), gzipped(t, "boat sails\n")),
		"gzip, zeros at the end":          join(gzipped(t, sentence), make([]byte, 1000)),
		"zstd":                            zstandard(t, sentence),
		"zstd, two frames":                join(zstandard(t, "the red "), zstandard(t, "boat sails\n")),
		"zstd, skippable frames":          join(skippable, skippable, zstandard(t, "the red "), skippable, zstandard(t, "boat sails\n"), skippable),
		"zstd --long=31":                  window(0xa8),
		"xz":                              inXZ(t, sentence),
		"xz, two streams":                 join(inXZ(t, "the red "), inXZ(t, "boat sails\n")),
		"xz, padding":                     join(inXZ(t, "the red "), make([]byte, 8), inXZ(t, "boat sails\n"), make([]byte, 4)),
		"xz --x86":                        unhex(t, "fd377a585a0000016922de3602010400210116000d86351f0100127468652072656420626f6174207361696c730a00003009b415000127139046fd7e9042990d010000000001595a"),
		"xz --delta=dist=2":               unhex(t, "fd377a585a0000016922de3602010301012101161c4778560100127468f1b80d45f2bbfe4fff05bfff41f60b0a9e00003009b415000127139046fd7e9042990d010000000001595a"),
		"xz --powerpc --delta":            unhex(t, "fd377a585a0000016922de360302050003010021010000009c0bebde01001274f4fdbb52f3ffbc420df213ac53ee0803079700003009b41500012b139c0948d29042990d010000000001595a"),
		"lzma":                            inLZMA(t, sentence),
		"xz --format=lzma --lzma1=lc=2,…": unhex(t, "0200008000ffffffffffffffff003a1ada0520da8fc2c857063500cc41898fd7181e3d0e89ffff0e2c0000"),
	} {
		for way, content := range map[string]io.Reader{"": bytes.NewReader(content), ", a byte at a time": iotest.OneByteReader(bytes.NewReader(content))} {
			if got, err := read(content); got != sentence || err != nil {
				t.Errorf("%s%s: got %q, %v", name, way, got, err)
			}
		}
	}
}

func TestUnsupportedFeaturesAreReported(t *testing.T) {
	t.Parallel()
	withDictionary := join(zstdMagic, []byte{0x01, 0x00, 0x07, 0x01, 0, 0})
	for want, content := range map[string][]byte{
		"a filter other than LZMA2": unhex(t, "fd377a585a0000016922de3602010a00210116007de73f250100127468652072656420626f6174207361696c730a00003009b415000127139046fd7e9042990d010000000001595a"),
		"a window of more than":     join(zstdMagic, []byte{0, 0xb0, 1, 0, 0}),
		"a dictionary beside":       withDictionary,
		"a dictionary of more than": unhex(t, "5d00000040ffffffffffffffff003a1ada0520da8fc2"),
		"skippable frames":          join([]byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"), []byte("\x04\x22\x4d\x18and so on")),
	} {
		_, err := read(bytes.NewReader(content))
		if _, ok := errors.AsType[*UnsupportedCompressionError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestTruncatedContentIsReported(t *testing.T) {
	t.Parallel()
	skippable := []byte("\x5e\x2a\x4d\x18\x03\x00\x00\x00abc")
	for name, content := range map[string][]byte{
		"gzip": gzipped(t, sentence), "zstd": join(skippable, zstandard(t, sentence)), "xz": inXZ(t, sentence), "lzma": inLZMA(t, sentence),
		"two of gzip": join(gzipped(t, "the "), gzipped(t, "red ")), "two of xz": join(inXZ(t, "the "), make([]byte, 4), inXZ(t, "red ")),
	} {
		whole, err := read(bytes.NewReader(content))
		if err != nil {
			t.Fatal(name, err)
		}
		for end := 14; end < len(content); end++ {
			got, err := read(bytes.NewReader(content[:end]))
			padding := strings.HasSuffix(name, "xz") && content[end] == 0 // of which there are four bytes
			if err == nil && got == whole || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !padding {
				t.Errorf("%s: of %d bytes %d give %q, %v", name, len(content), end, got, err)
			}
		}
	}
}

func TestSourceErrorsArePassedThrough(t *testing.T) {
	t.Parallel()
	broken := errors.New("the network is down")
	for _, content := range [][]byte{[]byte(sentence), gzipped(t, sentence), zstandard(t, sentence), inXZ(t, sentence), inLZMA(t, sentence)} {
		for end := range len(content) {
			if _, err := read(io.MultiReader(bytes.NewReader(content[:end]), iotest.ErrReader(broken))); err == nil || end > 14 && !errors.Is(err, broken) {
				t.Errorf("after %d bytes of %.6q: got %v", end, content, err)
			}
		}
	}
}

// Damage is an error or changes the text, and never a panic.
func TestDamagedContentDoesNotPanic(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(sentence, 50)
	contents := [][]byte{gzipped(t, text), zstandard(t, text), inXZ(t, text), inLZMA(t, text)}
	rapid.Check(t, func(t *rapid.T) {
		content := bytes.Clone(rapid.SampledFrom(contents).Draw(t, "content"))
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			content[rapid.IntRange(0, len(content)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		r, err := NewDecompressor(bytes.NewReader(content), ratio)
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	})
}

// A few bytes that ask for a large window, or claim a large content, get no memory for it.
func TestSmallFilesTakeLittleMemory(t *testing.T) {
	large := func(descriptor ...byte) []byte {
		return join(zstdMagic, descriptor, []byte{1, 0, 0}, make([]byte, 20))
	}
	for name, content := range map[string][]byte{
		"a window of 2 GiB":          large(0, 0xa8),
		"a content of 1 GiB":         large(0xa0, 0, 0, 0, 0x40),
		"a content of 1 GiB again":   large(0xe0, 0, 0, 0, 0x40, 0, 0, 0, 0),
		"the same behind a frame":    join(zstandard(t, sentence), large(0xe0, 0, 0, 0, 0x40, 0, 0, 0, 0)),
		"the same behind skipped":    join([]byte("\x50\x2a\x4d\x18\x01\x00\x00\x00a"), large(0, 0xa8)),
		"a dictionary of 1 GiB (xz)": unhex(t, "fd377a585a0000016922de3602002101250000003b787b410100127468652072656420626f6174207361696c730a00003009b415000127139046fd7e9042990d010000000001595a"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = read(bytes.NewReader(content))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 128<<20 {
			t.Errorf("%s: %d bytes took %d", name, len(content), took)
		}
	}
}
