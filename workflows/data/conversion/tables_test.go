package conversion

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go"
	"google.golang.org/protobuf/encoding/protowire"

	"coalmine/internal/must"
)

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	must.Get(z.Write(data))(t)
	must.Do(t, z.Close())
	return out.Bytes()
}

// message is a field that has a length.
func message(number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), data)
}

// tfExample is a tf.train.Example with an image, its lists packed, as protocol buffers
// write them today, or not.
func tfExample(packed bool, label int64, pixels []float32) []byte {
	var floats, ints []byte
	for _, p := range pixels {
		if !packed {
			floats = protowire.AppendTag(floats, 1, protowire.Fixed32Type)
		}
		floats = protowire.AppendFixed32(floats, math.Float32bits(p))
	}
	if !packed {
		ints = protowire.AppendTag(ints, 1, protowire.VarintType)
	}
	ints = protowire.AppendVarint(ints, uint64(label))
	if packed {
		floats, ints = message(1, floats), message(1, ints)
	}
	entry := func(name string, feature []byte) []byte {
		return message(1, append(message(1, []byte(name)), message(2, feature)...))
	}
	return message(1, slices.Concat(entry("pixels", message(2, floats)), entry("other", message(1, []byte("x"))), entry("label", message(3, ints))))
}

// emnist is an image with a few pixels that are not white.
func emnist() (pixels []float32, want string) {
	pixels = make([]float32, emnistSide*emnistSide)
	values := make([]string, len(pixels))
	for i := range pixels {
		pixels[i], values[i] = 1, "255"
	}
	pixels[3], values[3] = 0, "0"
	pixels[9], values[9] = 0.5, "128"
	return pixels, "[" + strings.Join(values, " ") + "]"
}

// emnistDatabase has rows of client, split and example.
func emnistDatabase(t *testing.T, rows ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "emnist.sqlite")
	database := must.Get(sql.Open("sqlite", path))(t)
	statement := "CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, serialized_example_proto BLOB NOT NULL);" +
		"CREATE INDEX idx_examples_client_id ON examples (client_id);" +
		"CREATE TABLE client_metadata (client_id TEXT NOT NULL, split_name TEXT NOT NULL, num_examples INTEGER NOT NULL)"
	must.Get(database.Exec(statement))(t)
	for i := 0; i < len(rows); i += 3 {
		must.Get(database.Exec("INSERT INTO examples (client_id, split_name, serialized_example_proto) VALUES (?, ?, ?)", rows[i:i+3]...))(t)
		must.Get(database.Exec("INSERT INTO client_metadata VALUES (?, ?, 1)", rows[i], rows[i+1]))(t)
	}
	odd := filepath.Join(filepath.Dir(path), "emnist? 100%.sqlite") // a name that a URL has to escape
	must.Do(t, errors.Join(database.Close(), os.Rename(path, odd)))
	return odd
}

func TestTensorFlowFederatedsEMNISTIsRead(t *testing.T) {
	t.Parallel()
	pixels, want := emnist()
	path := emnistDatabase(t,
		"f0_1", "all_train", tfExample(true, 7, pixels), "f0_2", "all_test", tfExample(true, 8, pixels),
		"f0_2", "all_train", tfExample(false, 61, pixels), "f0_1", "all_train", tfExample(true, 0, pixels))
	check(t, TFF(t.Context(), path, "all_train"), Options{}, "f0_1 7 "+want, "f0_2 61 "+want, "f0_1 0 "+want)
	check(t, TFF(t.Context(), path, "all_test"), Options{}, "f0_2 8 "+want)
	refused(t, TFF(t.Context(), path, "heldout"), Options{}, `there is no split "heldout"; expected one of "all_test", "all_train"`)
}

func TestEMNISTFaultsAreReported(t *testing.T) {
	t.Parallel()
	pixels, want := emnist()
	bright := slices.Clone(pixels)
	bright[5] = 2
	good := tfExample(true, 7, pixels)
	path := emnistDatabase(t, "a", "all_train", good, "b", "all_train", good[:len(good)-3], "c", "all_train", tfExample(true, 1, pixels[:5]), "d", "all_train", tfExample(true, 1, bright))
	refused(t, TFF(t.Context(), path, "all_train"), Options{}, `row 2 of user "b" in emnist? 100%.sqlite: damaged example: unexpected EOF; repair`)
	got, found, err := written(t, TFF(t.Context(), path, "all_train"), Options{SkipCorrupt: true})
	if err != nil || !slices.Equal(got, []string{"a 7 " + want}) {
		t.Fatalf("%.40q, %v", got, err)
	}
	for i, words := range []string{`of user "b"`, `of user "c" in emnist? 100%.sqlite: example of 1 labels and 5 pixels; expected 1 and 784`, "pixel 5 is 2; expected 0 to 1"} {
		if !strings.Contains(found.FirstSkipped[i], words) {
			t.Errorf("skipped %q, want %q", found.FirstSkipped[i], words)
		}
	}
	refused(t, TFF(t.Context(), write(t, "a.sqlite", []byte("]\x00\x00\x80")), "all_train"), Options{}, "a.sqlite: no SQLite database; unpack what comes compressed: xz")
	other := filepath.Join(t.TempDir(), "other.sqlite")
	database := must.Get(sql.Open("sqlite", other))(t)
	must.Get(database.Exec("CREATE TABLE digits (pixels BLOB)"))(t)
	must.Do(t, database.Close())
	refused(t, TFF(t.Context(), other, "all_train"), Options{}, "no such table: client_metadata")
	refused(t, TFF(t.Context(), "absent.sqlite", "all_train"), Options{}, "absent.sqlite")
	if _, err := os.Stat("absent.sqlite"); err == nil {
		t.Error("a database that is not there was made")
	}
}

func FuzzEMNIST(f *testing.F) {
	pixels, _ := emnist()
	f.Add(tfExample(true, 7, pixels))
	f.Add(tfExample(false, 7, pixels))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, proto []byte) {
		label, pixels, err := parseEMNIST(proto)
		if err == nil && (label < 0 || len(pixels) != emnistSide*emnistSide) {
			t.Fatalf("label %d and %d pixels of %x", label, len(pixels), proto)
		}
	})
}

func parquetOf[T any](t *testing.T, rows ...T) string {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, parquet.Write(&out, rows))
	return write(t, "a.parquet", out.Bytes())
}

// hub is a row as the datasets of Hugging Face have it.
type hub struct {
	Image struct {
		Bytes []byte `parquet:"bytes,optional"`
		Path  string `parquet:"path,optional"`
	} `parquet:"image,optional"`
	Writer    string `parquet:"writer_id"`
	Character int64  `parquet:"character"`
}

func newHub(file []byte, writer string, label int64) hub {
	h := hub{Writer: writer, Character: label}
	h.Image.Bytes, h.Image.Path = file, "x.png"
	return h
}

func TestParquetWithFilesIsRead(t *testing.T) {
	t.Parallel()
	columns := Columns{Image: "image", User: "writer_id", Label: "character"}
	var rows []hub
	var want []string
	for i := range 40 { // several batches of rows
		rows = append(rows, newHub(pngOf(t, 1, 1, byte(i)), "w", int64(i%7)))
		want = append(want, fmt.Sprintf("w %d [%d]", i%7, i))
	}
	path := parquetOf(t, rows...)
	check(t, Parquet([]string{path, path}, columns), Options{}, append(slices.Clone(want), want...)...)

	type plain struct {
		Image []byte `parquet:"image"`
		User  int32  `parquet:"user"`
		Label int32  `parquet:"label"`
	}
	other := parquetOf(t, plain{pngOf(t, 1, 1, 9), 17, 3}, plain{[]byte("bad"), 17, 3}, plain{nil, 18, 4})
	plainColumns := Columns{Image: "image", User: "user", Label: "label"}
	refused(t, Parquet([]string{other}, plainColumns), Options{}, "a.parquet, row 2: the image is neither a PNG nor a JPEG file")
	got, found, err := written(t, Parquet([]string{other}, plainColumns), Options{SkipCorrupt: true})
	if err != nil || !slices.Equal(got, []string{"17 3 [9]"}) || found.Skipped != 2 {
		t.Errorf("%q, %+v, %v", got, found, err)
	}
}

func TestParquetFaultsAreReported(t *testing.T) {
	t.Parallel()
	path := parquetOf(t, newHub(pngOf(t, 1, 1), "w", 1))
	for words, c := range map[string]Columns{
		`a.parquet has no column "picture"; it has "image.bytes", "image.path", "writer_id", "character"`: {Image: "picture", User: "writer_id", Label: "character"},
		`a.parquet: column "writer_id" is of type BYTE_ARRAY; expected one [INT32 INT64] per row`:         {Image: "image", User: "writer_id", Label: "writer_id"},
	} {
		refused(t, Parquet([]string{path}, c), Options{}, words)
	}
	type lists struct {
		Image []byte  `parquet:"image"`
		User  string  `parquet:"user"`
		Label []int32 `parquet:"label"`
	}
	refused(t, Parquet([]string{parquetOf(t, lists{nil, "a", []int32{1, 2}})}, Columns{Image: "image", User: "user", Label: "label"}), Options{}, `column "label" is of type INT32; expected one`)
	type optional struct {
		Image []byte  `parquet:"image"`
		User  *string `parquet:"user"`
		Label *int32  `parquet:"label"`
	}
	one := int32(1)
	columns := Columns{Image: "image", User: "user", Label: "label"}
	refused(t, Parquet([]string{parquetOf(t, optional{Image: pngOf(t, 1, 1), Label: &one})}, columns), Options{}, `a.parquet, row 1: the user is ""`)
	refused(t, Parquet([]string{parquetOf(t, optional{Image: pngOf(t, 1, 1)})}, columns), Options{}, "a.parquet, row 1: the label is missing")
	refused(t, Parquet([]string{write(t, "b.parquet", []byte("PAR1"))}, columns), Options{}, "b.parquet: ")
}
