package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
	"coalmine/internal/dataformats"
	"coalmine/internal/lists"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// MaxShards is the largest number of files of training data.
const MaxShards = 1000

// trainFiles returns the paths of n files of training data.
func trainFiles(shards int) []string {
	if shards <= 1 {
		return []string{trainFile}
	}
	return lists.Make(shards, func(i int) string { return fmt.Sprintf("%s/train-%05d-of-%05d.jsonl", inFolder, i, shards) })
}

// imagesFile returns the path of the images of a file of lines.
func imagesFile(lines string) string { return strings.TrimSuffix(lines, ".jsonl") + ".npy" }

// span is a run of users, with the number of users with examples and of their examples.
type span struct{ first, end, users, examples int }

// spans divides the users into the given number of runs of about equally many examples: user u
// belongs to the run floor(shards x e / n), where e of all n examples are those of users before u.
func spans(p *population.Population, shards int) []span {
	runs, u := make([]span, shards), 0
	for i := range runs {
		runs[i].first = u
		for u < p.Users() && p.Index().First(u)*shards < (i+1)*max(1, p.Records()) {
			if n := p.Examples(u); n > 0 {
				runs[i].users, runs[i].examples = runs[i].users+1, runs[i].examples+n
			}
			u++
		}
		runs[i].end = u
	}
	return runs
}

// Example is a line of the files with texts.
type Example struct {
	// User is a number, the same in all lines of a user.
	User string `json:"user"`
	Text string `json:"text"`
}

// LabelledImage is a line of a file that describes images.
type LabelledImage struct {
	User string `json:"user"`
	// Label is the class, nil if unknown.
	Label *int `json:"label"`
}

// counts holds the numbers of users with examples and of examples of a part.
type counts struct{ users, examples int }

// write writes the examples of a population to files, user by user. All examples of a user are in
// one file.
func (x *training) write(ctx context.Context, v *text.Vocabulary, files []string, p *population.Population) (n counts, err error) {
	for i, run := range spans(p, len(files)) {
		f, err := x.create(files[i], run.examples)
		if err != nil {
			return n, err
		}
		if err := errors.Join(x.writeUsers(ctx, f, v, p, run), f.close()); err != nil {
			return n, err
		}
		n.users, n.examples = n.users+run.users, n.examples+run.examples
	}
	return n, nil
}

func (x *training) writeUsers(ctx context.Context, f *exampleFile, v *text.Vocabulary, p *population.Population, run span) error {
	for u := run.first; u < run.end; u++ {
		sentences, err := p.ReadUser(ctx, u)
		if err != nil {
			return err
		}
		examples := lists.Map(sentences, func(sentence []int32) example { return x.params.example(v, fmt.Sprint(u), sentence) })
		if err := f.write(examples); err != nil {
			return err
		}
	}
	return nil
}

// example is the encoding of an example in files: a line and, for an image, the pixels.
type example struct {
	line   any
	pixels []byte
}

// example encodes a sentence for files.
func (p *TrainParams) example(v *text.Vocabulary, user string, sentence []int32) example {
	if !p.ofImages() {
		return example{Example{user, v.Text(Words(sentence))}, nil}
	}
	label, pixels := images.OfSentence(sentence)
	if label == images.NoLabel {
		return example{LabelledImage{user, nil}, pixels}
	}
	return example{LabelledImage{user, &label}, pixels}
}

// exampleFile is a file of lines and, for images, a file of pixels.
type exampleFile struct {
	lines, pixels io.WriteCloser // pixels is nil for texts
}

// create makes a file for n examples.
func (x *training) create(file string, examples int) (*exampleFile, error) {
	f := new(exampleFile)
	var err error
	if f.lines, err = x.workspace.Create(file, 0o666); err != nil || !x.params.ofImages() {
		return f, err
	}
	f.pixels, err = createImages(x.workspace, imagesFile(file), x.params.Image, examples)
	if err != nil {
		return nil, errors.Join(err, f.lines.Close())
	}
	return f, nil
}

// createImages makes a file for n images: bytes [examples, height, width, channels].
func createImages(w *childprocess.Workspace, file string, m images.Shape, examples int) (io.WriteCloser, error) {
	f, err := w.Create(file, 0o666)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(dataformats.NPYBytes(examples, m.Height, m.Width, m.Channels)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *exampleFile) write(examples []example) error {
	var lines, pixels bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, e := range examples {
		if err := encoder.Encode(e.line); err != nil {
			return err
		}
		pixels.Write(e.pixels)
	}
	if _, err := f.lines.Write(lines.Bytes()); err != nil || f.pixels == nil {
		return err
	}
	_, err := f.pixels.Write(pixels.Bytes())
	return err
}

func (f *exampleFile) close() error {
	err := f.lines.Close()
	if f.pixels != nil {
		err = errors.Join(err, f.pixels.Close())
	}
	return err
}

// Words returns the tokens of a sentence without begin and end.
func Words(sentence []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(sentence), func(token int32) bool { return token == text.Begin || token == text.End })
}
