package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"coalmine/internal/tempfiles"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/workflows/data/sources"
)

// inspecting holds the flags of data inspect; data import has those that describe the lines.
type inspecting struct {
	datasets.Recipe
	limits source.Limits
	iid    bool
	tags   []string // of images
	// sheet is the file of a contact sheet of rows x columns images; empty means no sheet.
	sheet         string
	rows, columns int
	// called holds the names of columns by field.
	called map[string]string
}

// addReading adds the flags that describe the lines.
func (i *inspecting) addReading(f *pflag.FlagSet) {
	f.IntVar(&i.limits.LineBytes, "limit-line", source.DefaultLineBytes, "longest line, in bytes")
	f.Int64Var(&i.limits.TotalBytes, "limit-text", source.DefaultTotalBytes, "maximum decompressed size of the source, in bytes")
	f.IntVar(&i.limits.Ratio, "limit-ratio", source.DefaultRatio, "maximum decompressed size of a compressed file as a multiple of its size, after 16 MiB")
	f.StringVar((*string)(&i.Level), "level", string(text.WordLevel), "level of reading: word or byte for texts, or image; at the byte level, words mean bytes")
	f.IntVar(&i.Image.Width, "width", images.Default.Width, "width of images, in pixels")
	f.IntVar(&i.Image.Height, "height", images.Default.Height, "height of images, in pixels")
	f.IntVar(&i.Image.Channels, "channels", images.Default.Channels, "channels of images: 1 (grey) or 3 (red, green and blue)")
	f.IntVar(&i.Image.Classes, "classes", images.Default.Classes, "number of classes of images; labels are 0 to classes - 1")
	f.BoolVar(&i.Unlabelled, "unlabelled", false, "images may have no label")
	f.StringSliceVar(&i.tags, "tags", nil, "tags of images, instead of a label, separated by commas")
	i.addTable(f)
	f.StringVar((*string)(&i.Unit), "unit", "", "part of a text file that is an example: "+strings.Join(forms.Unit("").Choices(), ", ")+" (default line)")
	f.StringVar(&i.Split, "split", "", "split to train on, if the data have splits (default train)")
	f.StringVar(&i.TestSplit, "test-split", "", "split that is the test part, instead of --test")
	f.StringVar(&i.ValidationSplit, "validation-split", "", "split that is the validation part, instead of --validation")
	f.BoolVar(&i.SkipFaults, "skip-faults", false, "skip and count faulty records")
}

func (i *inspecting) addTable(f *pflag.FlagSet) {
	f.StringVar((*string)(&i.Form), "form", "", "form of the files, if their content does not show it: "+strings.Join(forms.Form("").Choices(), ", "))
	f.StringToStringVar(&i.called, "column", nil, "name of a column in the file, such as user=author or text=body")
}

// readColumns sets the names of the columns.
func (i *inspecting) readColumns() error {
	if i.Level.Scheme().Subwords {
		return fmt.Errorf("--level %s needs a tokenizer; expected another level, or an experiment file with data.tokenizer", i.Level)
	}
	fields := map[string]*string{
		"user": &i.Columns.User, "text": &i.Columns.Text, "target": &i.Columns.Target,
		"time": &i.Columns.Time, "score": &i.Columns.Score, "tags": &i.Columns.Tags,
		"group": &i.Columns.Group, "split": &i.Columns.Split,
	}
	for field, name := range i.called {
		if fields[field] == nil {
			return fmt.Errorf("--column %s=%s: expected one of %s", field, name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		*fields[field] = name
	}
	return i.Origin.Check(i.Level.Scheme().Images)
}

// add adds the flags of data inspect that describe a source.
func (i *inspecting) add(f *pflag.FlagSet) {
	i.addReading(f)
	f.BoolVar(&i.iid, "iid", false, "also shuffle and refill, like partition: iid without canaries; holds the source in memory")
	f.Uint64Var(&i.Seed, "seed", 1, "seed of the parts, and of the sheet")
	f.IntVar(&i.Sequence, "sequence", 0, "length at which sentences are cut (default 20 words or 100 bytes)")
	f.IntVar(&i.VocabularySize, "vocabulary", 10000, "size of the vocabulary in words; fixed at the other levels")
	f.Float64Var(&i.TestFraction, "test", 0.1, "share of the examples in the test part")
	f.Float64Var(&i.ValidationFraction, "validation", 0, "share of the other examples in the validation part")
	f.IntVar(&i.Words, "words", 2000, "words of a balanced user; 0, the default of images, does not balance users")
	f.Float64Var(&i.HeldOutUsers, "held-out-users", 0, "share of the balanced users that never train")
	f.StringVar(&i.sheet, "sheet", "", "draw some of the images, side by side, to this PNG file")
	f.IntVar(&i.rows, "rows", 6, "rows of the sheet")
	f.IntVar(&i.columns, "columns", 6, "columns of the sheet")
}

// complete sets the values that follow from the level, and rejects flags that do not apply to it.
func (i *inspecting) complete(f *pflag.FlagSet) error {
	if err := i.readColumns(); err != nil {
		return err
	}
	if err := i.completeParts(f); err != nil {
		return err
	}
	level := i.Level.Scheme()
	if level.Fixed() && !f.Changed("vocabulary") {
		i.VocabularySize = 0
	}
	if level.Images {
		if !f.Changed("words") {
			i.Words = 0
		}
		return errors.Join(i.checkTags(), i.checkSheet())
	}
	i.Image = images.Shape{}
	return refuseFlags(f, []string{"width", "height", "channels", "classes", "unlabelled", "sheet", "rows", "columns", "tags"}, "--%s applies to images; add --level image")
}

// completeParts sets the fractions of parts that are splits to 0.
func (i *inspecting) completeParts(f *pflag.FlagSet) error {
	for _, part := range []struct {
		name, split string
		fraction    *float64
	}{{"test", i.TestSplit, &i.TestFraction}, {"validation", i.ValidationSplit, &i.ValidationFraction}} {
		switch {
		case part.split == "":
		case f.Changed(part.name):
			return fmt.Errorf("--%s and --%s-split: expected one of them", part.name, part.name)
		default:
			*part.fraction = 0
		}
	}
	return nil
}

// checkTags sets the tags that images may have.
func (i *inspecting) checkTags() error {
	if len(i.tags) == 0 {
		return nil
	}
	if err := source.CheckTags(i.tags); err != nil {
		return fmt.Errorf("--tags: %w", err)
	}
	if i.Unlabelled {
		return errors.New("--unlabelled and --tags: expected one of them; an image without tags has an empty list")
	}
	i.Label, i.Tags = source.TagsLabel, source.Tags(i.tags)
	return nil
}

// maxSheet is the maximum number of images in a sheet.
const maxSheet = 10000

func (i *inspecting) checkSheet() error {
	if i.sheet != "" && (i.rows < 1 || i.columns < 1 || i.rows > maxSheet/i.columns) {
		return fmt.Errorf("a sheet of --rows %d and --columns %d; expected at least 1 each, and at most %d images", i.rows, i.columns, maxSheet)
	}
	return nil
}

// read returns the recipe of an import, which checks the lines without counting words.
func (i *inspecting) read() []datasets.Recipe {
	r := datasets.Recipe{Reading: i.Reading}
	if !i.Level.Scheme().Fixed() {
		r.VocabularySize = 1 // any positive value works
	}
	return []datasets.Recipe{r}
}

// images counts the images of a source, and draws the sheet.
func (i *inspecting) images(ctx context.Context, src *sources.Source) (*sources.Gallery, error) {
	shown := 0
	if i.sheet != "" {
		shown = i.rows * i.columns
	}
	found, err := sources.ReadGallery(src.Records(ctx, i.limits, i.Reading), i.Reading, shown, i.Seed)
	if err != nil || shown == 0 {
		return found, err
	}
	file, err := found.Sheet(i.columns)
	if err != nil {
		return nil, err
	}
	return found, tempfiles.WriteFile(i.sheet, file)
}

// writeImages writes the output of data inspect for a source of images.
func writeImages(w io.Writer, f *inspection, r datasets.Recipe) error {
	if err := writeSteps(w, &f.Facts, r.Words == 0, "of 1 user", func(c population.Counts) string {
		return fmt.Sprintf("%.4g", float64(c.Examples)/float64(max(1, c.Users)))
	}, f.refilled()...); err != nil {
		return err
	}
	var classes strings.Builder
	for label, n := range f.Images.PerClass {
		fmt.Fprintf(&classes, "  %d: %d", label, n)
	}
	for _, t := range f.Images.PerTag {
		fmt.Fprintf(&classes, "  %s: %d", t.Tag, t.Images)
	}
	if n := f.Images.Unlabelled; n > 0 {
		fmt.Fprintf(&classes, "  none: %d", n)
	}
	each, kind := f.Images.PerUser, "class"
	if f.Images.PerTag != nil {
		kind = "tag"
	}
	_, err := fmt.Fprintf(w, "\nImages of %s.\nA user has %d to %d of them, half of the users at most %d.\nImages of each %s:%s\n",
		f.Images.Shape, each.Min, each.Max, each.Median, kind, classes.String())
	if r.Words > 0 {
		_, more := fmt.Fprintf(w, "%d users of the training part have fewer than %d numbers; they and the remainders\nof the others are %d images.\n",
			f.Balance.DroppedUsers, r.Words, f.Balance.DiscardedExamples)
		err = errors.Join(err, more)
	}
	return err
}
