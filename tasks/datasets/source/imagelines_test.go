package source

import (
	"bytes"
	"coalmine/internal/must"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
)

func readImages(t *testing.T, shape images.Shape, data []byte) ([]Record, error) {
	t.Helper()
	var all []Record
	for rec, err := range (Reading{Level: text.ImageLevel, Image: shape}).Records(t.Context(), []File{inMemory("data.jsonl", data)}, Limits{}) {
		if err != nil {
			return all, err
		}
		all = append(all, rec)
	}
	return all, nil
}

func TestImagesNeedLabelByDefault(t *testing.T) {
	t.Parallel()
	_, err := readImages(t, smallShape, []byte(`{"user":"a","pixels":"AQIDBAUG"}`))
	must.Say(t, err, `line 1`, "data.image.unlabelled: true")
}

func TestImagesTakeOneLineInEitherForm(t *testing.T) {
	t.Parallel()
	picture := image.NewGray(image.Rect(5, 5, 8, 7))
	copy(picture.Pix, []byte{1, 2, 3, 4, 5, 255})
	raw := base64.StdEncoding.EncodeToString(picture.Pix)
	file := base64.StdEncoding.EncodeToString(inPNG(t, picture))
	got := must.Get(readImages(t, smallShape, fmt.Appendf(nil, `{"user":"a","label":3,"pixels":%q,"text":"other fields are ignored"}`+"\n"+`{"label":0,"id":7,"image":%q,"user":"b"}`, raw, file)))(t)
	for i, want := range []int{3, 0} {
		label, pixels := got[i].Image()
		if label != want || !bytes.Equal(pixels, picture.Pix) || got[i].User != string("ab"[i]) || got[i].Line != i+1 {
			t.Errorf("line %d is %+v", i+1, got[i])
		}
	}
}

func TestEveryFaultOfAnImageIsNamed(t *testing.T) {
	t.Parallel()
	pixels := base64.StdEncoding.EncodeToString(make([]byte, smallShape.Pixels()))
	good := inPNG(t, image.NewGray(image.Rect(0, 0, 3, 2)))
	file := func(data []byte) string {
		return `{"user":"a","label":1,"image":"` + base64.StdEncoding.EncodeToString(data) + `"}`
	}
	const wanted = `; expected {"user": "…", "label": 7, "pixels": "…"} on every line`
	for line, want := range map[string]string{
		`{"label":1,"pixels":"` + pixels + `"}`:                  `"user" is missing` + wanted,
		`{"user":"","label":1,"pixels":"` + pixels + `"}`:        `"user" is empty` + wanted,
		`{"user":"a","pixels":"` + pixels + `"}`:                 `"label" is missing, and nothing says that images may lack one (data.image.unlabelled: true)` + wanted,
		`{"user":"a","label":4,"pixels":"` + pixels + `"}`:       `"label" is 4; expected 0 to 3, one of 4 classes (data.image.classes)`,
		`{"user":"a","label":-1,"pixels":"` + pixels + `"}`:      `"label" is -1; expected 0 to 3`,
		`{"user":"a","label":"3","pixels":"x"}`:                  `"label" is a JSON string, not a whole number` + wanted,
		`{"user":"a","label":0.5,"pixels":"x"}`:                  `"label" is a JSON number 0.5, not a whole number` + wanted,
		`{"user":"a","label":1,"pixels":[1,2]}`:                  `"pixels" is a JSON array, not a string` + wanted,
		`{"user":"a","label":1}`:                                 `both "pixels" and "image" are missing` + wanted,
		`{"user":"a","label":1,"pixels":"AA","image":"AA"}`:      `"pixels" stand beside "image"; give one of them` + wanted,
		`{"user":"a","text":"Hello."}`:                           `the line is a text, and the source is read as images (data.level: image)` + wanted,
		`{"user":"a","label":1,"pixels":"A*"}`:                   `"pixels" is not base64 (illegal base64 data at input byte 1)` + wanted,
		`{"user":"a","label":1,"pixels":"AAAA"}`:                 `"pixels" are 3 bytes; expected 6, for 3 x 2 pixels of 1 channel (data.image)`,
		file([]byte("GIF89a")):                                   `"image" is neither a PNG nor a JPEG file`,
		file(nil):                                                `"image" is neither a PNG nor a JPEG file`,
		file(good[:20]):                                          `"image" is a damaged file (unexpected EOF)`,
		file(append(good[:45:45], 9, 9, 9)):                      `"image" is a damaged file`,
		file(inPNG(t, image.NewGray(image.Rect(0, 0, 9000, 2)))): `"image" is 9000 x 2 pixels; expected 3 x 2 (data.image)`,
		`{`:    `not JSON (unexpected end of JSON input)` + wanted,
		`[]`:   `a JSON array, not an object` + wanted,
		"\xff": `byte 1 is not valid UTF-8`,
	} {
		_, err := readImages(t, smallShape, []byte("{\"user\":\"a\",\"label\":0,\"pixels\":\""+pixels+"\"}\n"+line+"\n"))
		if fault, ok := err.(*Error); !ok || !strings.HasPrefix(err.Error(), "data.jsonl, line 2: "+want) {
			t.Errorf("%.60s: got %v (%v), want %s", line, err, fault, want)
		}
	}
	_, err := readAll(t.Context(), Limits{}, inMemory("data", []byte(`{"user":"a","label":1,"pixels":"AA"}`)))
	must.Say(t, err, `line 1: "text" is missing: the line is an image, which data.level: image reads`)
	_, err = readImages(t, smallShape, []byte("PAR1 and more"))
	must.Say(t, err, `a Parquet file, which is not read`+wanted, "coalmine data convert")
}

func TestImpossibleImageShapesAreRejected(t *testing.T) {
	t.Parallel()
	for want, shape := range map[string]images.Shape{
		"images of 2 channels; expected 1 (grey) or 3":                                               {Width: 28, Height: 28, Channels: 2, Classes: 10},
		"images of 0 x 28 pixels and 1 channels; expected at least 1 x 1":                            {Width: 0, Height: 28, Channels: 1, Classes: 10},
		"images of 65 x 64 pixels and 3 channels; expected at least 1 x 1, and at most 12288 values": {Width: 65, Height: 64, Channels: 3, Classes: 10},
		"expected at least 1 x 1, and at most 12288 values in all":                                   {Width: 1 << 40, Height: 1 << 40, Channels: 1, Classes: 10},
		"0 classes of images; expected 1 to 256":                                                     {Width: 28, Height: 28, Channels: 1, Classes: 0},
		"257 classes of images":                                                                      {Width: 28, Height: 28, Channels: 1, Classes: 257},
	} {
		r := Reading{Level: text.ImageLevel, Image: shape}
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", shape, err, want)
		}
	}
	for want, r := range map[string]Reading{
		"sequences of 9 numbers; expected 7":          {Level: text.ImageLevel, Image: smallShape, Sequence: 9},
		"the shape of images at the byte level":       {Level: text.ByteLevel, Image: smallShape},
		`level "picture": expected one of word, byte`: {Level: "picture"},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
}

func TestImageReadingsHaveCanonicalForm(t *testing.T) {
	t.Parallel()
	whole := Reading{Level: text.ImageLevel, Sequence: 785, Image: images.Default}
	for _, r := range []Reading{{Level: text.ImageLevel}, {Level: text.ImageLevel, Image: images.Default}, whole} {
		if r.Complete() != whole || r.Complete().Shortest() != (Reading{Level: text.ImageLevel}) {
			t.Errorf("%+v: complete %+v, shortest %+v", r, r.Complete(), r.Complete().Shortest())
		}
	}
	other := Reading{Level: text.ImageLevel, Image: smallShape}
	if got := other.Complete(); got.Sequence != 7 || got.Shortest() != other {
		t.Errorf("complete %+v, shortest %+v", got, got.Shortest())
	}
}

func FuzzALineOfAnImage(f *testing.F) {
	picture := inPNG(f, image.NewGray(image.Rect(0, 0, 3, 2)))
	f.Add([]byte(`{"user":"a","label":3,"pixels":"AAAAAAAA"}`))
	f.Add([]byte(`{"user":"a","pixels":"AAAAAAAA"}`))
	f.Add([]byte(`{"user":"a","label":3,"image":"` + base64.StdEncoding.EncodeToString(picture) + `"}`))
	f.Add([]byte(`{"user":"a","label":3,"image":"` + base64.StdEncoding.EncodeToString(inPNG(f, image.NewRGBA(image.Rect(0, 0, 3, 2)))) + `"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		unlabelled := (Reading{Level: text.ImageLevel, Image: smallShape, Unlabelled: true}).imageLines()
		if rec, err := unlabelled.record(line); err == nil && rec.Unlabelled {
			if label, pixels := rec.Image(); label != images.NoLabel || len(pixels) != smallShape.Pixels() {
				t.Fatalf("%q is read as %+v", line, rec)
			}
		}
		lines := (Reading{Level: text.ImageLevel, Image: smallShape}).imageLines()
		rec, err := lines.record(line)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("%q: %v is no fault of the source", line, err)
			}
			return
		}
		if label, pixels := rec.Image(); rec.User == "" || label >= smallShape.Classes || len(pixels) != smallShape.Pixels() {
			t.Fatalf("%q is read as %+v", line, rec)
		}
	})
}

var smallShape = images.Shape{Width: 3, Height: 2, Channels: 1, Classes: 4}

func inPNG(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, png.Encode(&out, picture))
	return out.Bytes()
}
