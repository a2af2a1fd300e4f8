package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/images"
	"coalmine/workflows/data/conversion"
)

const convertHelp = `Convert images or text files to a source: a file of JSON lines. A line of an image has a user,
a label and pixels, for data.level: image; --invert exchanges black and white. A line of a
text has a user and a text. The output ends in .jsonl, .jsonl.gz or .jsonl.zst; equal input
gives equal bytes.`

func newConvertCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:     "convert",
		Short:   "Convert images or text files to a source",
		Long:    convertHelp,
		Example: "  coalmine data convert texts novels/ --unit paragraph -o novels.jsonl.zst",
	}
	c.AddCommand(newConvertIDX(g), newConvertTFF(g), newConvertLEAF(g), newConvertParquet(g), newConvertFolder(g), newConvertTexts(g))
	return c
}

// converting holds the options common to all formats.
type converting struct {
	conversion.Options
	to string
}

func (o *converting) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&o.to, "output", "o", "", "file to write (required)")
	f.BoolVar(&o.Invert, "invert", false, "exchange black and white")
	f.BoolVar(&o.SkipCorrupt, "skip-corrupt", false, "skip and count unreadable images")
	f.IntVar(&o.Shape.Classes, "classes", 0, "number of classes; labels are 0 to classes - 1 (default: from the data)")
}

func (o *converting) addCase(f *pflag.FlagSet) {
	f.BoolVar(&o.IgnoreCase, "ignore-case", false, "map small letters to capital ones: 36 classes instead of EMNIST's 62")
}

// addSize adds the options of image files.
func (o *converting) addSize(f *pflag.FlagSet) {
	f.IntVar(&o.Shape.Width, "width", 0, "width of the images in pixels (default: of the first)")
	f.IntVar(&o.Shape.Height, "height", 0, "height of the images in pixels (default: of the first)")
	f.IntVar(&o.Shape.Channels, "channels", 1, "channels to write: 1 (grey) or 3 (red, green and blue)")
}

func addColumns(f *pflag.FlagSet, c *conversion.Columns, image string) {
	f.StringVar(&c.Image, image+"-column", image, "column of the images")
	f.StringVar(&c.User, "user-column", "user", "column of the users")
	f.StringVar(&c.Label, "label-column", "label", "column of the labels, which are whole numbers")
}

func newConvertIDX(g *global) *cobra.Command {
	var o converting
	var files conversion.IDXFiles
	c := &cobra.Command{
		Use:   "idx [DIRECTORY]",
		Short: "MNIST's IDX files, with QMNIST's table of writers",
		Long: `Convert IDX files, gzip or plain: MNIST's images and labels, and QMNIST's table, whose row i
has the writer of image i in column 2. In a directory they are found by their names:
*images*idx3*, *labels*idx1*, *idx2*. Without a file of labels, column 0 of the table has
them; with one, both must agree.`,
		Example: "  coalmine data convert idx mnist/ -o handwriting.jsonl.gz",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if len(args) == 1 {
				found, err := conversion.FindIDX(args[0], files)
				if err != nil {
					return err
				}
				files = found
			}
			if files.Images == "" || files.Writers == "" {
				return errors.New("no files; name a directory, or --images and --writers")
			}
			return g.convert(&o, conversion.IDX(files))
		},
	}
	o.add(c)
	c.Flags().StringVar(&files.Images, "images", "", "file of the images")
	c.Flags().StringVar(&files.Labels, "labels", "", "file of the labels")
	c.Flags().StringVar(&files.Writers, "writers", "", "file of the table of writers")
	c.Flags().IntVar(&files.WriterColumn, "writer-column", conversion.QMNISTWriter, "column of the writer, from 0")
	return c
}

func newConvertTFF(g *global) *cobra.Command {
	var o converting
	var split string
	c := &cobra.Command{
		Use:   "tff DATABASE.sqlite",
		Short: "TensorFlow Federated's EMNIST, an SQLite database",
		Long: `Convert one split of TensorFlow Federated's EMNIST, emnist_all.sqlite.lzma; unpack it first:
xz --decompress --format=lzma emnist_all.sqlite.lzma. Its background is white (255), MNIST's
is black; --invert converts.`,
		Example: "  coalmine data convert tff emnist_all.sqlite --ignore-case -o emnist.jsonl.zst",
		RunE: func(c *cobra.Command, args []string) error {
			return g.convert(&o, conversion.TFF(c.Context(), args[0], split))
		},
	}
	o.add(c)
	o.addCase(c.Flags())
	c.Flags().StringVar(&split, "split", "all_train", "split of the data: all_train, all_test, digits_only_train or digits_only_test")
	return c
}

func newConvertLEAF(g *global) *cobra.Command {
	var o converting
	c := &cobra.Command{
		Use:   "leaf FILE.json...",
		Short: "LEAF's FEMNIST, JSON",
		Long: `Convert the JSON files of LEAF's FEMNIST, in order: users, num_samples and user_data with x
(pixels from 0 to 1) and y (labels). A user in several files is one user. The background is
white (255), MNIST's is black; --invert converts.`,
		Example: "  coalmine data convert leaf data/train/*.json --ignore-case -o femnist.jsonl.zst",
		RunE: func(c *cobra.Command, args []string) error {
			return g.convert(&o, conversion.LEAF(args))
		},
	}
	o.add(c)
	o.addCase(c.Flags())
	return c
}

func newConvertParquet(g *global) *cobra.Command {
	var o converting
	var columns conversion.Columns
	c := &cobra.Command{
		Use:   "parquet FILE.parquet...",
		Short: "Parquet with a column of PNG or JPEG files",
		Long: `Convert Parquet files, in order. The column of images holds PNG or JPEG files, or a group with
a member "bytes", as in Hugging Face's datasets. Users are texts or whole numbers.`,
		Example: "  coalmine data convert parquet femnist-*.parquet --user-column writer_id --label-column character -o femnist.jsonl.zst",
		RunE: func(c *cobra.Command, args []string) error {
			return g.convert(&o, conversion.Parquet(args, columns))
		},
	}
	o.add(c)
	o.addCase(c.Flags())
	o.addSize(c.Flags())
	addColumns(c.Flags(), &columns, "image")
	return c
}

func newConvertFolder(g *global) *cobra.Command {
	var o converting
	var columns conversion.Columns
	c := &cobra.Command{
		Use:   "folder TABLE.csv",
		Short: "PNG or JPEG files, and a table of their paths, users and labels",
		Long: `Convert PNG or JPEG files, in the order of a table. The table is a CSV file whose first row
names its columns: path (relative to the table's folder), user and label. With --tags-column
an image has any number of tags instead of a label.`,
		Example: "  coalmine data convert folder photos/table.csv --channels 3 -o photos.jsonl.zst",
		RunE: func(c *cobra.Command, args []string) error {
			if columns.Tags != "" && (columns.Separator == "" || c.Flags().Changed("label-column")) {
				return errors.New("--tags-column: expected a --separator, and no --label-column")
			}
			return g.convert(&o, conversion.Folder(args[0], columns))
		},
	}
	o.add(c)
	o.addSize(c.Flags())
	addColumns(c.Flags(), &columns, "path")
	c.Flags().BoolVar(&o.Unlabelled, "unlabelled", false, "accept images with an empty label")
	c.Flags().StringVar(&columns.Tags, "tags-column", "", "column of the tags, instead of a label")
	c.Flags().StringVar(&columns.Separator, "separator", ";", "separator of tags")
	return c
}

// check rejects invalid options before any data are read.
func (o *converting) check() error {
	if err := checkOutput(o.to); err != nil {
		return err
	}
	if (o.Shape.Width == 0) != (o.Shape.Height == 0) {
		return errors.New("--width and --height: expected both or none")
	}
	// Defaults stand in for the properties that follow from the data.
	given, usual := o.Shape, images.Default
	return images.Shape{
		Width: cmp.Or(given.Width, usual.Width), Height: cmp.Or(given.Height, usual.Height),
		Channels: cmp.Or(given.Channels, usual.Channels), Classes: cmp.Or(given.Classes, usual.Classes),
	}.Check()
}

func checkOutput(to string) error {
	if !slices.ContainsFunc([]string{".jsonl", ".jsonl.gz", ".jsonl.zst"}, func(end string) bool { return strings.HasSuffix(to, end) }) {
		return fmt.Errorf("--output %q: expected a name that ends in .jsonl, .jsonl.gz or .jsonl.zst", to)
	}
	return nil
}

// written runs a conversion that writes the file named to, completely or not at all, and returns the summary.
func written[S any](to string, convert func(io.Writer) (*S, error)) (found *S, err error) {
	err = conversion.WriteFile(to, func(out io.Writer) (err error) {
		found, err = convert(out)
		return err
	})
	return found, err
}

// convert writes the file completely or not at all.
func (g *global) convert(o *converting, examples conversion.Examples) error {
	if err := o.check(); err != nil {
		return err
	}
	found, err := written(o.to, func(out io.Writer) (*conversion.Summary, error) { return conversion.Convert(examples, out, o.Options) })
	if err != nil {
		return err
	}
	return g.show(found, func() error { g.printConverted(o.to, found); return nil })
}

// printTagged describes a file of images with tags; it limits a long list to the most frequent tags.
func (g *global) printTagged(to string, s *conversion.Summary) {
	var tags []string
	for _, t := range s.Tags[:min(len(s.Tags), models.MaxLabels)] {
		g.printf("  %s: %s\n", t.Tag, readable.Count(t.Images, "image"))
		tags = append(tags, strconv.Quote(t.Tag))
	}
	g.printf("data: {source: %s, level: image, label: tags, tags: [%s], image: {width: %d, height: %d, channels: %d}}\n", to, strings.Join(tags, ", "), s.Width, s.Height, s.Channels)
}

func (g *global) printConverted(to string, s *conversion.Summary) {
	g.printf("%s: %s of %s, %s.\n", to, readable.Count(s.Images, "image"), readable.Count(s.Users, "user"), s.Shape)
	unlabelled := ""
	if s.Unlabelled > 0 {
		unlabelled = ", unlabelled: true"
		g.printf("%d of the images have no label.\n", s.Unlabelled)
	}
	if len(s.Tags) > 0 {
		g.printTagged(to, s)
	} else {
		g.printf("data: {source: %s, level: image, image: {width: %d, height: %d, channels: %d, classes: %d%s}}\n", to, s.Width, s.Height, s.Channels, s.Classes, unlabelled)
	}
	g.printSkipped("images", s.Skipped, s.FirstSkipped)
}

// printSkipped prints the number of unreadable items, and the errors of the first ones.
func (g *global) printSkipped(items string, skipped int, first []string) {
	if skipped == 0 {
		return
	}
	g.printf("%d %s could not be read and were left out:\n", skipped, items)
	for _, fault := range first {
		g.printf("  %s\n", fault)
	}
	if more := skipped - len(first); more > 0 {
		g.printf("  and %d more\n", more)
	}
}

func newConvertTexts(g *global) *cobra.Command {
	var files conversion.TextFiles
	var to, unit string
	c := &cobra.Command{
		Use:   "texts FOLDER",
		Short: "Text files: a folder, or a file, for each user",
		Long: `Convert a folder of texts: a folder for each user, with text files at any depth, or a file
for each user. Users are named by folder, or by file without its ending. An example is a
line, a paragraph (ended by empty lines) or a file. Files are read in byte order of their
paths; hidden ones are skipped.

A folder of .txt files needs no conversion: it is a source.`,
		Example: "  coalmine data convert texts novels/ --unit paragraph -o novels.jsonl.zst",
		RunE: func(_ *cobra.Command, args []string) error {
			files.Folder, files.Unit = args[0], forms.Unit(unit)
			if !files.Unit.Known() {
				return fmt.Errorf("--unit %q: expected one of %v", unit, files.Unit.Choices())
			}
			return g.convertTexts(files, to)
		},
	}
	f := c.Flags()
	f.StringVarP(&to, "output", "o", "", "file to write (required)")
	f.StringVar(&files.Ending, "ending", ".txt", "ending of the files to read")
	f.StringVar(&unit, "unit", string(forms.Lines), "example: line, paragraph or file")
	f.BoolVar(&files.SkipCorrupt, "skip-corrupt", false, "skip and count examples that are not UTF-8")
	return c
}

// convertTexts writes the file completely or not at all.
func (g *global) convertTexts(files conversion.TextFiles, to string) error {
	if err := checkOutput(to); err != nil {
		return err
	}
	found, err := written(to, func(out io.Writer) (*conversion.TextSummary, error) { return conversion.Texts(files, out) })
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(found)
	}
	g.printf("%s: %s of %s in %s\n", to, readable.Count(found.Examples, "example"), readable.Count(found.Users, "user"), readable.Count(found.Files, "file"))
	if found.Empty > 0 {
		g.printf("users without text (left out): %d\n", found.Empty)
	}
	g.printSkipped("examples", found.Skipped, found.FirstSkipped)
	return nil
}
