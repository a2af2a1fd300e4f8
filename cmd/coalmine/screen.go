package main

import (
	"os"
	"strconv"

	"golang.org/x/term"

	"coalmine/workflows/results"
)

// Widths of tables on a terminal: the minimum, and the default for a terminal of unknown width.
const (
	minWidth     = 40
	defaultWidth = 80
)

// screen describes the terminal of standard output; nil for a file, a pipe, or --json.
func (g *global) screen(notes bool) *results.Screen {
	f, ok := g.data.(*os.File)
	if !ok || g.json || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &results.Screen{Width: screenWidth(f), Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", Notes: notes}
}

// colorless returns the screen for texts in which escape sequences are made visible.
func (g *global) colorless() *results.Screen {
	s := g.screen(true)
	if s != nil {
		s.Color = false
	}
	return s
}

// screenWidth returns COLUMNS or the width of the terminal.
func screenWidth(f *os.File) int {
	width, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || width <= 0 {
		if width, _, err = term.GetSize(int(f.Fd())); err != nil || width <= 0 {
			width = defaultWidth
		}
	}
	return max(minWidth, width)
}
