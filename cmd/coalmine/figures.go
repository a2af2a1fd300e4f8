package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"coalmine/internal/chart"
	"coalmine/internal/lists"
	"coalmine/internal/tempfiles"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

// figureFlags holds the flags that select and size figures.
type figureFlags struct {
	format, width, figure string
}

// drawnFigures is the output of results --format svg --json.
type drawnFigures struct {
	Folder  string        `json:"folder"`
	Figures []drawnFigure `json:"figures"`
}

// drawnFigure is a figure and its file name within the folder.
type drawnFigure struct {
	results.Figure
	File string `json:"file"`
}

// drawFigures writes the figures of a run's HTML report: a file each into a folder, or one file in
// the format.
func (g *global) drawFigures(ctx context.Context, run string, flags figureFlags, output string) error {
	width, err := chart.WidthNamed(flags.width)
	if err != nil {
		return fmt.Errorf("--width: %w", err)
	}
	if output == "" {
		return fmt.Errorf("--format %s writes several files: name a folder with -o (files of the same names are overwritten), or one file.%[1]s", flags.format)
	}
	return g.withControl(ctx, func(api control.API) error {
		found, err := api.Results(ctx, run)
		if err != nil {
			return err
		}
		all, err := found.Figures()
		if err != nil {
			return err
		}
		chosen, err := flags.choose(all)
		if err != nil {
			return err
		}
		drawn, err := flags.write(output, chosen, width)
		if err != nil {
			return err
		}
		return g.show(drawn, func() error {
			if len(drawn.Figures) == 0 {
				g.printf("no figures; finished cells have figures if their audits draw one\n")
			}
			drawn.print(g)
			return nil
		})
	})
}

// print prints the captions. Figures of cells name the cell, and the first of a kind explains its marks.
func (d *drawnFigures) print(g *global) {
	explained := map[string]bool{}
	for _, f := range d.Figures {
		caption := f.Caption
		if f.Cell != "" {
			caption = fmt.Sprintf("%s (%s): %s", f.Cell, f.Label, f.Caption)
		}
		if f.About != "" && !explained[f.About] {
			caption += ". " + f.About
		}
		explained[f.About] = true
		g.printf("%s: %s\n", filepath.Join(d.Folder, f.File), caption)
	}
}

// choose returns the figures whose file names contain --figure.
func (f *figureFlags) choose(all []results.Figure) ([]results.Figure, error) {
	chosen := lists.Filter(all, func(figure results.Figure) bool { return strings.Contains(figure.FileName(), f.figure) })
	if len(chosen) == 0 && f.figure != "" {
		names := lists.Map(all, func(figure results.Figure) string { return figure.FileName() })
		return nil, fmt.Errorf("--figure %q: expected a part of one of %s", f.figure, strings.Join(names, ", "))
	}
	return chosen, nil
}

func (f *figureFlags) write(output string, figures []results.Figure, width chart.Width) (*drawnFigures, error) {
	if filepath.Ext(output) == "."+f.format {
		return f.writeOne(output, figures, width)
	}
	if err := os.MkdirAll(output, 0o755); err != nil {
		return nil, err
	}
	drawn := &drawnFigures{output, []drawnFigure{}}
	for _, figure := range figures {
		file := figure.FileName() + "." + f.format
		if err := tempfiles.WriteFile(filepath.Join(output, file), figure.Chart.File(f.format, width)); err != nil {
			return nil, err
		}
		drawn.Figures = append(drawn.Figures, drawnFigure{figure, file})
	}
	return drawn, nil
}

// writeOne writes one file: a figure, or a PDF with a page for each figure.
func (f *figureFlags) writeOne(output string, figures []results.Figure, width chart.Width) (*drawnFigures, error) {
	if len(figures) == 0 {
		return nil, fmt.Errorf("-o %s: the run has no figures; finished cells have figures if their audits draw one", output)
	}
	drawn := &drawnFigures{Folder: filepath.Dir(output)}
	var charts []*chart.Figure
	for _, figure := range figures {
		charts = append(charts, figure.Chart)
		drawn.Figures = append(drawn.Figures, drawnFigure{figure, filepath.Base(output)})
	}
	data := charts[0].File(f.format, width)
	switch {
	case f.format == "pdf":
		data = chart.PDF(width, charts...)
	case len(charts) > 1:
		return nil, fmt.Errorf("-o %s is one file, but there are %d figures: choose one with --figure and a part of its name, as in --figure %s, or name a folder", output, len(charts), figures[0].FileName())
	}
	return drawn, tempfiles.WriteFile(output, data)
}
