package datasets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// imageLine is one record of a source of images that a test writes.
type imageLine struct {
	User   string `json:"user"`
	Label  int    `json:"label"`
	Pixels []byte `json:"pixels"`
}

func imageLines(lines []imageLine) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			panic(err)
		}
	}
	return out.Bytes()
}

// randomImages makes n images of up to 12 users, interleaved.
func randomImages(rng *rand.Rand, n int, shape Image) []imageLine {
	var lines []imageLine
	for range n {
		pixels := make([]byte, shape.Pixels())
		for i := range pixels {
			pixels[i] = byte(rng.Uint32())
		}
		user := fmt.Sprintf("user %d", int(rng.ExpFloat64()*4)%12)
		lines = append(lines, imageLine{user, rng.IntN(shape.Classes), pixels})
	}
	return lines
}

var small = Image{Width: 3, Height: 2, Channels: 1, Classes: 4}

func pngOf(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, png.Encode(&out, picture))
	return out.Bytes()
}

func jpegOf(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, jpeg.Encode(&out, picture, &jpeg.Options{Quality: 100}))
	return out.Bytes()
}

func readImages(t *testing.T, shape Image, data []byte) ([]Record, error) {
	t.Helper()
	var all []Record
	for rec, err := range (Reading{Level: text.ImageLevel, Image: shape}).Records(t.Context(), []File{fileOf("data.jsonl", data)}, Limits{}) {
		if err != nil {
			return all, err
		}
		all = append(all, rec)
	}
	return all, nil
}

func TestImagesTrainAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	lines := randomImages(rand.New(rand.NewPCG(1, 2)), 60, small)
	lines[0].Pixels = []byte{0, 255, 1, 254, 3, 0} // tokens of pixels are none of the special ones
	p := runPipeline(t, imageLines(lines), Recipe{Reading: Reading{Level: text.ImageLevel, Image: small}})
	population := p.open(t, p.partition(PartitionParams{Partition: ByUser}), ByUser)
	var want []string
	for _, name := range namesInOrder(lines) {
		for _, l := range lines {
			if l.User == name {
				want = append(want, fmt.Sprint(sentenceOf(l)))
			}
		}
	}
	if got := everySentence(t, t.Context(), population); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if n := population.Index().Sequence; n != 7 {
		t.Errorf("sequences of %d, want a label and 6 pixels", n)
	}
	checkWords(t, population)
	v, err := text.ParseVocabulary(p.parts.Blob(text.VocabularyBlob))
	if err != nil || v.Level() != text.ImageLevel || v.Ordinary() != 256 || v.Words[text.FirstWord+255] != "255" {
		t.Errorf("a vocabulary of %d at the level %s (%v)", v.Ordinary(), v.Level(), err)
	}
}

// An image may have no label where that is said, and then has the token of none in its place.
// Faults of the label leave it so, and those of the pixels hit it as any other.
func TestImagesMayLackALabel(t *testing.T) {
	t.Parallel()
	lines := []byte(`{"user":"a","pixels":"AQIDBAUG"}
{"user":"a","label":3,"pixels":"AQIDBAUG"}
{"user":"b","pixels":"AQIDBAUG","label":null}
`)
	recipe := Recipe{Seed: 1, Reading: Reading{Level: text.ImageLevel, Image: small, Unlabelled: true}, Faults: []Planted{{Fault: Invert, Users: 1}, {Fault: ShiftLabels, Users: 1}}}
	p := runPipeline(t, lines, recipe)
	var source ImportMetrics
	p.corpus.DecodeMetrics(&source)
	if source.Unlabelled != 2 || source.DistinctWords != 256 || source.Faults[0].Changed != 3 || source.Faults[1].Changed != 1 {
		t.Errorf("the source holds %+v; want 2 unlabelled images of 3, all inverted, one label shifted", source)
	}
	unlabelled, labelled := "[2 1 258 257 256 255 254 253]", "[2 4 258 257 256 255 254 253]"
	got := everySentence(t, t.Context(), p.open(t, p.partition(PartitionParams{Partition: ByUser}), ByUser))
	if want := []string{unlabelled, labelled, unlabelled}; !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	facts, err := Survey(t.Context(), []File{fileOf("data.jsonl", lines)}, Limits{}, []Recipe{recipe})
	if err != nil || !reflect.DeepEqual(facts[0].Source, source) {
		t.Errorf("the survey found %+v (%v), the import %+v", facts, err, source)
	}
}

func TestALabelMustBeThereWhereNothingSaysOtherwise(t *testing.T) {
	t.Parallel()
	_, err := readImages(t, small, []byte(`{"user":"a","pixels":"AQIDBAUG"}`))
	if err == nil || !strings.Contains(err.Error(), `line 1`) || !strings.Contains(err.Error(), "data.image.unlabelled: true") {
		t.Errorf("a line without a label: %v", err)
	}
}

// sentenceOf is the sentence of an image in training: no End, since it fills a sequence.
func sentenceOf(l imageLine) []int32 {
	out := []int32{text.Begin, text.FirstWord + int32(l.Label)}
	for _, p := range l.Pixels {
		out = append(out, text.FirstWord+int32(p))
	}
	return out
}

func namesInOrder(lines []imageLine) []string {
	var names []string
	for _, l := range lines {
		if !slices.Contains(names, l.User) {
			names = append(names, l.User)
		}
	}
	return names
}

func TestImagesTakeOneLineInEitherForm(t *testing.T) {
	t.Parallel()
	picture := image.NewGray(image.Rect(5, 5, 8, 7))
	copy(picture.Pix, []byte{1, 2, 3, 4, 5, 255})
	raw := base64.StdEncoding.EncodeToString(picture.Pix)
	file := base64.StdEncoding.EncodeToString(pngOf(t, picture))
	got := must.Get(readImages(t, small, fmt.Appendf(nil, `{"user":"a","label":3,"pixels":%q,"text":"other fields are ignored"}`+"\n"+`{"label":0,"id":7,"image":%q,"user":"b"}`, raw, file)))(t)
	for i, want := range []int{3, 0} {
		label, pixels := got[i].Image()
		if label != want || !bytes.Equal(pixels, picture.Pix) || got[i].User != string("ab"[i]) || got[i].Line != i+1 {
			t.Errorf("line %d is %+v", i+1, got[i])
		}
	}
}

func TestEveryFaultOfAnImageIsNamed(t *testing.T) {
	t.Parallel()
	pixels := base64.StdEncoding.EncodeToString(make([]byte, small.Pixels()))
	good := pngOf(t, image.NewGray(image.Rect(0, 0, 3, 2)))
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
		file(pngOf(t, image.NewGray(image.Rect(0, 0, 9000, 2)))): `"image" is 9000 x 2 pixels; expected 3 x 2 (data.image)`,
		`{`:    `not JSON (unexpected end of JSON input)` + wanted,
		`[]`:   `a JSON array, not an object` + wanted,
		"\xff": `byte 1 is not valid UTF-8`,
	} {
		_, err := readImages(t, small, []byte("{\"user\":\"a\",\"label\":0,\"pixels\":\""+pixels+"\"}\n"+line+"\n"))
		if fault, ok := err.(*SourceError); !ok || !strings.HasPrefix(err.Error(), "data.jsonl, line 2: "+want) {
			t.Errorf("%.60s: got %v (%v), want %s", line, err, fault, want)
		}
	}
	_, err := readAll(t.Context(), Limits{}, fileOf("data", []byte(`{"user":"a","label":1,"pixels":"AA"}`)))
	if err == nil || !strings.Contains(err.Error(), `line 1: "text" is missing: the line is an image, which data.level: image reads`) {
		t.Errorf("images read as texts: %v", err)
	}
	_, err = readImages(t, small, []byte("PAR1 and more"))
	if err == nil || !strings.Contains(err.Error(), `a Parquet file, which is not read`+wanted) || !strings.Contains(err.Error(), "coalmine data convert") {
		t.Errorf("another form: %v", err)
	}
}

func TestColoursAndDepthsAreReduced(t *testing.T) {
	t.Parallel()
	at := image.Rect(0, 0, 2, 1)
	grey, colour := Image{2, 1, 1, 1}, Image{2, 1, 3, 1}
	rgb := image.NewNRGBA(at)
	rgb.Set(0, 0, color.NRGBA{200, 100, 50, 255})
	rgb.Set(1, 0, color.NRGBA{255, 255, 255, 51}) // a fifth of white over black
	deep := image.NewGray16(at)
	deep.Set(0, 0, color.Gray16{0x12ff})
	deep.Set(1, 0, color.Gray16{0xff00})
	luma := byte(math.Round(0.299*200 + 0.587*100 + 0.114*50))
	for name, x := range map[string]struct {
		shape Image
		file  []byte
		want  []byte
	}{
		"colours to grey":  {grey, pngOf(t, rgb), []byte{luma, 51}},
		"colours":          {colour, pngOf(t, rgb), []byte{200, 100, 50, 51, 51, 51}},
		"16 bits":          {grey, pngOf(t, deep), []byte{0x12, 0xff}},
		"grey to colours":  {colour, pngOf(t, deep), []byte{0x12, 0x12, 0x12, 0xff, 0xff, 0xff}},
		"a JPEG of colour": {colour, jpegOf(t, uniform(at, 77)), []byte{77, 77, 77, 77, 77, 77}},
	} {
		got, err := x.shape.Decode(x.file)
		if err != nil || !bytes.Equal(got, x.want) {
			t.Errorf("%s: got %v (%v), want %v", name, got, err, x.want)
		}
	}
}

func TestShapesThatImagesCannotHaveAreRefused(t *testing.T) {
	t.Parallel()
	for want, shape := range map[string]Image{
		"images of 2 channels; expected 1 (grey) or 3":                                               {28, 28, 2, 10},
		"images of 0 x 28 pixels and 1 channels; expected at least 1 x 1":                            {0, 28, 1, 10},
		"images of 65 x 64 pixels and 3 channels; expected at least 1 x 1, and at most 12288 values": {65, 64, 3, 10},
		"expected at least 1 x 1, and at most 12288 values in all":                                   {1 << 40, 1 << 40, 1, 10},
		"0 classes of images; expected 1 to 256":                                                     {28, 28, 1, 0},
		"257 classes of images":                                                                      {28, 28, 1, 257},
	} {
		r := Reading{Level: text.ImageLevel, Image: shape}
		if err := r.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", shape, err, want)
		}
	}
	for want, r := range map[string]Reading{
		"sequences of 9 numbers; expected 7":          {Level: text.ImageLevel, Image: small, Sequence: 9},
		"the shape of images at the byte level":       {Level: text.ByteLevel, Image: small},
		`level "picture": expected one of word, byte`: {Level: "picture"},
	} {
		if err := r.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
}

func TestReadingsOfImagesHaveOneForm(t *testing.T) {
	t.Parallel()
	whole := Reading{Level: text.ImageLevel, Sequence: 785, Image: DefaultImage}
	for _, r := range []Reading{{Level: text.ImageLevel}, {Level: text.ImageLevel, Image: DefaultImage}, whole} {
		if r.Complete() != whole || r.Complete().Shortest() != (Reading{Level: text.ImageLevel}) {
			t.Errorf("%+v: complete %+v, shortest %+v", r, r.Complete(), r.Complete().Shortest())
		}
	}
	other := Reading{Level: text.ImageLevel, Image: small}
	if got := other.Complete(); got.Sequence != 7 || got.Shortest() != other {
		t.Errorf("complete %+v, shortest %+v", got, got.Shortest())
	}
}

// Recipes with users as they are stand beside others.
func TestSurveyFindsWhatTheTasksFindInImages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		data := imageLines(randomImages(rand.New(rand.NewPCG(seed, 5)), 50+60*int(seed), small))
		read := Reading{Level: text.ImageLevel, Image: small}
		recipes := []Recipe{
			{Seed: seed, Reading: read, TestFraction: 0.2},
			{Seed: seed, Reading: read, TestFraction: 0.3, ValidationFraction: 0.5, TrainShare: 0.3, HeldOutUsers: 0.4},
			{Seed: seed + 1, Reading: read, Words: 21, HeldOutUsers: 0.2},
			{Seed: seed, Reading: read, Faults: []Planted{{Fault: Invert, Users: 0.5}, {Fault: ShiftLabels, Examples: 0.1}}},
		}
		checkSurvey(t, data, recipes)
	}
}

// A fault changes the label or the pixels of the images that are hit, and nothing else.
func TestFaultsOfImagesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	lines := randomImages(rand.New(rand.NewPCG(4, 4)), 200, small)
	var texts []line // whose users and order decide which examples are hit
	for _, l := range lines {
		texts = append(texts, line{User: l.User})
	}
	for _, c := range []struct {
		fault Planted
		makes func(imageLine) imageLine
	}{
		{Planted{Fault: Invert, Users: 0.5}, func(l imageLine) imageLine {
			for i, p := range l.Pixels {
				l.Pixels[i] = 255 - p
			}
			return l
		}},
		{Planted{Fault: Blank, Users: 0.7, Examples: 0.4}, func(l imageLine) imageLine {
			l.Pixels = make([]byte, len(l.Pixels))
			return l
		}},
		{Planted{Fault: ShiftLabels, Examples: 0.5}, func(l imageLine) imageLine {
			l.Label = []int{1, 2, 3, 0}[l.Label]
			return l
		}},
	} {
		faulty := FaultParams{Faults: []Planted{c.fault}, FaultSeed: 9}
		lexicon, hit := newLexicon(Reading{Level: text.ImageLevel, Image: small}, faulty), drawn(&c.fault, 9, 0, texts)
		users, hits := newNumbering(), 0
		for i, l := range lines {
			text := string(append([]byte{byte(l.Label)}, l.Pixels...))
			got, cut := lexicon.sentence(int(users.id([]byte(l.User))), text)
			want := imageLine{l.User, l.Label, slices.Clone(l.Pixels)}
			if hit[i] {
				want = c.makes(want)
				hits++
			}
			if cut || !slices.Equal(got, numbersOf(want)) {
				t.Fatalf("%s: image %d is %v, want %v; hit: %v", c.fault.Fault, i, got, numbersOf(want), hit[i])
			}
		}
		found := lexicon.found()[0]
		if found.Examples != hits || found.Changed != hits || hits == 0 || hits == len(lines) {
			t.Errorf("%+v of %d examples; %d were hit", found, len(lines), hits)
		}
	}
}

func numbersOf(l imageLine) []uint32 {
	numbers := []uint32{uint32(l.Label)}
	for _, p := range l.Pixels {
		numbers = append(numbers, uint32(p))
	}
	return numbers
}

func TestFaultsOfTextsAreNoFaultsOfImages(t *testing.T) {
	t.Parallel()
	for _, s := range Faults() {
		p := Planted{Fault: s.Fault, Users: 1}
		if p.Fault == Truncate {
			p.Length = 1
		}
		for _, level := range text.Levels() {
			known := slices.Contains(s.Levels, level.Level)
			if err := p.check(level.Level); (err == nil) != known {
				t.Errorf("%s at the %s level: %v", s.Fault, level.Level, err)
			}
		}
		if images := slices.Contains(s.Levels, text.ImageLevel); images != (s.image != nil) || images && len(s.Levels) > 1 {
			t.Errorf("%s is a fault of %v, and changes images: %v", s.Fault, s.Levels, s.image != nil)
		}
	}
}

func TestOneSourceIsReadAsOneSortOfData(t *testing.T) {
	t.Parallel()
	data := imageLines(randomImages(rand.New(rand.NewPCG(1, 5)), 9, small))
	images, words := Recipe{Reading: Reading{Level: text.ImageLevel, Image: small}}, Recipe{VocabularySize: 1, Words: 1}
	_, err := Survey(t.Context(), []File{fileOf("data", data)}, Limits{}, []Recipe{images, words})
	if err == nil || !strings.Contains(err.Error(), "one source is read at the levels image and word; expected texts alone, or images of one shape") {
		t.Errorf("got %v", err)
	}
	g := taskstest.NewGraph(t)
	_, err = g.Try(Import, ImportParams{Sources: []storage.Digest{g.Import(data)}})
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "data.level: image") {
		t.Errorf("a task that reads images as texts: %v", err)
	}
}

func FuzzALineOfAnImage(f *testing.F) {
	picture := pngOf(f, image.NewGray(image.Rect(0, 0, 3, 2)))
	f.Add([]byte(`{"user":"a","label":3,"pixels":"AAAAAAAA"}`))
	f.Add([]byte(`{"user":"a","pixels":"AAAAAAAA"}`))
	f.Add([]byte(`{"user":"a","label":3,"image":"` + base64.StdEncoding.EncodeToString(picture) + `"}`))
	f.Add([]byte(`{"user":"a","label":3,"image":"` + base64.StdEncoding.EncodeToString(jpegOf(f, image.NewGray(image.Rect(0, 0, 3, 2)))) + `"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		unlabelled := small.lines(true, recordRules{})
		if rec, err := unlabelled.record(line); err == nil && rec.Unlabelled {
			if label, pixels := rec.Image(); label != NoLabel || len(pixels) != small.Pixels() {
				t.Fatalf("%q is read as %+v", line, rec)
			}
		}
		lines := small.lines(false, recordRules{})
		rec, err := lines.record(line)
		if err != nil {
			if _, ok := err.(*SourceError); !ok {
				t.Fatalf("%q: %v is no fault of the source", line, err)
			}
			return
		}
		if label, pixels := rec.Image(); rec.User == "" || label >= small.Classes || len(pixels) != small.Pixels() {
			t.Fatalf("%q is read as %+v", line, rec)
		}
	})
}

func uniform(r image.Rectangle, grey byte) image.Image {
	picture := image.NewGray(r)
	for i := range picture.Pix {
		picture.Pix[i] = grey
	}
	return picture
}

// The bytes of the tasks that read images, of users as they are. A change of them needs
// another version of the kind.
func TestGoldenImages(t *testing.T) {
	t.Parallel()
	lines := randomImages(rand.New(rand.NewPCG(12, 12)), 80, small)
	recipe := Recipe{
		Seed: 3, Reading: Reading{Level: text.ImageLevel, Image: small}, TestFraction: 0.2, HeldOutUsers: 0.3,
		Faults: []Planted{{Fault: Invert, Users: 0.5}, {Fault: Blank, Examples: 0.1}, {Fault: ShiftLabels, Examples: 0.2}},
	}
	p := runPipeline(t, imageLines(lines), recipe)
	iid := p.partition(PartitionParams{Partition: IID, Seed: 3})
	var out strings.Builder
	for _, blob := range []struct {
		node *taskstest.Node
		name string
	}{
		{p.corpus, ShardBlob(corpusPart, 0)}, {p.corpus, CorpusIndexBlob}, {p.parts, text.VocabularyBlob}, {p.parts, ShardBlob(Train, 0)}, {p.parts, ShardBlob(Test, 0)},
		{p.balanced, PopulationIndexBlob}, {p.balanced, HeldOutIndexBlob}, {iid, PopulationIndexBlob}, {iid, ShardBlob(Train, 0)},
	} {
		fmt.Fprintf(&out, "%s %s %s\n", blob.node.Kind, blob.name, storage.DigestOf(blob.node.Blob(blob.name)))
	}
	taskstest.File(t, "testdata/images.txt", []byte(out.String()))
}
