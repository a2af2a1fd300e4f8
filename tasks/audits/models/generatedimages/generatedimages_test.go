package generatedimages

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

var shape = images.Shape{Width: 20, Height: 20, Channels: 1, Classes: 3}

// bench has real images, which are dark with some light places, a generator and a classifier.
type bench struct {
	*taskstest.Graph
	parts, gan, cnn *taskstest.Node
}

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{Graph: taskstest.NewGraph(t)}
	rng := rand.New(rand.NewPCG(1, 0))
	var lines strings.Builder
	for range 60 {
		pixels := make([]byte, shape.Pixels())
		for range 60 {
			pixels[rng.IntN(len(pixels))] = 255
		}
		fmt.Fprintf(&lines, `{"user":"u%d","label":%d,"pixels":%q}`+"\n", rng.IntN(4), rng.IntN(3), base64.StdEncoding.EncodeToString(pixels))
	}
	corpus := b.Run(datasets.Import, datasets.ImportParams{
		Sources: []storage.Digest{b.Import([]byte(lines.String()))}, Reading: source.Reading{Level: text.ImageLevel, Image: shape},
	})
	b.parts = b.Run(datasets.Encode, datasets.EncodeParams{Level: text.ImageLevel, TestFraction: 0.5}, taskstest.In(datasets.CorpusInput, corpus))
	b.gan, b.cnn = b.initial(models.GAN), b.initial(models.CNN)
	return b
}

func (b bench) initial(kind models.Kind) *taskstest.Node {
	config := models.Config{Kind: kind, Image: models.Image{ImageShape: models.ImageShape(shape)}}
	if kind == models.GAN {
		config.Image.GAN.Latent = 4
	}
	return b.Run(training.Initial, training.InitialParams{Seed: 3, Model: config})
}

const made = 30

func (b bench) images() *taskstest.Node {
	return b.Run(Kind, Params{Seed: 1, Count: made}, taskstest.In(audits.ModelInput, b.gan))
}

func (b bench) summary(images *taskstest.Node) *taskstest.Node {
	return b.Run(Summary, SummaryParams{Parts: 1, Count: made, Rows: 2, Columns: 3, Significance: 0.001, Judged: true},
		taskstest.In(audits.ModelInput, b.gan), taskstest.In(RealInput, b.parts), taskstest.In(ClassifierInput, b.cnn), taskstest.In(tasks.PartInput(0), images))
}

// put stands in for the images that a task made.
func (b bench) put(image func(i int) byte) *taskstest.Node {
	var all []byte
	for i := range made {
		all = append(all, bytes.Repeat([]byte{image(i)}, shape.Pixels())...)
	}
	return b.Put("images", map[string][]byte{ImagesBlob: all})
}

func outcome(t *testing.T, n *taskstest.Node) (v Outcome) {
	t.Helper()
	must.Do(t, json.Unmarshal(n.Blob(audits.OutcomeBlob), &v))
	return v
}

func TestInvertedImagesAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// Two of three are light: nearer to the inversion of dark images.
	v := outcome(t, b.summary(b.put(func(i int) byte { return []byte{20, 230, 250}[i%3] })))
	if v.Inverted.Count != 20 || v.InvertedByMeans.Count != 20 || v.Inverted.Of != made || v.RealInverted.Count != 0 {
		t.Errorf("inverted %+v, by means %+v, of real ones %+v; want 20 of 30 twice, and none", v.Inverted, v.InvertedByMeans, v.RealInverted)
	}
	if want := (20.0 + 230 + 250) / 3; math.Abs(v.Intensity-want) > 1e-9 || v.RealIntensity < 20 || v.RealIntensity > 50 {
		t.Errorf("intensity %v of generated and %v of real images, want %v and about 35", v.Intensity, v.RealIntensity, want)
	}
}

func TestTheSheetShowsTheFirstImages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := outcome(t, b.summary(b.put(func(i int) byte { return byte(10 * i) })))
	sheet := must.Get(png.Decode(bytes.NewReader(v.Sheet)))(t)
	size := sheet.Bounds().Size()
	for i := range 6 {
		x, y := size.X*(2*(i%3)+1)/6, size.Y*(2*(i/3)+1)/4
		if r, _, _, _ := sheet.At(x, y).RGBA(); r>>8 != uint32(10*i) {
			t.Errorf("image %d of the sheet has the value %d, want %d", i, r>>8, 10*i)
		}
	}
}

func TestRealImagesHaveZeroFrechetDistance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	part := must.Get(population.OpenPart(t.Context(), b.Task(taskstest.In("p", b.parts)), "p", population.Test))(t)
	examples := must.Get(part.ReadRecords(t.Context(), 0, part.Records()))(t)
	var all []byte
	for _, example := range examples {
		for _, value := range example[firstPixel:] {
			all = append(all, byte(value-text.FirstWord))
		}
	}
	images := b.Put("images", map[string][]byte{ImagesBlob: all})
	n := b.Run(Summary, SummaryParams{Parts: 1, Count: len(examples), Rows: 1, Columns: 1, Judged: true},
		taskstest.In(audits.ModelInput, b.gan), taskstest.In(RealInput, b.parts), taskstest.In(ClassifierInput, b.cnn), taskstest.In(tasks.PartInput(0), images))
	v := outcome(t, n)
	if v.Real != len(examples) || math.Abs(v.Classifier.FrechetDistance) > 1e-6 || v.Classifier.Score != v.Classifier.RealScore || v.Inverted.Count != 0 {
		t.Errorf("of the same images: %+v", v.Classifier)
	}
}

func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, data := range map[string][]byte{"too few": make([]byte, shape.Pixels()), "a part of one": make([]byte, 7)} {
		images := b.Put("images", map[string][]byte{ImagesBlob: data})
		_, err := b.Try(Summary, SummaryParams{Parts: 1, Count: made, Rows: 1, Columns: 1},
			taskstest.In(audits.ModelInput, b.gan), taskstest.In(RealInput, b.parts), taskstest.In(tasks.PartInput(0), images))
		if err == nil || !strings.Contains(err.Error(), storage.ErrCorrupt.Error()) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := b.Try(Kind, Params{Seed: 1, Count: 2}, taskstest.In(audits.ModelInput, b.cnn)); err == nil || !strings.Contains(err.Error(), "a model of kind cnn generates no images; expected gan") {
		t.Errorf("a classifier generates: error %v", err)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	images := b.images()
	taskstest.Golden(t, images)
	taskstest.Golden(t, b.summary(images))
}

func TestTheNoteSaysIfTheGeneratorHasLearnedLittle(t *testing.T) {
	t.Parallel()
	for score, want := range map[float64]bool{1.005: true, 1.3: true, 1.4: false, 4: false} {
		v := &Outcome{Classifier: &Judgement{Score: score, RealScore: 4.5}}
		if got := strings.Contains(v.Note(nil), "the generator has learned little"); got != want {
			t.Errorf("score %v of 4.5: %q", score, v.Note(nil))
		}
	}
}
