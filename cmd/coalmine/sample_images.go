package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"coalmine/internal/readable"
	"coalmine/internal/tempfiles"
	"coalmine/workflows/standalone/modelaudit"
)

// sheetImages is the default number of generated images: the sheets of Augenstein et al. 2020 have
// 6 x 6.
const sheetImages = 36

// sampledImages is the output of sample --json for images.
type sampledImages struct {
	Images int    `json:"images"`
	Seed   uint64 `json:"seed"`
	// Sheet and Files are the written files.
	Sheet string   `json:"sheet,omitempty"`
	Files []string `json:"files,omitempty"`
}

// sampleImages writes images of a generator; name is the name of the sheet without extension,
// unless the flags set one.
func (g *global) sampleImages(c *cobra.Command, generator *modelaudit.Generator, flags *sampleFlags, name string) error {
	if err := refuseFlags(c.Flags(), []string{"length", "temperature", "top-k", "prefix"}, "--%s applies to language models; remove it"); err != nil {
		return err
	}
	if !c.Flags().Changed("count") {
		flags.Count = sheetImages
	}
	if flags.sheet == "" && flags.output == "" {
		flags.sheet = name + ".png"
	}
	if err := flags.checkSheet(); err != nil {
		return err
	}
	written, err := flags.writeImages(c.Context(), generator)
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(written)
	}
	if written.Sheet != "" {
		g.note("wrote %s (%s)", written.Sheet, readable.Count(written.Images, "image"))
	}
	if flags.output != "" {
		g.note("wrote %s to %s", readable.Count(written.Images, "image"), flags.output)
	}
	return nil
}

func (s *sampleFlags) checkSheet() error {
	if s.sheet != "" && (s.columns < 1 || s.Count > maxSheet) {
		return fmt.Errorf("a sheet of %d images in %d columns; expected at most %d images and at least one column (--output writes separate images)", s.Count, s.columns, maxSheet)
	}
	return nil
}

// writeImages writes the images to the directory and the sheet, if these are set.
func (s *sampleFlags) writeImages(ctx context.Context, generator *modelaudit.Generator) (*sampledImages, error) {
	out := &sampledImages{Seed: s.Seed, Sheet: s.sheet}
	var shown [][]byte
	err := generator.Images(ctx, s.Seed, s.Count, func(image []byte) error {
		if s.sheet != "" {
			shown = append(shown, slices.Clone(image))
		}
		if s.output != "" {
			file, err := s.writeImage(generator, image, out.Images)
			if err != nil {
				return err
			}
			out.Files = append(out.Files, file)
		}
		out.Images++
		return nil
	})
	if err != nil || s.sheet == "" {
		return out, err
	}
	sheet, err := generator.Sheet(shown, s.columns)
	if err != nil {
		return nil, err
	}
	return out, tempfiles.WriteFile(s.sheet, sheet)
}

// writeImage writes image number, counted from 0, to its own file.
func (s *sampleFlags) writeImage(generator *modelaudit.Generator, image []byte, number int) (string, error) {
	data, err := generator.PNG(image)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.output, 0o755); err != nil {
		return "", err
	}
	digits := len(fmt.Sprint(s.Count - 1))
	path := filepath.Join(s.output, fmt.Sprintf("image-%0*d.png", digits, number))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s already exists and is not overwritten: name another directory with --output, or remove it", path)
	} else if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	return path, errors.Join(err, file.Close())
}
