package main

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/data/conversion"
)

const handwriting = "../../examples/data/handwriting.jsonl.gz"

func TestInspectShowsTheImagesOfASource(t *testing.T) {
	t.Parallel()
	sheet := filepath.Join(t.TempDir(), "sheet.png")
	text := prints(t, "data", "inspect", handwriting, "--level", "image", "--sheet", sheet, "--rows", "2", "--columns", "3", "--test", "0.2")
	for _, words := range []string{
		"           source    297     10000      33.67", "users that train    297", "Images of 28 x 28 pixels of 1 channel.",
		"A user has 8 to 130 of them, half of the users at most 21.", "0: 980  1: 1135  2: 1032", "9: 1009\n",
	} {
		if !strings.Contains(text, words) {
			t.Errorf("%q is missing in:\n%s", words, text)
		}
	}
	file := must.Get(os.Open(sheet))(t)
	defer file.Close()
	picture := must.Get(png.Decode(file))(t)
	if size := picture.Bounds().Size(); size.X <= size.Y || size.X%3 != 1 {
		t.Errorf("a sheet of %v for 2 rows of 3", size)
	}
}

func TestInspectPrintsImageCountsAsJSON(t *testing.T) {
	t.Parallel()
	var got inspection
	decodeJSON(t, prints(t, "data", "inspect", handwriting, "--level", "image", "--json", "--iid", "--held-out-users", "0.1"), &got)
	if g := got.Images; g == nil || len(g.PerClass) != 10 || g.PerClass[9] != 1009 || g.PerUser.Median != 21 || g.Width != 28 {
		t.Errorf("%+v", g)
	}
	if b := got.Balance; b.Balanced.Users != 267 || b.HeldOut.Users != 30 || b.DiscardedExamples != 0 || got.IID.Counts != b.Balanced {
		t.Errorf("%+v, shuffled %+v", b, got.IID)
	}
}

func TestImagesWithTagsAreConvertedAndCounted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var picture bytes.Buffer
	must.Do(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))))
	table := "path,user,tags\na.png,ann,dog|old tree\na.png,bob,\na.png,bob,dog\n"
	for name, data := range map[string][]byte{"a.png": picture.Bytes(), "table.csv": []byte(table)} {
		writeFile(t, filepath.Join(folder, name), data)
	}
	out := filepath.Join(folder, "a.jsonl.gz")
	text := prints(t, "data", "convert", "folder", filepath.Join(folder, "table.csv"), "--tags-column", "tags", "--separator", "|", "-o", out)
	for _, words := range []string{"dog: 2 images\n  old tree: 1 image", `level: image, label: tags, tags: ["dog", "old tree"], image: {width: 3, height: 2, channels: 1}}`} {
		if !strings.Contains(text, words) {
			t.Errorf("%q is missing in:\n%s", words, text)
		}
	}
	inspect := []string{"data", "inspect", out, "--level", "image", "--width", "3", "--height", "2", "--tags", "old tree,cat,dog"}
	if text = prints(t, inspect...); !strings.Contains(text, "Images of each tag:  old tree: 1  cat: 0  dog: 2\n") {
		t.Errorf("inspect says:\n%s", text)
	}
	var got inspection
	if err := json.Unmarshal([]byte(prints(t, append(inspect, "--json")...)), &got); err != nil || len(got.Images.PerTag) != 3 || got.Images.PerTag[2].Images != 2 {
		t.Errorf("%+v, %v", got.Images, err)
	}
}

func TestInvalidImageFlagsAndDataAreRejected(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	out := filepath.Join(folder, "a.jsonl.gz")
	for words, args := range map[string][]string{
		"--sheet applies to images; add --level image":                  {"data", "inspect", handwriting, "--sheet", "x.png"},
		"--tags applies to images; add --level image":                   {"data", "inspect", handwriting, "--tags", "dog"},
		`--tags: the tag "dog" twice`:                                   {"data", "inspect", handwriting, "--level", "image", "--tags", "dog,dog"},
		"--unlabelled and --tags":                                       {"data", "inspect", handwriting, "--level", "image", "--tags", "dog", "--unlabelled"},
		`"tags" are missing`:                                            {"data", "inspect", handwriting, "--level", "image", "--tags", "dog"},
		"--tags-column: expected a --separator":                         {"data", "convert", "folder", "t.csv", "--tags-column", "tags", "--separator", "", "-o", out},
		"--classes applies to images; add --level image":                {"data", "import", handwriting, "--classes", "3"},
		"the line is an image, which data.level: image reads":           {"data", "inspect", handwriting},
		"a sheet of --rows 0 and --columns 6; expected at least 1 each": {"data", "inspect", handwriting, "--level", "image", "--sheet", "x.png", "--rows", "0"},
		`line 1: "pixels" are 784 bytes; expected 1024`:                 {"data", "inspect", handwriting, "--level", "image", "--width", "32", "--height", "32"},
		`line 1: "label" is 7; expected 0 to 4`:                         {"data", "inspect", handwriting, "--level", "image", "--classes", "5"},
		"the line is a text, and the source is read as images":          {"data", "inspect", "../../examples/data/state-of-the-union.jsonl.gz", "--level", "image"},
		`--output "": expected a name that ends in .jsonl`:              {"data", "convert", "idx", "x"},
		"--width and --height: expected both or none":                   {"data", "convert", "folder", "x.csv", "-o", out, "--width", "3"},
		"images of 2 channels; expected 1 (grey) or 3":                  {"data", "convert", "folder", "x.csv", "-o", out, "--channels", "2"},
		"no file matches *images*idx3*; name it with --images":          {"data", "convert", "idx", folder, "-o", out},
		"no files; name a directory, or --images and --writers":         {"data", "convert", "idx", "-o", out},
		"absent.sqlite": {"data", "convert", "tff", "absent.sqlite", "-o", out},
		"usage: coalmine data convert leaf FILE.json...": {"data", "convert", "leaf", "-o", out},
	} {
		refuses(t, words, args...)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("conversions that failed have left %v (%v)", left, err)
	}
}

func TestConvertMakesASourceThatInspectReads(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	leaf, out := filepath.Join(folder, "all_data.json"), filepath.Join(folder, "femnist.jsonl.zst")
	writeFile(t, leaf, `{"users": ["f1"], "num_samples": [2], "user_data": {"f1": {"x": [[0, 1, 0.5, 1], [1, 1, 1, 1]], "y": [10, 61]}}}`)
	text := prints(t, "data", "convert", "leaf", leaf, "-o", out, "--ignore-case", "--invert")
	if want := out + ": 2 images of 1 user, 2 x 2 pixels of 1 channel.\ndata: {source: " + out + ", level: image, image: {width: 2, height: 2, channels: 1, classes: 36}}\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	read := prints(t, "data", "inspect", out, "--level", "image", "--width", "2", "--height", "2", "--classes", "36", "--test", "0")
	if !strings.Contains(read, "35: 1") || !strings.Contains(read, "10: 1") {
		t.Errorf("%s", read)
	}
	var again conversion.Summary
	if err := json.Unmarshal([]byte(prints(t, "data", "convert", "leaf", leaf, "-o", out, "--json")), &again); err != nil || again.Images != 2 || again.Classes != 62 {
		t.Errorf("%+v (%v)", again, err)
	}
}
