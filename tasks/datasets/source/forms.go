package source

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"coalmine/tasks/datasets/forms"
)

// form is a form of decompressed file content.
type form struct {
	// name describes such a file, with its article.
	name string
	// is recognises the form by the content's first bytes, at most headBytes; nil if only the name
	// identifies the form.
	is func(head []byte) bool
	// endings are name endings that identify the form of content that is otherwise unrecognised and
	// cannot be JSON lines.
	endings []string
	// form reads the file. If empty, the file is recognised and rejected.
	form forms.Form
	// wanted explains how to make a rejected file readable; empty if its data must be converted as
	// in lineForm.convert.
	wanted string
	// named is the form of a table recognised only by its name: it is rejected unless the user
	// names the form.
	named forms.Form
}

// headBytes is enough for every form; the mark of a tar file is farthest, at byte 257.
const headBytes = 512

// linesOfJSON is the form of a file that no other form recognises.
var linesOfJSON = form{name: "JSON lines", form: forms.JSONLines}

const unpack = "unpack it; lines may be compressed by gzip or Zstandard"

// columnsOf explains how to name the form and the columns of a table, in a file and on a command
// line.
func columnsOf(form forms.Form) string {
	return fmt.Sprintf("name its form and columns: data.form: %s and data.columns in an experiment, --form %[1]s --column user=NAME --column text=NAME with a command", form)
}

// others lists the forms other than JSON lines. The first match is used.
var others = []form{
	{name: "a Parquet file", is: begins("PAR1"), endings: []string{".parquet"}, form: forms.Parquet},
	{name: "an SQLite database", is: begins("SQLite format 3\x00"), endings: []string{".sqlite", ".sqlite3", ".db"}, form: forms.TFF},
	{name: "a dump of Stack Exchange", is: isDump, endings: []string{".xml"}, form: forms.StackExchange},
	{name: "the JSON of LEAF", is: isLEAF, form: forms.LEAF},
	{name: "an HDF5 file", is: begins("\x89HDF\r\n\x1a\n"), endings: []string{".h5", ".hdf5"}},
	{name: "an Arrow file", is: begins("ARROW1"), endings: []string{".arrow", ".feather"}},
	{name: "an Avro file", is: begins("Obj\x01"), endings: []string{".avro"}},
	{name: "an ORC file", is: begins("ORC"), endings: []string{".orc"}},
	{name: "a file of TFRecords", is: isTFRecord, endings: []string{".tfrecord", ".tfrecords"}},
	{name: "a NumPy array", is: begins("\x93NUMPY"), endings: []string{".npy"}},
	{name: "a Python pickle", is: isPickle, endings: []string{".pkl", ".pickle"}},
	{name: "an Excel workbook", endings: []string{".xlsx", ".xls"}},
	{name: "a PDF document", is: begins("%PDF-"), endings: []string{".pdf"}},
	{name: "a zip archive", is: begins("PK\x03\x04"), endings: []string{".zip", ".npz"}, wanted: unpack},
	{name: "a 7z archive", is: begins("7z\xbc\xaf\x27\x1c"), endings: []string{".7z"}, wanted: unpack},
	{name: "a RAR archive", is: begins("Rar!\x1a\x07"), endings: []string{".rar"}, wanted: unpack},
	{name: "a tar archive", is: isTar, endings: []string{".tar"}, form: forms.Texts},
	{name: "compressed by bzip2", is: begins("BZh"), endings: []string{".bz2"}, wanted: unpack},
	{name: "compressed by LZ4", is: begins("\x04\x22\x4d\x18"), endings: []string{".lz4"}, wanted: unpack},
	{name: "text in UTF-16", is: isUTF16, wanted: "convert it to UTF-8"},
	{name: "XML", is: startsWith('<'), endings: []string{".xml"}},
	{name: "one JSON array", is: startsWith('['), wanted: "write its elements one a line"},
	{name: "a CSV file", endings: []string{".csv"}, wanted: columnsOf(forms.CSV), named: forms.CSV},
	{name: "a TSV file", endings: []string{".tsv"}, wanted: columnsOf(forms.TSV), named: forms.TSV},
	{name: "a binary file of a form that is not known here", is: func(head []byte) bool { return bytes.IndexByte(head, 0) >= 0 }},
}

// recognise returns the form of a file with these first bytes. Content that begins like a JSON
// object is JSON lines, under any name.
func recognise(name string, head []byte) form {
	if len(head) == 0 || startsWith('{')(head) && !isLEAF(head) {
		return linesOfJSON
	}
	name = strings.ToLower(name)
	for _, end := range compressed {
		name = strings.TrimSuffix(name, end)
	}
	named := func(f form) bool {
		return slices.ContainsFunc(f.endings, func(end string) bool { return strings.HasSuffix(name, end) })
	}
	byContent := func(f form) bool { return f.is != nil && f.is(head) }
	// An Excel workbook is a zip archive, so prefer a form that matches content and name, then one
	// that matches the content, then the name.
	for _, fits := range []func(form) bool{
		func(f form) bool { return named(f) && (f.is == nil || byContent(f)) }, byContent, named,
	} {
		if i := slices.IndexFunc(others, fits); i >= 0 {
			return others[i]
		}
	}
	return linesOfJSON
}

// refusal returns an error that names the file's form and explains how to convert it.
func (f form) refusal(name string, lines lineForm) error {
	return &Error{File: name, Err: fmt.Errorf(
		`the content is %s, which is not read; %s: %s (docs/data.md, section "Other forms")`, f.name, lines.wanted, cmp.Or(f.wanted, lines.convert))}
}

func begins(magic string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }
}

// startsWith skips a byte order mark and white space.
func startsWith(first byte) func([]byte) bool {
	return func(head []byte) bool {
		head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
		return len(head) > 0 && head[0] == first
	}
}

// isDump looks for the root of a dump's Posts.xml or Comments.xml.
func isDump(head []byte) bool {
	return startsWith('<')(head) && (bytes.Contains(head, []byte("<posts>")) || bytes.Contains(head, []byte("<comments>")))
}

// isLEAF looks for the first member of LEAF's object.
func isLEAF(head []byte) bool {
	if !startsWith('{')(head) {
		return false
	}
	member := bytes.TrimLeft(head[bytes.IndexByte(head, '{')+1:], " \t\r\n")
	return slices.ContainsFunc([]string{`"users"`, `"num_samples"`, `"user_data"`, `"hierarchies"`}, func(name string) bool {
		return bytes.HasPrefix(member, []byte(name))
	})
}

func isTar(head []byte) bool { return len(head) >= 262 && string(head[257:262]) == "ustar" }

// isUTF16 looks for a byte order mark.
func isUTF16(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff})
}

// isText reports whether the whole file is text.
func (f form) isText() bool {
	switch f.form {
	case forms.JSONLines, forms.CSV, forms.TSV, forms.StackExchange, forms.LEAF:
		return true
	case forms.Parquet, forms.TFF, forms.Texts:
	}
	return false
}

// wideText returns the name of the encoding of a text in UTF-16 or UTF-32 that has a byte order mark
// or begins with ASCII characters; "" for any other text.
func wideText(head []byte) string {
	ascii := func(b ...byte) bool {
		return !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x80 || c < ' ' && c != '\t' && c != '\n' && c != '\r' })
	}
	switch {
	case len(head) < 4:
		return ""
	case bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}), ascii(head[0]) && bytes.Equal(head[1:4], []byte{0, 0, 0}):
		return "UTF-32LE"
	case bytes.HasPrefix(head, []byte{0, 0, 0xfe, 0xff}), ascii(head[3]) && bytes.Equal(head[:3], []byte{0, 0, 0}):
		return "UTF-32BE"
	case head[0] == 0xff && head[1] == 0xfe, ascii(head[0], head[2]) && head[1] == 0 && head[3] == 0:
		return "UTF-16LE"
	case head[0] == 0xfe && head[1] == 0xff, ascii(head[1], head[3]) && head[0] == 0 && head[2] == 0:
		return "UTF-16BE"
	}
	return ""
}

// isPickle recognises protocols 2 to 5, which begin with their number.
func isPickle(head []byte) bool {
	return len(head) >= 2 && head[0] == 0x80 && 2 <= head[1] && head[1] <= 5
}

// isTFRecord checks the masked CRC-32C of the first record's length
// (TensorFlow, core/lib/io/record_writer.h).
func isTFRecord(head []byte) bool {
	if len(head) < 12 {
		return false
	}
	sum := crc32.Checksum(head[:8], crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.Uint32(head[8:]) == (sum>>15|sum<<17)+0xa282ead8
}
