package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// ratio is the bound of decompression that tests read with.
const ratio = 200

var codecsOfTests = []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw}

// kinds are columns of every kind in every encoding that it has.
var kindsOfTests = []struct {
	node      func() parquet.Node
	encodings []encoding.Encoding
	value     func(*rand.Rand) parquet.Value
}{
	{func() parquet.Node { return parquet.Leaf(parquet.BooleanType) }, []encoding.Encoding{&parquet.Plain, &parquet.RLE},
		func(r *rand.Rand) parquet.Value { return parquet.BooleanValue(r.IntN(2) == 0) }},
	{func() parquet.Node { return parquet.Leaf(parquet.Int32Type) }, []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.DeltaBinaryPacked, &parquet.ByteStreamSplit},
		func(r *rand.Rand) parquet.Value { return parquet.Int32Value(int32(r.Uint64() >> r.IntN(64))) }},
	{func() parquet.Node { return parquet.Leaf(parquet.Int64Type) }, []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.DeltaBinaryPacked, &parquet.ByteStreamSplit},
		func(r *rand.Rand) parquet.Value { return parquet.Int64Value(int64(r.Uint64() >> r.IntN(64))) }},
	{func() parquet.Node { return parquet.Leaf(parquet.FloatType) }, []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.ByteStreamSplit},
		func(r *rand.Rand) parquet.Value { return parquet.FloatValue(float32(r.NormFloat64())) }},
	{func() parquet.Node { return parquet.Leaf(parquet.DoubleType) }, []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.ByteStreamSplit},
		func(r *rand.Rand) parquet.Value { return parquet.DoubleValue(math.Pow(10, r.NormFloat64()*100)) }},
	{func() parquet.Node { return parquet.String() }, []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.DeltaLengthByteArray, &parquet.DeltaByteArray},
		func(r *rand.Rand) parquet.Value {
			return parquet.ByteArrayValue([]byte(strings.Repeat("a boat ", r.IntN(4)) + fmt.Sprint(r.IntN(9))))
		}},
	{func() parquet.Node { return parquet.Leaf(parquet.FixedLenByteArrayType(5)) }, []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.DeltaByteArray},
		func(r *rand.Rand) parquet.Value {
			return parquet.FixedLenByteArrayValue(fmt.Appendf(nil, "%05d", r.IntN(1000)))
		}},
}

// written is a file of columns c0, c1, …, and the texts that each has in each row.
type written struct {
	file []byte
	rows [][][]string
}

// write makes a file by a seed. Each column has a kind, an encoding and a codec of its own, and is
// required, optional or a list.
func write(seed uint64) (written, error) {
	r := rand.New(rand.NewPCG(seed, 7))
	group, columns := parquet.Group{}, 1+r.IntN(5)
	kinds, shapes := make([]int, columns), make([]int, columns)
	for i := range columns {
		kinds[i], shapes[i] = r.IntN(len(kindsOfTests)), r.IntN(3)
		kind := kindsOfTests[kinds[i]]
		node := parquet.Encoded(kind.node(), kind.encodings[r.IntN(len(kind.encodings))])
		node = parquet.Compressed(node, codecsOfTests[r.IntN(len(codecsOfTests))])
		switch shapes[i] {
		case 1:
			node = parquet.Optional(node)
		case 2:
			node = parquet.List(parquet.Optional(node))
		}
		group[fmt.Sprintf("c%d", i)] = node
	}
	var file bytes.Buffer
	w := parquet.NewWriter(&file, parquet.NewSchema("test", group),
		parquet.DataPageVersion(1+r.IntN(2)), parquet.PageBufferSize(64+r.IntN(4096)), parquet.MaxRowsPerRowGroup(int64(1+r.IntN(300))), parquet.WriteBufferSize(0))
	made := written{}
	for range r.IntN(400) {
		row, texts := parquet.Row{}, make([][]string, columns)
		for i := range columns {
			var values []parquet.Value
			values, texts[i] = column(r, i, shapes[i], kindsOfTests[kinds[i]].value)
			row = append(row, values...)
		}
		made.rows = append(made.rows, texts)
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			return made, err
		}
	}
	err := w.Close()
	made.file = file.Bytes()
	return made, err
}

// column are the values of a row in a column of a shape, and those that are there as texts.
func column(r *rand.Rand, i, shape int, value func(*rand.Rand) parquet.Value) (values []parquet.Value, texts []string) {
	texts = []string{}
	null := parquet.NullValue()
	switch {
	case shape == 0:
		v := value(r)
		return []parquet.Value{v.Level(0, 0, i)}, []string{v.String()}
	case r.IntN(5) == 0:
		return []parquet.Value{null.Level(0, 0, i)}, texts
	case shape == 1:
		v := value(r)
		return []parquet.Value{v.Level(0, 1, i)}, []string{v.String()}
	}
	for j := range 1 + r.IntN(4) {
		if r.IntN(5) == 0 {
			values = append(values, null.Level(min(j, 1), 1, i))
			continue
		}
		v := value(r)
		values, texts = append(values, v.Level(min(j, 1), 2, i)), append(texts, v.String())
	}
	return values, texts
}

// read reads all columns of a file, perhaps without comparing checksums.
func read(file []byte, unchecked bool) (rows [][][]string, err error) {
	f, err := Open(bytes.NewReader(file), int64(len(file)), ratio)
	if err != nil {
		return nil, err
	}
	f.unchecked = unchecked
	const maxRows = 1 << 12 // one value may stand for any number of rows
	for g := range f.Groups() {
		columns := make([]*Column, len(f.Leaves()))
		for i := range columns {
			columns[i] = f.Read(g, i)
		}
		for range min(f.Rows(g), maxRows) {
			row := make([][]string, len(columns))
			for i, c := range columns {
				if row[i], err = readRow(c, &f.Leaves()[i]); err != nil {
					return rows, err
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func readRow(c *Column, leaf *Leaf) ([]string, error) {
	texts := []string{}
	for more := true; more && len(texts) < 1<<12; {
		v, err := c.Next()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // before the last row
		}
		if err != nil {
			return nil, err
		}
		if !v.Null {
			text, err := leaf.Text(v)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
		if more, err = c.Continues(); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// A library of its own writes files of all kinds, encodings, codecs and shapes.
func TestReadMatchesWrittenRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		made := must.Get(write(rapid.Uint64().Draw(t, "seed")))(t)
		rows, err := read(made.file, false)
		if err != nil || !reflect.DeepEqual(rows, made.rows) {
			t.Fatalf("%d rows came back as %d (%v):\n%v\n%v", len(made.rows), len(rows), err, made.rows, rows)
		}
	})
}

// A file that is cut is never taken for whole.
func TestTruncatedFilesAreRejected(t *testing.T) {
	t.Parallel()
	made, err := write(5)
	if err != nil || len(made.rows) == 0 {
		t.Fatal(len(made.rows), err)
	}
	for end := range len(made.file) {
		if _, err := read(made.file[:end], true); err == nil {
			t.Fatalf("the first %d bytes of %d were read", end, len(made.file))
		}
	}
}

func TestDamagedFilesAreRejected(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gzip-header.parquet", "negative-children.parquet"} {
		file := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
		if _, err := read(file, false); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestUnsupportedFeaturesAreReported(t *testing.T) {
	t.Parallel()
	decimal := parquet.Group{"price": parquet.Decimal(2, 9, parquet.Int32Type)}
	var file bytes.Buffer
	w := parquet.NewWriter(&file, parquet.NewSchema("test", decimal))
	must.Get(w.WriteRows([]parquet.Row{{parquet.Int32Value(250).Level(0, 0, 0)}}))(t)
	must.Do(t, w.Close())
	f := must.Get(Open(bytes.NewReader(file.Bytes()), int64(file.Len()), ratio))(t)
	leaf := f.Leaves()[0]
	must.Say(t, leaf.Readable(), `"price" holds decimals`)
	encrypted := append([]byte("PARE"), file.Bytes()[4:]...)
	_, err := Open(bytes.NewReader(encrypted), int64(len(encrypted)), ratio)
	must.Say(t, err, "encrypted")
}

func TestUnsignedAndTimeValuesAreConverted(t *testing.T) {
	t.Parallel()
	var spark [12]byte
	binary.LittleEndian.PutUint64(spark[:], 3_600_500_000_000)
	binary.LittleEndian.PutUint32(spark[8:], 2440589)
	for _, c := range []struct {
		leaf  Leaf
		value Value
		want  string
	}{
		{Leaf{Kind: Int64, Meaning: Seconds, PerSecond: 1e3}, Value{Bits: 1500}, "1.5"},
		{Leaf{Kind: Int96}, Value{Bytes: spark[:]}, "90000.5"},
		{Leaf{Kind: FixedBytes, Meaning: UUID}, Value{Bytes: []byte("0123456789abcdef")}, "30313233-3435-3637-3839-616263646566"},
		{Leaf{Kind: Int32, Meaning: Unsigned}, Value{Bits: 7}, "7"},
		{Leaf{Kind: Int32, Meaning: Unsigned}, Value{Bits: math.MaxUint64}, ""},
	} {
		if got, err := c.leaf.Text(c.value); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v of %+v is %q (%v), want %q", c.value, c.leaf, got, err, c.want)
		}
	}
}

// mutate damages some bytes.
func mutate(file []byte, seed uint64) []byte {
	r, file := rand.New(rand.NewPCG(seed, 11)), bytes.Clone(file)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(file))
		if r.IntN(2) == 0 { // the footer and the page headers are the most delicate part
			at = max(0, len(file)-1-r.IntN(min(len(file), 600)))
		}
		switch r.IntN(4) {
		case 0:
			file[at] ^= 1 << r.IntN(8)
		case 1:
			file[at] = byte(r.Uint32())
		case 2:
			file[at] = 0xff
		case 3:
			n := min(len(file)-at, 1+r.IntN(9))
			copy(file[at:at+n], []byte("\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
		}
	}
	return file
}

// maxMemory bounds a single allocation while a small damaged file is read.
const maxMemory = 256 << 20

// checkDamaged reads a file that may be damaged: it must not panic, nor take much memory.
func checkDamaged(t testing.TB, file []byte) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := read(file, true)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > maxMemory+uint64(len(file))*1000 {
		t.Fatalf("reading %d bytes allocated %d (%v)", len(file), grown, err)
	}
	if errors.Is(err, io.EOF) {
		t.Fatalf("a damaged file ended as a whole one does: %v", err)
	}
}

// It runs alone, since it measures memory.
func TestDamagedBytesNeitherPanicNorTakeMemory(t *testing.T) {
	for seed := range uint64(40) {
		made := must.Get(write(seed))(t)
		for change := range uint64(25) {
			checkDamaged(t, mutate(made.file, change))
		}
	}
}

// FuzzFile reads files that are damaged by a seed, and then any bytes.
func FuzzFile(f *testing.F) {
	for seed := range uint64(24) {
		made := must.Get(write(seed))(f)
		f.Add(made.file, seed)
	}
	f.Fuzz(func(t *testing.T, file []byte, seed uint64) {
		if len(file) == 0 {
			return
		}
		checkDamaged(t, file)
		checkDamaged(t, mutate(file, seed))
		if made, err := write(seed); err == nil {
			checkDamaged(t, mutate(made.file, uint64(crc32.ChecksumIEEE(file))))
		}
	})
}
