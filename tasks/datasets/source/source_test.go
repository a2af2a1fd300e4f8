package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(data)
	must.Do(t, z.Close())
	return out.Bytes()
}

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	z := must.Get(zstd.NewWriter(nil))(t)
	return z.EncodeAll(data, nil)
}

func readAll(ctx context.Context, limits Limits, files ...File) ([]Record, error) {
	var all []Record
	for rec, err := range Records(ctx, files, limits) {
		if err != nil {
			return all, err
		}
		all = append(all, rec)
	}
	return all, nil
}

const twoLines = `{"user":"ann","text":"Hello there."}` + "\n" + `{"id":7,"text":"Bye","user":"bob"}`

func TestRecordsReadsEveryCompressionAlike(t *testing.T) {
	t.Parallel()
	plain := []byte(twoLines)
	split := append(gzipped(t, plain[:20]), gzipped(t, plain[20:])...)
	for name, data := range map[string][]byte{
		"plain.jsonl":       plain,
		"newline.jsonl":     []byte(twoLines + "\n"),
		"windows.jsonl":     []byte(strings.ReplaceAll(twoLines, "\n", "\r\n") + "\r\n"),
		"bom.jsonl":         append([]byte("\ufeff"), plain...),
		"data.jsonl.gz":     gzipped(t, plain),
		"two members.gz":    split,
		"data.zst":          zstandard(t, plain),
		"gzip without name": gzipped(t, plain),
	} {
		got, err := readAll(t.Context(), Limits{}, inMemory(name, data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []Record{{User: "ann", Text: "Hello there.", File: name, Line: 1, Part: population.Train}, {User: "bob", Text: "Bye", File: name, Line: 2, Part: population.Train}}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestRecordsReadsFilesInTheOrderGiven(t *testing.T) {
	t.Parallel()
	got := must.Get(readAll(t.Context(), Limits{},
		inMemory("a.jsonl", []byte(twoLines)), inMemory("b.jsonl.gz", gzipped(t, []byte(twoLines)))))(t)
	if len(got) != 4 || got[2].File != "b.jsonl.gz" || got[2].Line != 1 {
		t.Errorf("got %v", got)
	}
}

func TestErrorsNameFileLineAndExpectedInput(t *testing.T) {
	t.Parallel()
	good := `{"user":"ann","text":"Hello"}` + "\n"
	compressed := gzipped(t, []byte(strings.Repeat(good, 1000)))
	zst := zstandard(t, []byte(strings.Repeat(good, 1000)))
	flipped := bytes.Clone(compressed)
	flipped[len(flipped)-5] ^= 0xff // in the checksum
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"a.jsonl", "a.jsonl, line 2: not JSON", []byte(good + "hello\n")},
		{"a.jsonl", "a.jsonl, line 1: not JSON (unexpected end of JSON input)", []byte(`{"user":"ann",`)},
		{"a.jsonl", `line 2: a JSON array, not an object; expected {"user": "…", "text": "…"}`, []byte(good + `[1]`)},
		{"a.jsonl", `line 1: "user" is a JSON number, not a string`, []byte(`{"user":12,"text":"x"}`)},
		{"a.jsonl", `line 2: "user" is missing; expected`, []byte(good + `{"text":"x"}`)},
		{"a.jsonl", `"user" is empty`, []byte(`{"user":"","text":"x"}`)},
		{"a.jsonl", `"text" is missing`, []byte(`{"user":"ann"}`)},
		{"a.jsonl", `"text" is missing`, []byte(`{"user":"ann","text":null}`)},
		{"a.jsonl", `"text" is empty`, []byte(`{"user":"ann","text":""}`)},
		{"a.jsonl", `"text" " \t" holds no words`, []byte(`{"user":"ann","text":" \t"}`)},
		{"a.jsonl", "line 2: the line is empty", []byte(good + "\n" + good)},
		{"a.jsonl", "line 1: byte 23 is not valid UTF-8", []byte(`{"user":"ann","text":"` + "\xff\"}")},
		{"a.jsonl", "a.jsonl: holds no records", nil},
		{"a.jsonl.gz", "a.jsonl.gz: the content is not compressed, contrary to the name", []byte(good)},
		{"a.jsonl.gz", "the file is truncated; get it again", compressed[:len(compressed)-20]},
		{"a.jsonl.gz", "the compressed data is corrupt (gzip: invalid checksum)", flipped},
		{"a.jsonl.gz", "the file is truncated", compressed[:2]},
		{"a.jsonl.gz", "the compressed data is corrupt (gzip: unexpected content after the last member)", append(bytes.Clone(compressed), "trailing garbage"...)},
		{"a.jsonl.gz", "the compressed data is corrupt (gzip: unexpected content after the last member)", append(bytes.Clone(compressed), 'x')},
		{"a.jsonl.gz", "the file is truncated; get it again", append(bytes.Clone(compressed), compressed[:1]...)},
		{"a.jsonl.zst", "the file is truncated; get it again", zst[:len(zst)-3]},
		{"a.jsonl.zst", "the compressed data is corrupt", append(bytes.Clone(zst[:4]), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)},
	} {
		_, err := readAll(t.Context(), Limits{}, inMemory(c.name, c.data))
		var fault *Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) || fault.File != c.name {
			t.Errorf("%s %.40q: got %v; want an error with %q", c.name, c.data, err, c.want)
		}
	}
}

func TestLimitsBoundLinesAndTotal(t *testing.T) {
	t.Parallel()
	long := []byte(`{"user":"ann","text":"` + strings.Repeat("x", 100) + `"}`)
	if _, err := readAll(t.Context(), Limits{LineBytes: len(long)}, inMemory("a", long)); err != nil {
		t.Errorf("a line of just the limit: %v", err)
	}
	_, err := readAll(t.Context(), Limits{LineBytes: len(long) - 1}, inMemory("a", long))
	must.Say(t, err, "a, line 1: the line is longer than 123 bytes")
	_, err = readAll(t.Context(), Limits{TotalBytes: 200}, inMemory("a", long), inMemory("b", gzipped(t, long)))
	must.Say(t, err, "b, line 1: the source holds more than 200 bytes")
}

func TestADecompressionBombIsStopped(t *testing.T) {
	t.Parallel()
	one := []byte(`{"user":"ann","text":"` + strings.Repeat("x", 1<<20-100) + `"}` + "\n")
	bomb := bytes.Repeat(one, 18)
	for name, data := range map[string][]byte{"bomb.gz": gzipped(t, bomb), "bomb.zst": zstandard(t, bomb)} {
		lines := 0
		var err error
		for _, err = range Records(t.Context(), []File{inMemory(name, data)}, Limits{}) {
			lines++
		}
		if err == nil || !strings.Contains(err.Error(), "decompression bomb") || !strings.Contains(err.Error(), "data.limits.ratio") {
			t.Errorf("%s: after %d lines, %v", name, lines, err)
		}
	}
	if _, err := readAll(t.Context(), Limits{Ratio: 1 << 20}, inMemory("bomb.gz", gzipped(t, bomb))); err != nil {
		t.Errorf("a bomb that is allowed: %v", err)
	}
	if _, err := readAll(t.Context(), Limits{}, inMemory("smallShape.gz", gzipped(t, bytes.Repeat(one, 10)))); err != nil {
		t.Errorf("a little repetitive data: %v", err)
	}
}

// brokenDisk fails after a while, as no fault of the data.
type brokenDisk struct{ data io.Reader }

var errDisk = errors.New("disk on fire")

func (b brokenDisk) Read(p []byte) (int, error) {
	n, err := b.data.Read(p[:min(len(p), 16)])
	if err == io.EOF {
		err = errDisk
	}
	return n, err
}

func TestReadErrorIsNotSourceError(t *testing.T) {
	t.Parallel()
	for _, data := range [][]byte{nil, []byte(twoLines), gzipped(t, []byte(twoLines))[:30], zstandard(t, []byte(twoLines))[:20]} {
		file := File{Name: "a", Open: func() (io.ReadCloser, error) { return io.NopCloser(brokenDisk{bytes.NewReader(data)}), nil }}
		_, err := readAll(t.Context(), Limits{}, file)
		var fault *Error
		if !errors.Is(err, errDisk) || errors.As(err, &fault) {
			t.Errorf("after %d bytes: %v", len(data), err)
		}
	}
	_, err := readAll(t.Context(), Limits{}, File{Name: "a", Open: func() (io.ReadCloser, error) { return os.Open(filepath.Join(t.TempDir(), "absent")) }})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestRecordsStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := readAll(ctx, Limits{}, inMemory("a", []byte(strings.Repeat(`{"user":"a","text":"b"}`+"\n", 2000))))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// FuzzReader feeds arbitrary bytes, plain and compressed: every outcome is
// records that hold words, or one error.
func FuzzReader(f *testing.F) {
	f.Add([]byte(twoLines))
	f.Add(gzipped(f, []byte(twoLines)))
	f.Add(zstandard(f, []byte(twoLines)))
	f.Add([]byte("{\"user\":\"\\ud800\",\"text\":\"\\u0000\"}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := readAll(t.Context(), Limits{LineBytes: 4096, TotalBytes: 1 << 20}, inMemory("fuzz", data))
		if err == nil && len(records) == 0 {
			t.Error("neither records nor an error")
		}
		for _, r := range records {
			if r.User == "" || len(text.Tokenize(r.Text)) == 0 {
				t.Errorf("record %+v", r)
			}
		}
	})
}

// Wherever a file is cut, the records before the cut are read, and then an error names it.
func TestTruncatedFileIsReportedAtAnyOffset(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for i := range 400 {
		fmt.Fprintf(&rows, "user %d,%x\n", i%7, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	table, database := []byte("user,text\n"+rows.String()), tffDatabase(t, t.TempDir(), "train", "a", message(1, texts("tokens", "hello there")))
	for name, whole := range map[string][]byte{
		"a.csv.lzma": inLZMA(t, table), "a.csv.xz": inXZ(t, table),
		"a.sqlite.lzma": inLZMA(t, database), "a.sqlite.xz": inXZ(t, database),
	} {
		form := forms.CSV
		if strings.HasPrefix(name, "a.sqlite") {
			form = forms.TFF
		}
		cut := func(at int) (err error) {
			for _, err = range (Reading{Origin: Origin{Form: form}}).Records(t.Context(), []File{inMemory(name, whole[:at])}, Limits{LineBytes: 1000}) {
			}
			return err
		}
		for at := 20; at < len(whole); at += 1 + min(len(whole)-at, len(whole)/2)/10 { // near the end at every byte
			if err := cut(at); err == nil || !strings.Contains(err.Error(), "the file is truncated; get it again") && at > 40 {
				t.Errorf("%s, cut at byte %d of %d: %v", name, at, len(whole), err)
			}
		}
		if err := cut(len(whole)); err != nil {
			t.Errorf("%s, whole: %v", name, err)
		}
	}
}

func TestSkipFaultsReadsRecordsBeforeTruncation(t *testing.T) {
	t.Parallel()
	whole := inLZMA(t, []byte("user,text\n"+strings.Repeat("ann,hello there\n", 1000)))
	n := 0
	var skipped Skipped
	for _, err := range (Reading{Origin: Origin{Form: forms.CSV, SkipFaults: true}}).Read(t.Context(), []File{inMemory("a.csv.lzma", whole[:len(whole)-8])}, Limits{}, &skipped) {
		must.Do(t, err)
		n++
	}
	if n < 100 || n >= 1000 || skipped.Records == 0 || !strings.Contains(skipped.First[len(skipped.First)-1], "truncated") {
		t.Errorf("%d records, and %+v", n, skipped)
	}
}

// One line that is too long is one fault, regardless of the text after it.
func TestSkipFaultsSkipsLongLineOnly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct {
		data, want string
	}{
		"JSON lines": {`{"user":"ann","text":"one"}` + "\n" + long + "\n" + `{"user":"ann","text":"two"}` + "\n" + long, "file 1, line 2: the line is longer than 1000 bytes"},
		"a dump":     {"<posts>\n<row OwnerUserId=\"ann\" Body=\"one\" />\n" + long + "\n<row OwnerUserId=\"ann\" Body=\"two\" />\n" + long + "\n</posts>\n", "file 1, line 3: the line is longer than 1000 bytes"},
	} {
		var got []Record
		var skipped Skipped
		for rec, err := range (Reading{Origin: Origin{SkipFaults: true}}).Read(t.Context(), []File{inMemory("posts", []byte(c.data))}, Limits{LineBytes: 1000}, &skipped) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, rec)
		}
		if !slices.Equal(lines(got), []string{"ann: one", "ann: two"}) || skipped.Records != 2 || !strings.HasPrefix(skipped.First[0], c.want) {
			t.Errorf("%s: %q and %+v, want the two others and %s", name, lines(got), skipped, c.want)
		}
		if _, err := readAll(t.Context(), Limits{LineBytes: 1000}, inMemory("posts", []byte(c.data))); err == nil || !strings.Contains(err.Error(), "posts, line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func inMemory(name string, data []byte) File {
	return File{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// BenchmarkForms reads records of every form with columns: examples and MB of the files a
// second, of one core. Posts have 200 words, sentences of tff 12, as there.
func BenchmarkForms(b *testing.B) {
	posts := make([]post, 20_000)
	for i := range posts {
		posts[i] = post{Author: fmt.Sprint("user ", i%500), Body: strings.Repeat(fmt.Sprint("some word ", i, " or other, "), 40), Made: "2020-01-02", Stars: 3, Topics: []string{"a"}}
	}
	sentences := make([]post, 100_000)
	for i := range sentences {
		sentences[i] = post{Author: fmt.Sprint("0012", i%900), Body: fmt.Sprintf("how do i read row %d of a table with twelve words ?", i), Made: "2017-05-08 15:41:01.78 UTC", Topics: []string{"go"}}
	}
	for _, c := range []struct {
		form     forms.Form
		examples int
		data     []byte
	}{
		{forms.JSONLines, len(posts), inJSON(b, posts)},
		{forms.CSV, len(posts), inCSV(b, ',', posts)},
		{forms.Parquet, len(posts), inParquetOf(b, posts, 10_000, 1<<20)},
		{forms.TFF, len(sentences), inTFF(b, b.TempDir(), sentences)},
	} {
		r := Reading{Origin: Origin{Form: c.form, Columns: postColumns}}
		if c.form == forms.TFF {
			r.Columns.User = ""
		}
		b.Run(string(c.form), func(b *testing.B) {
			b.SetBytes(int64(len(c.data)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range r.Records(b.Context(), []File{inMemory("posts", c.data)}, Limits{}) {
					must.Do(b, err)
				}
			}
			b.ReportMetric(float64(c.examples*b.N)/b.Elapsed().Seconds(), "examples/s")
		})
	}
}

func TestTimesAreDatesOrNumbers(t *testing.T) {
	t.Parallel()
	form := lineForm{parse: func([]byte) (Record, error) { return Record{}, nil }}.timed()
	for text, want := range map[string]float64{
		`5`: 5, `-1.5e3`: -1500, `0`: 0, `"1970-01-02"`: 86400, `"1970-01-01T00:00:10Z"`: 10, `"1970-01-01T01:00:00+01:00"`: 0,
		`"1970-01-01T00:00:01.25Z"`: 1.25, `"2010-07-19T19:12:12.510"`: 1279566732.51, `"1790-01-08"`: -5679590400,
	} {
		if got, err := form.parse([]byte(`{"time":` + text + `}`)); err != nil || got.Time != want {
			t.Errorf("the time %s is %v, %v, want %v", text, got.Time, err, want)
		}
	}
	for text, want := range map[string]string{
		`{}`: `"time" is missing`, `{"time":null}`: `"time" is missing`, `{"time":"yesterday"}`: `"yesterday"; expected a date`,
		`{"time":[1]}`: "[1]; expected a date", `{"time":1e999}`: "1e999; expected", `{"time":""}`: `""; expected`,
	} {
		if got, err := form.parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is the time %v, %v, want %s", text, got.Time, err, want)
		}
	}
}

// Groups are read from every form, under any column name.
func TestGroupsAreReadFromEveryForm(t *testing.T) {
	t.Parallel()
	const dump = "<posts>\n" + `<row Id="17" OwnerUserId="3" Body="One. Two." />` + "\n</posts>\n"
	for name, c := range map[string]struct {
		reading Reading
		source  string
	}{
		"JSON lines":     {Reading{}, `{"user":"a","text":"b","group":"17"}`},
		"numbers":        {Reading{}, `{"user":"a","text":"b","group":17}`},
		"renamed":        {Reading{Origin: Origin{Columns: forms.Columns{Group: "album"}}}, `{"user":"a","text":"b","album":17}`},
		"CSV":            {Reading{Origin: Origin{Form: forms.CSV, Columns: forms.Columns{Group: "album"}}}, "user,text,album\na,b,17\n"},
		"Stack Exchange": {Reading{Origin: Origin{Form: forms.StackExchange}}, dump},
	} {
		c.reading.Grouped = true
		records, err := readAs(t, c.reading, []byte(c.source))
		if err != nil || len(records) == 0 || slices.ContainsFunc(records, func(r Record) bool { return r.Group != "17" }) {
			t.Errorf("%s: %+v, %v", name, records, err)
		}
	}
}

// A record without a group is named where groups are wanted.
func TestARecordWithoutAGroupIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reading      Reading
		source, want string
	}{
		{Reading{}, `{"user":"a","text":"b"}`, `line 1: "group" is missing; expected`},
		{Reading{}, `{"user":"a","text":"b","group":""}`, `line 1: "group" is empty; expected`},
		{Reading{}, `{"user":"a","text":"b","group":["x"]}`, `line 1: "group" is ["x"]; expected a text or a number`},
		{Reading{Level: text.ImageLevel}, `{"user":"a","label":1,"pixels":"` + strings.Repeat("A", 1045) + `A=="}`, `line 1: "group" is missing; expected`},
		{Reading{Origin: Origin{Form: forms.CSV}}, "user,text,group\na,b,\n", `line 2: "group" is missing`},
		{Reading{Origin: Origin{Form: forms.CSV, Columns: forms.Columns{Group: "album"}}}, "user,text\na,b\n", `there is no column "album"`},
	} {
		c.reading.Grouped = true
		_, err := readAs(t, c.reading, []byte(c.source))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.source, err, c.want)
		}
	}
}
