package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
	"coalmine/models"
	"coalmine/tasks/audits/models/generatedimages"
	"coalmine/tasks/checkpoints"
)

// generatedFile trains gans on two selections by a prepared classifier, with a planted fault.
const generatedFile = `
name: generated
seed: 3
data: {source: %s, level: image, image: {width: 20, height: 20, classes: 3}, test: {fraction: 20%%}, faults: {fault: invert, users: 50%%}}
prepare: {classifier: {steps: 30, batch: 16, optimizer: adam, learning_rate: 0.003}}
model: {kind: gan, latent: 4, loss: minimax, penalty: 0}
training:
  rounds: 2
  cohort: 2
  chunks: 1
  client: {batch: 4, steps: 1, learning_rate: 0.01}
  generator: {steps: 1, batch: 4, learning_rate: 0.01}
  privacy: {clip: 1, noise_multiplier: 0.01, delta: 1e-3}
audit: {every: 1, generated_images: {count: 40}}
grid: {axes: {data.select: [{users: {below: 50%%}}, {users: {above: 50%%}}, {examples: correct, at_least: 4}]}}
`

// barsOf is a source of dark images of 20 x 20 pixels, with a light bar at a place that the
// label says, and noise.
func barsOf(examples int) string {
	rng := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	for range examples {
		label, pixels := rng.IntN(3), make([]byte, 20*20)
		for i := range pixels {
			pixels[i] = byte(rng.IntN(90))
			if i/20/7 == label {
				pixels[i] += 120
			}
		}
		fmt.Fprintf(&b, "{\"user\":\"u%d\",\"label\":%d,\"pixels\":%q}\n", rng.IntN(12), label, base64.StdEncoding.EncodeToString(pixels))
	}
	return b.String()
}

// verdictOf is the outcome of the first cell's images.
func verdictOf(t *testing.T, home string) (v generatedimages.Outcome) {
	t.Helper()
	var results struct {
		Cells []struct {
			Audit struct {
				GeneratedImages generatedimages.Outcome `json:"generated_images"`
			}
		}
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &results)
	return results.Cells[0].Audit.GeneratedImages
}

func picture(t *testing.T, path string) image.Image {
	t.Helper()
	data := contentOf(t, path)
	p, err := png.Decode(strings.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return p
}

func TestGANIsSampledExportedAndShownElsewhere(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	home := smallRunOf(t, generatedFile, barsOf(300))
	folder := filepath.Join(home, "..")
	at := func(name string) string { return filepath.Join(folder, name) }
	sample := func(flags ...string) []string {
		return append([]string{"sample", "latest", "c01", "--home", home, "--seed", "3"}, flags...)
	}
	// One after another: a data directory has one user at a time.
	t.Run("the sheet is that of the audit", func(t *testing.T) {
		prints(t, sample("--sheet", at("sheet.png"))...)
		sheet, err := os.ReadFile(at("sheet.png"))
		if want := verdictOf(t, home).Sheet; err != nil || !bytes.Equal(sheet, want) {
			t.Errorf("a sheet of %d bytes (%v); the results have one of %d", len(sheet), err, len(want))
		}
		prints(t, sample("--sheet", at("initial.png"), "--round", "0")...)
		if initial, err := os.ReadFile(at("initial.png")); err != nil || bytes.Equal(initial, sheet) {
			t.Errorf("the initial model makes the same (%v)", err)
		}
	})
	t.Run("images are files of their own", func(t *testing.T) {
		var got sampledImages
		decodeJSON(t, prints(t, sample("-o", at("images"), "--count", "40", "--json")...), &got)
		if got.Images != 40 || len(got.Files) != 40 || got.Sheet != "" || got.Files[7] != at("images/image-07.png") {
			t.Errorf("%+v", got)
		}
		var sum float64
		for _, file := range got.Files {
			for _, v := range picture(t, file).(*image.Gray).Pix {
				sum += float64(v) / 400 / 40
			}
		}
		if want := verdictOf(t, home).Intensity; sum-want > 1e-9 || want-sum > 1e-9 {
			t.Errorf("mean intensity %v, of the audit %v", sum, want)
		}
		refuses(t, "image-07.png already exists", sample("-o", overwritten(t, at("images")), "--count", "40")...)
	})
	t.Run("the report has the sheets of every round", func(t *testing.T) {
		page := html.UnescapeString(prints(t, "results", "latest", "--home", home, "--format", "html"))
		last := base64.StdEncoding.EncodeToString(verdictOf(t, home).Sheet)
		for what, want := range map[string]int{"<img ": 6, "images after round 1:": 3, "images after round 2:": 3, last: 1, "grid-row: 1; grid-column: 3": 1} {
			if n := strings.Count(page, what); n != want {
				t.Errorf("%.40q stands there %d times, want %d", what, n, want)
			}
		}
	})
	t.Run("what has no meaning is refused", func(t *testing.T) {
		refuses(t, "--prefix applies to language models", sample("--prefix", "a")...)
		refuses(t, "0 images: expected from 1 to", sample("--count", "0", "-o", at("none"))...)
		refuses(t, "a sheet of 36 images in 0 columns", sample("--columns", "0")...)
		refuses(t, "expected classifier", "export", "latest", "c01", "--home", home, "--prepared", "model")
	})
	t.Run("the prepared classifier is exported", func(t *testing.T) {
		prints(t, "export", "latest", "c02", "--home", home, "--prepared", "classifier", "-o", at("classifier.safetensors"))
		file := contentOf(t, at("classifier.safetensors"))
		model, err := checkpoints.Decode([]byte(file))
		if err != nil || model.Network.Config().Kind != models.CNN || model.Network.Config().Image.Classes != 3 {
			t.Errorf("exported %+v, %v", model, err)
		}
	})
	t.Run("another program makes and measures the images again", func(t *testing.T) {
		torch := testserver.Python(t, "torch")
		dirs := exportCells(t, home)
		for i, dir := range dirs {
			cell := fmt.Sprintf("c%02d", i+1)
			prints(t, "export", "latest", cell, "--home", home, "--prepared", "classifier", "-o", filepath.Join(dir, "classifier.safetensors"))
			prints(t, "sample", "latest", cell, "--home", home, "--seed", "3", "--count", "40", "-o", filepath.Join(dir, "images"))
		}
		runPython(t, ".", append([]string{torch, "-m", "check_images", at("text.jsonl")}, dirs...)...)
	})
}

// overwritten is a directory with one image of another's name, and no others.
func overwritten(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(from, "image-07.png"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "image-07.png"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestImageFlagsAreRejectedForTextModel(t *testing.T) {
	t.Parallel()
	home := smallRun(t, sampleFile)
	refuses(t, "--sheet applies to models that generate images", "sample", "latest", "c01", "--home", home, "--sheet", "x.png")
	refuses(t, "--output applies to models that generate images", "sample", "latest", "c01", "--home", home, "-o", "x")
	refuses(t, "its experiment has no prepare.classifier", "export", "latest", "c01", "--home", home, "--prepared", "classifier")
}
