package conversion

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/dataformats"
	"coalmine/tasks/datasets/forms"
)

// TextFiles describes a folder of text files.
type TextFiles struct {
	// Folder has a folder for each user, with files at any depth, or a file for each user.
	Folder string
	// Ending is the ending of the files to read. Other and hidden files are ignored.
	Ending string
	Unit   forms.Unit
	// SkipCorrupt skips and counts examples that are not UTF-8.
	SkipCorrupt bool
}

// TextSummary describes the text files found.
type TextSummary struct {
	Files    int `json:"files"`
	Users    int `json:"users"`
	Examples int `json:"examples"`
	// Empty is the number of users without an example.
	Empty int `json:"empty_users,omitempty"`
	// Skips counts the examples that are not UTF-8.
	Skips
}

// maxText bounds an example, in bytes: the default limit of a line of a source.
const maxText = 1 << 20

// Texts writes the texts of a folder as JSON lines of user and text. It reads files in byte order of their paths, so
// that the same folder gives the same bytes. A user has the name of the folder, or of the file without its ending.
func Texts(f TextFiles, to io.Writer) (*TextSummary, error) {
	paths, nested, err := f.find()
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(to, 1<<16)
	c := textConverter{TextFiles: f, lines: json.NewEncoder(buffered), users: map[string]int{}}
	c.lines.SetEscapeHTML(false)
	for _, p := range paths {
		user := strings.TrimSuffix(p, f.Ending)
		if nested {
			user, _, _ = strings.Cut(p, "/")
		}
		c.users[user] += 0
		if err := c.file(p, user); err != nil {
			return nil, err
		}
	}
	if c.found.Examples == 0 {
		return nil, fmt.Errorf("%s: %d files have no text; expected at least one example", f.Folder, len(paths))
	}
	c.found.Files, c.found.Users = len(paths), len(c.users)
	for _, n := range c.users {
		if n == 0 {
			c.found.Users--
			c.found.Empty++
		}
	}
	return &c.found, buffered.Flush()
}

// find returns the paths of the files from the folder, with slashes. nested reports whether they are in subfolders.
func (f *TextFiles) find() (paths []string, nested bool, err error) {
	var loose []string
	err = fs.WalkDir(os.DirFS(f.Folder), ".", func(p string, d fs.DirEntry, err error) error {
		hidden := p != "." && strings.HasPrefix(path.Base(p), ".")
		switch {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden || d.IsDir() || !strings.HasSuffix(p, f.Ending):
			return nil
		case !utf8.ValidString(p):
			return fmt.Errorf("%q: the name is not UTF-8; rename the file", p)
		}
		if paths = append(paths, p); !strings.Contains(p, "/") {
			loose = append(loose, p)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.Folder, err)
	}
	if len(paths) == 0 {
		return nil, false, fmt.Errorf("%s: no file ends in %q; expected a folder with a file, or a folder of files, for each user (--ending sets another ending)", f.Folder, f.Ending)
	}
	nested = len(loose) < len(paths)
	if nested && len(loose) > 0 {
		return nil, false, fmt.Errorf("%s: the file %s is beside folders; expected a folder for each user, or a file for each, not both", f.Folder, loose[0])
	}
	slices.Sort(paths)
	return paths, nested, nil
}

// textConverter is one conversion of text files.
type textConverter struct {
	TextFiles
	lines *json.Encoder
	users map[string]int // number of examples
	found TextSummary
}

// textLine is a line of a source of texts.
type textLine struct {
	User string `json:"user"`
	Text string `json:"text"`
}

// file writes the examples of a file.
func (c *textConverter) file(name, user string) error {
	file, err := os.Open(filepath.Join(c.Folder, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer file.Close()
	for e, err := range forms.Examples(file, c.Unit, maxText) {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case e.TooLong:
			return c.tooLong(name, e.Line)
		}
		if err := c.add(name, e.Line, user, e.Text); err != nil {
			return err
		}
	}
	return nil
}

func (c *textConverter) tooLong(name string, line int) error {
	return fmt.Errorf("%s, line %d: the %s has more than %d bytes; choose another --unit, or shorten it", name, line, c.Unit, maxText)
}

// add writes an example that begins at a line of a file.
func (c *textConverter) add(name string, line int, user string, text []byte) error {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 { // zero bytes indicate UTF-16
		return c.skip(fmt.Sprintf("%s, line %d: the %s is not UTF-8", name, line, c.Unit))
	}
	c.found.Examples++
	c.users[user]++
	return c.lines.Encode(textLine{user, string(text)})
}

// skip counts a fault, or returns it.
func (c *textConverter) skip(fault string) error {
	if !c.SkipCorrupt {
		return fmt.Errorf("%s; convert it, or skip such examples with --skip-corrupt", fault)
	}
	c.found.Skips.add(fault)
	return nil
}

// LEAF yields the images of LEAF's FEMNIST (Caldas et al. 2018): JSON files with users, num_samples and
// user_data, which holds an object for each user with x, lists of pixels from 0 to 1, and y, the labels.
// Images are square. Memory holds one user at a time.
func LEAF(paths []string) Examples { return inFiles(paths, leafFile) }

func leafFile(path string, yield func(Example, error) bool) (more bool, err error) {
	c, err := open(path)
	if err != nil {
		return false, err
	}
	defer c.close()
	for found, err := range dataformats.LEAFExamples(c) {
		if err != nil {
			return false, fmt.Errorf("%s: %w", c.name, err)
		}
		if x, err := leafImage(c.name, found); !yield(x, err) {
			return false, nil
		}
	}
	return true, nil
}

func leafImage(file string, found dataformats.LEAFExample) (Example, error) {
	x := Example{User: found.User, Where: fmt.Sprintf("%s, image %d of user %q", file, found.Number, found.User)}
	if found.Misnamed != nil {
		return x, &CorruptError{x.Where, found.Misnamed}
	}
	values, err := leafNumbers(found.X)
	if string(found.Y) == "null" {
		err = errors.Join(err, errors.New("the label is null"))
	}
	err = errors.Join(err, json.Unmarshal(found.Y, &x.Label))
	x.Width = int(math.Sqrt(float64(len(values))))
	x.Height = x.Width
	if err == nil {
		x.Pixels, err = greyOf(values)
	}
	if err == nil && x.Width*x.Height != len(values) {
		err = fmt.Errorf("%d pixels do not form a square", len(values))
	}
	if err != nil {
		return x, &CorruptError{x.Where, err}
	}
	return x, nil
}

// leafNumbers reads a list of numbers. null is an error, because encoding/json would read it as 0.
func leafNumbers(list json.RawMessage) ([]float64, error) {
	var numbers []*float64
	if err := json.Unmarshal(list, &numbers); err != nil {
		return nil, err
	}
	values := make([]float64, len(numbers))
	for i, x := range numbers {
		if x == nil {
			return nil, fmt.Errorf("pixel %d is null", i)
		}
		values[i] = *x
	}
	return values, nil
}

// TFF yields the images of one split of TensorFlow Federated's EMNIST, such as all_train: an SQLite database. Its
// table examples has split_name, client_id and serialized_example_proto, a tf.train.Example with the features pixels,
// 28 x 28 numbers from 0 to 1, and label. Images are in the order of rows. The background is white, 1.
func TFF(ctx context.Context, path, split string) Examples {
	return examples(func(yield func(Example, error) bool) error {
		name := filepath.Base(path)
		for r, err := range dataformats.TFFRows(ctx, path, []string{split}) {
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if x, err := tffExample(name, r); !yield(x, err) {
				return nil
			}
		}
		return nil
	})
}

func tffExample(name string, r dataformats.TFFRow) (Example, error) {
	if r.Client == nil {
		where := fmt.Sprintf("row %d of %s", r.Number, name)
		return Example{Where: where}, &CorruptError{where, errors.New("the user is missing")}
	}
	x := Example{User: *r.Client, Where: fmt.Sprintf("row %d of user %q in %s", r.Number, *r.Client, name)}
	label, pixels, err := parseEMNIST(r.Example)
	if err == nil {
		x.Label, x.Width, x.Height = label, emnistSide, emnistSide
		x.Pixels, err = greyOf(pixels)
	}
	if err != nil {
		return x, &CorruptError{x.Where, err}
	}
	return x, nil
}

// emnistSide is the width and height of an image of EMNIST.
const emnistSide = 28

// parseEMNIST reads the features label and pixels.
func parseEMNIST(example []byte) (label int, pixels []float32, err error) {
	labels := []int64{}
	err = dataformats.TFFFeatures(example, func(name string, f dataformats.TFFFeature) (err error) {
		switch name {
		case "label":
			labels, err = f.Ints()
		case "pixels":
			pixels, err = f.Floats()
		}
		return err
	})
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("damaged example: %w", err)
	case len(labels) != 1 || len(pixels) != emnistSide*emnistSide:
		return 0, nil, fmt.Errorf("example of %d labels and %d pixels; expected 1 and %d", len(labels), len(pixels), emnistSide*emnistSide)
	case labels[0] < 0 || labels[0] > math.MaxInt32:
		return 0, nil, fmt.Errorf("the label is %d", labels[0])
	}
	return int(labels[0]), pixels, nil
}
