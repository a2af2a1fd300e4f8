package datasets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
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
func randomImages(rng *rand.Rand, n int, shape images.Shape) []imageLine {
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

var small = images.Shape{Width: 3, Height: 2, Channels: 1, Classes: 4}

func TestPipelineKeepsImages(t *testing.T) {
	t.Parallel()
	lines := randomImages(rand.New(rand.NewPCG(1, 2)), 60, small)
	lines[0].Pixels = []byte{0, 255, 1, 254, 3, 0} // tokens of pixels are none of the special ones
	p := runPipeline(t, imageLines(lines), Recipe{Reading: source.Reading{Level: text.ImageLevel, Image: small}})
	population := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
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
	recipe := Recipe{Seed: 1, Reading: source.Reading{Level: text.ImageLevel, Image: small, Unlabelled: true}, Faults: []faults.Planted{{Fault: faults.Invert, Users: 1}, {Fault: faults.ShiftLabels, Users: 1}}}
	p := runPipeline(t, lines, recipe)
	var src ImportMetrics
	p.corpus.DecodeMetrics(&src)
	if src.Unlabelled != 2 || src.DistinctWords != 256 || src.Faults[0].Changed != 3 || src.Faults[1].Changed != 1 {
		t.Errorf("the source holds %+v; want 2 unlabelled images of 3, all inverted, one label shifted", src)
	}
	unlabelled, labelled := "[2 1 258 257 256 255 254 253]", "[2 4 258 257 256 255 254 253]"
	got := everySentence(t, t.Context(), p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser))
	if want := []string{unlabelled, labelled, unlabelled}; !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	facts, err := Survey(t.Context(), []source.File{fileOf("data.jsonl", lines)}, source.Limits{}, []Recipe{recipe})
	if err != nil || !reflect.DeepEqual(facts[0].Source, src) {
		t.Errorf("the survey found %+v (%v), the import %+v", facts, err, src)
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

// Recipes with users as they are stand beside others.
func TestSurveyMatchesTasksForImages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		data := imageLines(randomImages(rand.New(rand.NewPCG(seed, 5)), 50+60*int(seed), small))
		read := source.Reading{Level: text.ImageLevel, Image: small}
		recipes := []Recipe{
			{Seed: seed, Reading: read, TestFraction: 0.2},
			{Seed: seed, Reading: read, TestFraction: 0.3, ValidationFraction: 0.5, TrainShare: 0.3, HeldOutUsers: 0.4},
			{Seed: seed + 1, Reading: read, Words: 21, HeldOutUsers: 0.2},
			{Seed: seed, Reading: read, Faults: []faults.Planted{{Fault: faults.Invert, Users: 0.5}, {Fault: faults.ShiftLabels, Examples: 0.1}}},
		}
		checkSurvey(t, data, recipes)
	}
}

// A fault changes the label or the pixels of the images that are hit, and nothing else.
func TestFaultsChangeImages(t *testing.T) {
	t.Parallel()
	lines := randomImages(rand.New(rand.NewPCG(4, 4)), 200, small)
	var texts []line // whose users and order decide which examples are hit
	for _, l := range lines {
		texts = append(texts, line{User: l.User})
	}
	for _, c := range []struct {
		fault faults.Planted
		makes func(imageLine) imageLine
	}{
		{faults.Planted{Fault: faults.Invert, Users: 0.5}, func(l imageLine) imageLine {
			for i, p := range l.Pixels {
				l.Pixels[i] = 255 - p
			}
			return l
		}},
		{faults.Planted{Fault: faults.Blank, Users: 0.7, Examples: 0.4}, func(l imageLine) imageLine {
			l.Pixels = make([]byte, len(l.Pixels))
			return l
		}},
		{faults.Planted{Fault: faults.ShiftLabels, Examples: 0.5}, func(l imageLine) imageLine {
			l.Label = []int{1, 2, 3, 0}[l.Label]
			return l
		}},
	} {
		faulty := faults.Params{Faults: []faults.Planted{c.fault}, FaultSeed: 9}
		lexicon, hit := newLexicon(source.Reading{Level: text.ImageLevel, Image: small}, faulty), drawn(&c.fault, 9, 0, texts)
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

func TestSourceRejectsMixedLevels(t *testing.T) {
	t.Parallel()
	data := imageLines(randomImages(rand.New(rand.NewPCG(1, 5)), 9, small))
	images, words := Recipe{Reading: source.Reading{Level: text.ImageLevel, Image: small}}, Recipe{VocabularySize: 1, Words: 1}
	_, err := Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, []Recipe{images, words})
	must.Say(t, err, "one source is read at the levels image and word; expected texts alone, or images of one shape")
	g := taskstest.NewGraph(t)
	_, err = g.Try(Import, ImportParams{Sources: []storage.Digest{g.Import(data)}})
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "data.level: image") {
		t.Errorf("a task that reads images as texts: %v", err)
	}
}

// The bytes of the tasks that read images, of users as they are. A change of them needs
// another version of the kind.
func TestGoldenImages(t *testing.T) {
	t.Parallel()
	lines := randomImages(rand.New(rand.NewPCG(12, 12)), 80, small)
	recipe := Recipe{
		Seed: 3, Reading: source.Reading{Level: text.ImageLevel, Image: small}, TestFraction: 0.2, HeldOutUsers: 0.3,
		Faults: []faults.Planted{{Fault: faults.Invert, Users: 0.5}, {Fault: faults.Blank, Examples: 0.1}, {Fault: faults.ShiftLabels, Examples: 0.2}},
	}
	p := runPipeline(t, imageLines(lines), recipe)
	iid := p.partition(population.PartitionParams{Partition: population.IID, Seed: 3})
	var out strings.Builder
	for _, blob := range []struct {
		node *taskstest.Node
		name string
	}{
		{p.corpus, population.ShardBlob(population.Corpus, 0)}, {p.corpus, CorpusIndexBlob}, {p.parts, text.VocabularyBlob}, {p.parts, population.ShardBlob(population.Train, 0)}, {p.parts, population.ShardBlob(population.Test, 0)},
		{p.balanced, population.MembersIndexBlob}, {p.balanced, population.HeldOutIndexBlob}, {iid, population.MembersIndexBlob}, {iid, population.ShardBlob(population.Train, 0)},
	} {
		fmt.Fprintf(&out, "%s %s %s\n", blob.node.Kind, blob.name, storage.DigestOf(blob.node.Blob(blob.name)))
	}
	taskstest.File(t, "testdata/images.txt", []byte(out.String()))
}
