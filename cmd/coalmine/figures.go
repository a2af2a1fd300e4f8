package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

// figuresFormat is the format of results that has a file for each figure.
const figuresFormat = "svg"

// drawnFigures is what results --format svg --json prints.
type drawnFigures struct {
	Folder  string        `json:"folder"`
	Figures []drawnFigure `json:"figures"`
}

// drawnFigure is a figure and the name of its file within the folder.
type drawnFigure struct {
	results.Figure
	File string `json:"file"`
}

// drawFigures writes the figures of a run's HTML report into a folder, a file each.
func (g *global) drawFigures(ctx context.Context, run, dir string) error {
	if dir == "" {
		return fmt.Errorf("--format %s writes many files: name the folder for them by -o; files of the same names are overwritten", figuresFormat)
	}
	return g.withControl(ctx, func(api control.API) error {
		found, err := api.Results(ctx, run)
		if err != nil {
			return err
		}
		figures, err := found.Figures()
		if err != nil {
			return err
		}
		drawn, err := writeFigures(dir, figures)
		if err != nil {
			return err
		}
		if g.json {
			return g.printJSON(drawn)
		}
		for _, f := range drawn.Figures {
			g.printf("%s: %s\n", filepath.Join(dir, f.File), f.Caption)
		}
		return nil
	})
}

func writeFigures(dir string, figures []results.Figure) (*drawnFigures, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	drawn := &drawnFigures{dir, []drawnFigure{}}
	for _, f := range figures {
		file := figureFile(&f)
		if err := os.WriteFile(filepath.Join(dir, file), f.SVG, 0o644); err != nil {
			return nil, err
		}
		drawn.Figures = append(drawn.Figures, drawnFigure{f, file})
	}
	return drawn, nil
}

// figureFile is "00-mean-exposure-of-canaries-bits-by-training.svg".
func figureFile(f *results.Figure) string {
	return fmt.Sprintf("%02d-%s.svg", f.Number, results.FileName(f.Title))
}
