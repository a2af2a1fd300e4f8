package conversion

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"coalmine/internal/dataformats"
	"coalmine/tasks/datasets"
)

// content reads a file, decompressed if it is compressed.
type content struct {
	*dataformats.Decompressor
	name string
	file *os.File
}

func open(path string) (*content, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &content{name: filepath.Base(path), file: file}
	if c.Decompressor, err = dataformats.NewDecompressor(file, datasets.DefaultRatio); err != nil {
		return nil, errors.Join(c.explain(err), file.Close())
	}
	return c, nil
}

// close closes the file, which was only read.
func (c *content) close() {
	c.Close()
	_ = c.file.Close()
}

// explain names the file of an error, and the remedy if it is truncated.
func (c *content) explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the file ends too early; get it again", c.name)
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

// Create opens the file that a conversion writes: gzip or Zstandard by the end of its name.
// Commit gives it its name; Close without Commit removes it.
func Create(path string) (*Output, error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".coalmine-convert-*")
	if err != nil {
		return nil, err
	}
	o := &Output{Writer: file, path: path, file: file, finish: func() error { return nil }}
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
		if err != nil {
			return nil, errors.Join(err, o.Close())
		}
		z.ModTime = time.Unix(0, 0) // encodes no time
		o.Writer, o.finish = z, z.Close
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, errors.Join(err, o.Close())
		}
		o.Writer, o.finish = z, z.Close
	}
	return o, nil
}

// Output is a file that is being written.
type Output struct {
	io.Writer
	path   string
	file   *os.File
	finish func() error
}

// Commit completes the file and gives it its name.
func (o *Output) Commit() error {
	if err := o.finish(); err != nil {
		return err
	}
	if err := o.file.Chmod(0o644); err != nil {
		return err
	}
	if err := errors.Join(o.file.Sync(), o.file.Close()); err != nil {
		return err
	}
	return os.Rename(o.file.Name(), o.path)
}

// Close gives up a file that was not committed; after Commit it does nothing.
func (o *Output) Close() error {
	_ = o.file.Close() // it is removed
	if err := os.Remove(o.file.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
