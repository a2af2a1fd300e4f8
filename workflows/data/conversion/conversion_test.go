package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// images yields examples, each followed by its error.
func files(list ...Example) Examples {
	return func(yield func(Example, error) bool) {
		for i, x := range list {
			if x.Where == "" {
				x.Where = fmt.Sprint("image ", i+1)
			}
			if !yield(x, nil) {
				return
			}
		}
	}
}

func grey(user string, label, width, height int, pixels ...byte) Example {
	return Example{User: user, Label: label, Width: width, Height: height, Pixels: pixels}
}

// written converts and reads back the result: "user label pixels" for each line.
func written(t testing.TB, examples Examples, o Options) ([]string, *Summary, error) {
	t.Helper()
	var out bytes.Buffer
	found, err := Convert(examples, &out, o)
	if err != nil {
		return nil, nil, err
	}
	file := source.File{Name: "out", Open: func() (io.ReadCloser, error) { return io.NopCloser(&out), nil }}
	var lines []string
	for record, err := range (source.Reading{Level: text.ImageLevel, Image: found.Shape}).Records(t.Context(), []source.File{file}, source.Limits{}) {
		must.Do(t, err)
		label, pixels := record.Image()
		lines = append(lines, fmt.Sprintf("%s %d %d", record.User, label, pixels))
	}
	return lines, found, nil
}

// check compares the written lines with the wanted ones.
func check(t *testing.T, examples Examples, o Options, want ...string) {
	t.Helper()
	got, _, err := written(t, examples, o)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

// refused checks that a conversion ends with an error that has the words.
func refused(t *testing.T, examples Examples, o Options, words string) {
	t.Helper()
	var out bytes.Buffer
	_, err := Convert(examples, &out, o)
	must.Say(t, err, words)
}

func pngOf(t testing.TB, width, height int, pixels ...byte) []byte {
	t.Helper()
	picture := image.NewGray(image.Rect(0, 0, width, height))
	copy(picture.Pix, pixels)
	var out bytes.Buffer
	must.Do(t, png.Encode(&out, picture))
	return out.Bytes()
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, data, 0o644))
	return path
}

func TestConvertedImagesAreReadable(t *testing.T) {
	t.Parallel()
	list := []Example{
		grey("ann", 3, 2, 1, 0, 255), grey("bob \"the\" <b>", 0, 2, 1, 7, 8),
		{User: "ann", Label: 2, File: pngOf(t, 2, 1, 9, 10)},
	}
	got, found, err := written(t, files(list...), Options{})
	if want := []string{"ann 3 [0 255]", "bob \"the\" <b> 0 [7 8]", "ann 2 [9 10]"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	want := Summary{Shape: images.Shape{Width: 2, Height: 1, Channels: 1, Classes: 4}, Images: 3, Users: 2}
	if fmt.Sprint(*found) != fmt.Sprint(want) {
		t.Errorf("found %+v, want %+v", *found, want)
	}
	check(t, files(grey("a", 1, 2, 1, 0, 200)), Options{Invert: true}, "a 1 [255 55]")
	shape := images.Shape{Width: 2, Height: 1, Channels: 3}
	check(t, files(Example{User: "a", File: pngOf(t, 2, 1, 9, 10)}), Options{Shape: shape}, "a 0 [9 9 9 10 10 10]")
}

func TestIgnoreCaseMergesLetterLabels(t *testing.T) {
	t.Parallel()
	var list []Example
	var want []string
	const characters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for label, c := range characters {
		list = append(list, grey(string(c), label, 1, 1, 5))
		want = append(want, fmt.Sprintf("%c %d [5]", c, strings.IndexRune(characters, []rune(strings.ToUpper(string(c)))[0])))
	}
	check(t, files(list...), Options{IgnoreCase: true}, want...)
	refused(t, files(grey("a", 62, 1, 1, 5)), Options{IgnoreCase: true}, "image 1: the label is 62; expected 0 to 61")
}

func TestImageFaultsAreReported(t *testing.T) {
	t.Parallel()
	good := grey("a", 0, 2, 1, 0, 1)
	for words, c := range map[string]struct {
		bad Example
		o   Options
	}{
		"image 2: the label is 256; expected 0 to 255":                {grey("a", 256, 2, 1, 0, 1), Options{}},
		"image 2: the label is -1; expected 0 to 255":                 {grey("a", -1, 2, 1, 0, 1), Options{}},
		"image 2: the label is 4; expected 0 to 3":                    {grey("a", 4, 2, 1, 0, 1), Options{Shape: images.Shape{Classes: 4}}},
		`image 2: the user is ""; expected a name`:                    {grey("", 0, 2, 1, 0, 1), Options{}},
		`image 2: the user is "\xff"; expected a name in UTF-8`:       {grey("\xff", 0, 2, 1, 0, 1), Options{}},
		"image 2: the image has 1 x 2 pixels; expected 2 x 1; repair": {grey("a", 0, 1, 2, 0, 1), Options{}},
		"image 2: the image is 3 x 1 pixels; expected 2 x 1; repair":  {Example{User: "a", File: pngOf(t, 3, 1)}, Options{}},
		"image 2: the image is neither a PNG nor a JPEG file":         {Example{User: "a", File: []byte("GIF89a")}, Options{}},
		"skip such images (--skip-corrupt)":                           {Example{User: "a", File: pngOf(t, 2, 1)[:40]}, Options{}},
		"image 1: the images are grey; expected --channels 1, not 3":  {good, Options{Shape: images.Shape{Channels: 3}}},
		"image 1: the image has 2 x 1 pixels; expected 5 x 5; repair": {good, Options{Shape: images.Shape{Width: 5, Height: 5}}},
	} {
		refused(t, files(good, c.bad), c.o, words)
	}
	refused(t, files(grey("a", 0, 20000, 1, make([]byte, 20000)...)), Options{}, "images of 20000 x 1 pixels and 1 channels; expected")
	refused(t, files(), Options{}, "found no readable image (0 skipped)")
}

func TestCorruptImagesAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	list := []Example{{User: "a", File: []byte("no image")}, grey("a", 0, 1, 1, 4)}
	for range 7 {
		list = append(list, grey("b", 0, 2, 2, 1, 2, 3, 4))
	}
	got, found, err := written(t, files(list...), Options{SkipCorrupt: true})
	if err != nil || !slices.Equal(got, []string{"a 0 [4]"}) {
		t.Fatalf("%q, %v", got, err)
	}
	if found.Skipped != 8 || len(found.FirstSkipped) != 5 || found.Images != 1 || found.Users != 1 || !strings.HasPrefix(found.FirstSkipped[0], "image 1: the image is neither") {
		t.Errorf("found %+v", found)
	}
	refused(t, files(list[0]), Options{SkipCorrupt: true}, "found no readable image (1 skipped)")
	refused(t, files(grey("a", 300, 1, 1, 4)), Options{SkipCorrupt: true}, "the label is 300") // no fault of an image
}

func TestWriteFileIsAtomic(t *testing.T) {
	t.Parallel()
	for name, magic := range map[string]string{"a.jsonl": "{", "a.jsonl.gz": "\x1f\x8b\x08\x00\x00\x00\x00\x00", "a.jsonl.zst": "\x28\xb5\x2f\xfd"} {
		folder := t.TempDir()
		path := filepath.Join(folder, name)
		convert := func(out io.Writer) error {
			_, err := Convert(files(grey("a", 0, 1, 1, 4)), out, Options{})
			return err
		}
		broken := errors.New("broken")
		if err := WriteFile(path, func(out io.Writer) error { return errors.Join(convert(out), broken) }); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", name, err)
		}
		if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
			t.Errorf("%s failed, and leaves %v (%v)", name, entries, err)
		}
		must.Do(t, WriteFile(path, convert))
		data, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(data), magic) {
			t.Errorf("%s begins with % x (%v)", name, data[:min(8, len(data))], err)
		}
	}
}

func TestIDXFilesGiveImagesWithTheirWriters(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		folder := idxFolder(t, packed)
		files := must.Get(FindIDX(folder, IDXFiles{WriterColumn: QMNISTWriter}))(t)
		check(t, IDX(files), Options{}, "71 9 [1 2 3 4 5 6]", "12 0 [7 8 9 10 11 255]")
		files.Labels = ""
		refused(t, IDX(files), Options{}, "has 2 images, but there are 3 labels and 3 writers")
		files.WriterColumn = 3
		refused(t, IDX(files), Options{}, "has 3 columns; the writer cannot be in column 3")
	}
}

func idx(elements byte, sizes []uint32, data ...byte) []byte {
	out := []byte{0, 0, elements, byte(len(sizes))}
	for _, n := range sizes {
		out = append(out, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(out, data...)
}

func ints(values ...int32) []byte {
	var out []byte
	for _, v := range values {
		out = append(out, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return out
}

// idxFolder has two images of 3 x 2 pixels, their labels, and a table with a row more.
func idxFolder(t *testing.T, packed bool) string {
	t.Helper()
	folder := t.TempDir()
	for name, data := range map[string][]byte{
		"t-images-idx3-ubyte": idx(idxBytes, []uint32{2, 2, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255),
		"t-labels-idx1-ubyte": idx(idxBytes, []uint32{2}, 9, 0),
		"q-labels-idx2-int":   idx(idxInts, []uint32{3, 3}, ints(9, 4, 71, 0, 0, 12, 5, 5, 5)...),
	} {
		if packed {
			name, data = name+".gz", gzipped(t, data)
		}
		must.Do(t, os.WriteFile(filepath.Join(folder, name), data, 0o644))
	}
	return folder
}

func TestMismatchedIDXFilesAreRejected(t *testing.T) {
	t.Parallel()
	pictures := idx(idxBytes, []uint32{2, 1, 1}, 5, 6)
	table := idx(idxInts, []uint32{2, 3}, ints(1, 0, 8, 2, 0, 9)...)
	labels := idx(idxBytes, []uint32{2}, 1, 2)
	for words, c := range map[string][3][]byte{
		"begins with 00 00 08 01; expected 00 00 08 03":                     {labels, labels, table},
		"image 2 has the label 3 in l, but 2 in w":                          {pictures, idx(idxBytes, []uint32{2}, 1, 3), table},
		"has 2 images, but there are 1 labels and 2 writers":                {pictures, labels[:0:0], table},
		"w: the file is truncated":                                          {pictures, labels, table[:30]},
		"i: the file is truncated":                                          {pictures[:17], labels, table},
		"i: unexpected bytes after the last element":                        {append(slices.Clone(pictures), 1), labels, table},
		"l: the file is truncated":                                          {pictures, {0, 0}, table},
		"has size 0 in dimension 2":                                         {idx(idxBytes, []uint32{2, 0, 1}), labels, table},
		"has size 4294967295 in dimension 3; expected 1 to 12288":           {idx(idxBytes, []uint32{2, 1, 1<<32 - 1}), labels, table},
		"has images of 10000 x 10000 pixels; expected at most 12288 in all": {idx(idxBytes, []uint32{2, 10000, 10000}), labels, table},
	} {
		if len(c[1]) == 0 {
			c[1] = idx(idxBytes, []uint32{1}, 1)
		}
		folder := t.TempDir()
		f := IDXFiles{filepath.Join(folder, "i"), filepath.Join(folder, "l"), filepath.Join(folder, "w"), 2}
		for i, path := range []string{f.Images, f.Labels, f.Writers} {
			must.Do(t, os.WriteFile(path, c[i], 0o644))
		}
		refused(t, IDX(f), Options{}, words)
	}
	if _, err := FindIDX(t.TempDir(), IDXFiles{}); err == nil || !strings.Contains(err.Error(), "no file matches *images*idx3*; name it with --images") {
		t.Errorf("an empty folder: %v", err)
	}
}

// Any content of the three files gives images or an error.
func FuzzIDX(f *testing.F) {
	f.Add(idx(idxBytes, []uint32{2, 1, 1}, 5, 6), idx(idxBytes, []uint32{2}, 1, 2), idx(idxInts, []uint32{2, 3}, ints(1, 0, 8, 2, 0, 9)...))
	f.Add(idx(idxBytes, []uint32{1 << 31, 1, 1}), idx(idxBytes, []uint32{1 << 31}), idx(idxInts, []uint32{1 << 31, 3}))
	f.Fuzz(func(t *testing.T, pictures, labels, table []byte) {
		x := IDXFiles{write(t, "i", pictures), write(t, "l", labels), write(t, "w", table), 2}
		n := 0
		for example, err := range IDX(x) {
			if err != nil {
				return
			}
			if n++; len(example.Pixels) != example.Width*example.Height {
				t.Fatalf("%+v", example)
			}
		}
		if n == 0 {
			t.Fatal("neither images nor an error")
		}
	})
}

const leafJSON = `{"users": ["f1", "f2"], "num_samples": [2, 1], "hierarchies": [["a", {"b": 1}]],
 "user_data": {"f1": {"x": [[0.0, 1.0, 0.5, 0.2], [1, 1, 1, 1]], "y": [10, 61]}, "f2": {"y": [3], "x": [[0, 0, 0, 1]]}}}`

func TestLEAFGivesTheImagesOfEveryUser(t *testing.T) {
	t.Parallel()
	first := write(t, "a.json", []byte(leafJSON))
	more := write(t, "b.json", gzipped(t, []byte(`{"user_data": {"f1": {"x": [[1, 0, 0, 0]], "y": [1]}}, "users": []}`)))
	check(t, LEAF([]string{first, more}), Options{IgnoreCase: true}, "f1 10 [0 255 128 51]", "f1 35 [255 255 255 255]", "f2 3 [0 0 0 255]", "f1 1 [255 0 0 0]")
	n := 0
	for range LEAF([]string{first, more}) {
		if n++; n == 2 {
			break
		}
	}
}

func TestLEAFFaultsAreReported(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{
		leafJSON[:len(leafJSON)-20]: ": the file is truncated",
		`{"users": []}`:             `a.json: byte 13: there is no "user_data"; expected the JSON of LEAF`,
		`[1]`:                       `a.json: byte 1: found "["; expected "{"`,
		`{"user_data": {"u": {"x": [[1, 2]], "y": [1]}}}`:            `a.json, image 1 of user "u": pixel 1 is 2; expected 0 to 1`,
		`{"user_data": {"u": {"x": [[1, 0]], "y": [1]}}}`:            `image 1 of user "u": 2 pixels do not form a square`,
		`{"user_data": {"u": {"x": [[1], [0]], "y": [1]}}}`:          `user "u" has 2 examples and 1 labels`,
		`{"user_data": {"u": {"x": ["a"], "y": [1]}}}`:               `image 1 of user "u": json: cannot unmarshal`,
		`{"user_data": {"u": {"x": [[1]], "y": [1]}}, "a": [1, }`:    "a.json: byte ",
		`{"user_data": {"u": {"x": [[1], [0,0,0,0]], "y": [1, 1]}}}`: "the image has 2 x 2 pixels; expected 1 x 1",
		`{"user_data": {"u": {"x": [[]], "y": [1]}}}`:                "images of 0 x 0 pixels",
		`{"user_data": {}}`: "found no readable image",
	} {
		refused(t, LEAF([]string{write(t, "a.json", []byte(text))}), Options{}, words)
	}
	refused(t, LEAF([]string{"absent.json"}), Options{}, "absent.json")
}

func TestFolderGivesImagesOfItsTable(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, data := range map[string][]byte{
		"a.png": pngOf(t, 2, 1, 1, 2), "b.png": pngOf(t, 2, 1, 3, 4), "bad.png": []byte("\x89PNG\r\n\x1a\nbad"), "empty.png": {},
		"table.csv": []byte("\ufeffpath,label,user,more\nb.png,1,ann,x\na.png, 0,\"bob, jr\",y\n"),
		"bad.csv":   []byte("path,label,user\nb.png,1,ann\nbad.png,1,ann\nabsent.png,1,ann\nempty.png,1,ann\na.png,0,bob\n"),
		"label.csv": []byte("path,label,user\nb.png,cat,ann\n"),
		"head.csv":  []byte("file,label,user\nb.png,1,ann\n"),
		"row.csv":   []byte("path,label,user\nb.png,1\n"),
		"none.csv":  []byte("path,label,user\nb.png,,ann\na.png,0,bob\n"),
		"empty.csv": {},
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), data, 0o644))
	}
	columns := Columns{Image: "path", User: "user", Label: "label"}
	table := func(name string) Examples { return Folder(filepath.Join(folder, name), columns) }
	check(t, table("table.csv"), Options{}, "ann 1 [3 4]", "bob, jr 0 [1 2]")
	refused(t, table("bad.csv"), Options{}, `bad.csv, row 3 ("bad.png"): the image is a damaged file`)
	refused(t, table("label.csv"), Options{}, `label.csv, row 2 ("b.png"): the label is "cat"; expected a whole number`)
	refused(t, table("head.csv"), Options{}, `head.csv has no column "path"; its header has ["file" "label" "user"]`)
	refused(t, table("row.csv"), Options{}, "row.csv: record on line 2: wrong number of fields")
	refused(t, table("empty.csv"), Options{}, "empty.csv: the file is truncated")
	refused(t, table("none.csv"), Options{}, `none.csv, row 2 ("b.png"): the label is empty; expected a whole number (--unlabelled allows images without a label)`)
	var lines bytes.Buffer
	if some, err := Convert(table("none.csv"), &lines, Options{Unlabelled: true}); err != nil || some.Unlabelled != 1 || some.Images != 2 ||
		lines.String() != `{"user":"ann","pixels":"AwQ="}`+"\n"+`{"user":"bob","label":0,"pixels":"AQI="}`+"\n" {
		t.Errorf("some without a label: %+v, %v\n%s", some, err, &lines)
	}
	got, found, err := written(t, table("bad.csv"), Options{SkipCorrupt: true})
	if err != nil || !slices.Equal(got, []string{"ann 1 [3 4]", "bob 0 [1 2]"}) || found.Skipped != 3 {
		t.Fatalf("%q, %+v, %v", got, found, err)
	}
	for i, want := range []string{`row 3 ("bad.png"): the image is a damaged file`, `row 4 ("absent.png"): the file is missing`, `row 5 ("empty.png"): the file has 0 bytes`} {
		if !strings.Contains(found.FirstSkipped[i], want) {
			t.Errorf("skipped %q, want %q", found.FirstSkipped[i], want)
		}
	}
}

func TestTableMayHaveTags(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, data := range map[string][]byte{
		"a.png": pngOf(t, 1, 2), "table.csv": []byte("path,tags,user\na.png, dog; tree;dog,ann\na.png,,bob\na.png,tree,bob\n"),
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), data, 0o644))
	}
	columns := Columns{Image: "path", User: "user", Label: "label", Tags: "tags", Separator: ";"}
	var lines bytes.Buffer
	found, err := Convert(Folder(filepath.Join(folder, "table.csv"), columns), &lines, Options{})
	want := `{"user":"ann","tags":["dog","tree"],"pixels":"AAA="}` + "\n" + `{"user":"bob","tags":[],"pixels":"AAA="}` + "\n" + `{"user":"bob","tags":["tree"],"pixels":"AAA="}` + "\n"
	if err != nil || lines.String() != want || found.Unlabelled != 0 || !slices.Equal(found.Tags, []images.Tag{{Tag: "tree", Images: 2}, {Tag: "dog", Images: 1}}) {
		t.Errorf("%+v, %v, %s", found, err, &lines)
	}
	columns.Tags = "labels"
	refused(t, Folder(filepath.Join(folder, "table.csv"), columns), Options{}, `table.csv has no column "labels"; its header has ["path" "tags" "user"]`)
}

func TestConversionIsDeterministic(t *testing.T) {
	t.Parallel()
	list := []Example{grey("a", 1, 1, 1, 4), grey("b", 0, 1, 1, 5)}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		must.Get(Convert(files(list...), out, Options{}))(t)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) || !json.Valid(bytes.SplitN(first.Bytes(), []byte("\n"), 2)[0]) {
		t.Errorf("%s\n%s", &first, &second)
	}
}

// Colours of a file become grey by the luma that the package datasets says.
func TestColoursBecomeGrey(t *testing.T) {
	t.Parallel()
	picture := image.NewRGBA(image.Rect(0, 0, 1, 1))
	picture.Set(0, 0, color.RGBA{200, 100, 50, 255})
	var file bytes.Buffer
	must.Do(t, png.Encode(&file, picture))
	check(t, files(Example{User: "a", File: file.Bytes()}), Options{}, "a 0 [124]")
}
