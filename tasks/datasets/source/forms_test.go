package source

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
)

// archived writes a file into an archive.
func archived(t *testing.T, into func(io.Writer) (io.Writer, io.Closer)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, archive := into(&out)
	must.Get(w.Write([]byte(twoLines)))(t)
	must.Do(t, archive.Close())
	return out.Bytes()
}

func zipped(t *testing.T) []byte {
	return archived(t, func(out io.Writer) (io.Writer, io.Closer) {
		w := zip.NewWriter(out)
		file := must.Get(w.Create("posts.jsonl"))(t)
		return file, w
	})
}

// tfRecord is a record as TensorFlow writes it: length, its masked sum, data, and theirs.
func tfRecord(data []byte) []byte {
	masked := func(b []byte) []byte {
		sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return binary.LittleEndian.AppendUint32(nil, (sum>>15|sum<<17)+0xa282ead8)
	}
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	return bytes.Join([][]byte{length, masked(length), data, masked(data)}, nil)
}

func inUTF16(text string) []byte {
	out := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, unit)
	}
	return out
}

func TestUnsupportedFormIsRecognisedByContent(t *testing.T) {
	t.Parallel()
	padded := func(magic string) []byte { return append([]byte(magic), bytes.Repeat([]byte{0, 1, 2}, 400)...) }
	for want, data := range map[string][]byte{
		"an HDF5 file":          padded("\x89HDF\r\n\x1a\n"),
		"a file of TFRecords":   tfRecord(bytes.Repeat([]byte("example"), 100)),
		"a zip archive":         zipped(t),
		"a 7z archive":          padded("7z\xbc\xaf\x27\x1c\x00\x04"),
		"compressed by bzip2":   padded("BZh91AY&SY"),
		"text in UTF-16":        inUTF16(twoLines),
		"XML":                   []byte("\ufeff<?xml version=\"1.0\"?>\n<votes>\n</votes>\n"),
		"one JSON array":        []byte("[\n  {\"user\": \"ann\", \"text\": \"Hello\"}\n]\n"),
		"a binary file of a fo": []byte("\x07\x00\x12"),
	} {
		for name, content := range map[string][]byte{"posts": data, "posts.jsonl": data, "posts.gz": gzipped(t, data), "posts.zst": zstandard(t, data)} {
			refused(t, name, content, "the content is "+want)
		}
	}
}

func TestFormIsRecognisedByName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"posts.csv":  "a CSV file",
		"POSTS.TSV":  "a TSV file",
		"posts.avro": "an Avro file", // damaged, or of another form than its name says
	} {
		refused(t, name, []byte("user,text\nann,Hello\n"), "the content is "+want)
		refused(t, name+".gz", gzipped(t, []byte("user,text\nann,Hello\n")), "the content is "+want)
	}
	refused(t, "posts.xlsx", zipped(t), "an Excel workbook")
}

// refused reads a source and expects a fault that names the file's form and how to convert it.
func refused(t *testing.T, name string, data []byte, want string) {
	t.Helper()
	_, err := readAll(t.Context(), Limits{}, inMemory(name, data))
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.File != name || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `{"user": "…", "text": "…"}`) ||
		!strings.Contains(err.Error(), `docs/data.md, section "Other forms"`) || strings.Contains(err.Error(), "line 1") {
		t.Errorf("%s: got %v; want %q and what to do", name, err, want)
	}
}

func TestContentDecidesBeforeTheName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"posts.csv", "posts.parquet", "posts.xml", "posts.json", "posts.txt", "posts"} {
		if got, err := readAll(t.Context(), Limits{}, inMemory(name, []byte(twoLines))); err != nil || len(got) != 2 {
			t.Errorf("%s with JSON lines in it: %d records, %v", name, len(got), err)
		}
	}
}

func TestJSONObjectsAreAlwaysRecognised(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		head := append([]byte(rapid.SampledFrom([]string{"", " ", "\n\t", "\ufeff"}).Draw(t, "before")+"{"), rapid.SliceOfN(rapid.Byte(), 0, headBytes).Draw(t, "rest")...)
		if f := recognise(rapid.String().Draw(t, "name"), head); f.form != forms.JSONLines && f.form != forms.LEAF {
			t.Fatalf("%q is taken for %s", head, f.name)
		}
	})
}

func TestUnreadFormsHaveDetectors(t *testing.T) {
	t.Parallel()
	for _, f := range others {
		if f.name == "" || f.is == nil && f.endings == nil || f.form != "" && f.wanted != "" {
			t.Errorf("the entry of %q is told by nothing, or wants something of what is read", f.name)
		}
	}
}

func TestTableErrorsSuggestFieldAndFlag(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"posts.csv", "posts.tsv"} {
		form := strings.TrimPrefix(filepath.Ext(name), ".")
		text := recognise(name, []byte("author,body")).refusal(name, lineForm{}).Error()
		for _, want := range []string{"data.form: " + form, "--form " + form + " --column user=NAME"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", name, want, text)
			}
		}
	}
}
