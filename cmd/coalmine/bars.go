package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"coalmine/internal/readable"
	"coalmine/internal/secrets"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

const (
	// barWidth is the width of a bar without its label and count.
	barWidth = 16
	// besideLabel is the width that the bar and its count need next to the label.
	besideLabel = barWidth + 14
	// besideBars is the number of terminal rows without bars: the total, the last output, the prompt.
	besideBars = 4
	// minNow is the minimum width for a cell's current task.
	minNow = 8
)

// barDisplay shows a bar for each unfinished cell, up to the rows of the terminal, and a total line
// below. A cell that ends leaves a line above the bars.
type barDisplay struct {
	progress *mpb.Progress
	rows     int // maximum number of bars
	bars     map[string]*cellBar
	ended    map[string]bool
	total    atomic.Value // the line below the bars
	totalBar *mpb.Bar

	// measured returns the last measurements of a run's cells in training, by cell name; a nil
	// function returns no measurements. looked is the time of the last call, and latest its result.
	measured func(run string) map[string]results.Latest
	looked   time.Time
	latest   map[string]results.Latest
}

type cellBar struct {
	*mpb.Bar
	now atomic.Value
}

func newBarDisplay(w io.Writer, rows int, options ...mpb.ContainerOption) *barDisplay {
	options = append([]mpb.ContainerOption{mpb.WithOutput(w), mpb.WithRefreshRate(200 * time.Millisecond)}, options...)
	return &barDisplay{
		progress: mpb.New(options...),
		rows:     max(1, rows-besideBars),
		bars:     map[string]*cellBar{},
		ended:    map[string]bool{},
	}
}

// look updates the measurements periodically.
func (d *barDisplay) look(s *status.Run) {
	if d.measured != nil && time.Since(d.looked) >= linesEvery && anyRuns(s) {
		d.latest = d.measured(s.Run)
		d.looked = time.Now()
	}
}

func (d *barDisplay) show(s *status.Run) {
	d.look(s)
	if d.totalBar == nil {
		d.totalBar = d.progress.New(0, mpb.NopStyle(), mpb.BarPriority(math.MaxInt), mpb.PrependDecorators(decor.Any(labelOf(&d.total))))
	}
	hidden := 0
	for i, c := range s.Cells {
		switch {
		case c.Phase == runs.Cancelled:
		case c.Phase == runs.Done || c.Phase == runs.Failed:
			d.close(s, c)
		case d.bars[c.Cell] != nil || len(d.bars) < d.rows:
			d.showCell(i, c)
		default:
			hidden++
		}
	}
	total := overall(s)
	if hidden > 0 {
		total += fmt.Sprintf(", %d more to come", hidden)
	}
	d.total.Store(total + impediments(s))
}

// close removes the bar of a cell that has ended, and prints its end once.
func (d *barDisplay) close(s *status.Run, c status.Cell) {
	if bar := d.bars[c.Cell]; bar != nil {
		bar.Abort(true)
		delete(d.bars, c.Cell)
	}
	if !d.ended[c.Cell] {
		d.ended[c.Cell] = true
		fmt.Fprintln(d.progress, cellLine(s, c))
	}
}

// showCell updates a cell's bar, which counts rounds or steps of SGD. The bar stays one short of
// full until the cell is measured.
func (d *barDisplay) showCell(index int, c status.Cell) {
	bar := d.bars[c.Cell]
	if bar == nil {
		bar = d.newCellBar(index, c)
		d.bars[c.Cell] = bar
	}
	steps := int64(max(1, c.Steps))
	bar.SetTotal(steps, false)
	bar.SetCurrent(min(int64(c.Step), steps-1))
	bar.now.Store(readable.Text(besideBar(d.latest[c.Cell], c.Now)))
}

// besideBar returns the last measurement of a cell, such as "perplexity 62.2 (round 300 of 800)",
// and its current task.
func besideBar(latest results.Latest, now string) string {
	var texts []string
	if latest != (results.Latest{}) {
		texts = append(texts, fmt.Sprintf("%s (%s)", latest.Numbers, latest.At))
	}
	if now != "" {
		texts = append(texts, now)
	}
	return strings.Join(texts, "; ")
}

func (d *barDisplay) newCellBar(index int, c status.Cell) *cellBar {
	b := new(cellBar)
	label := func(s decor.Statistics) string {
		return fit(c.Cell+" "+c.Label, s.AvailableWidth-besideLabel)
	}
	now := func(s decor.Statistics) string {
		room := s.AvailableWidth - barWidth - 2
		if room < minNow {
			return ""
		}
		return fit(labelOf(&b.now)(s), room)
	}
	b.Bar = d.progress.AddBar(0, mpb.BarWidth(barWidth), mpb.BarPriority(index),
		mpb.PrependDecorators(decor.Any(label, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.CountersNoUnit("%d/%d "), decor.Any(now)))
	return b
}

// fit cuts a text to a width of the terminal.
func fit(text string, width int) string { return runewidth.Truncate(text, max(width, 0), "…") }

// labelOf displays a value that another goroutine sets.
func labelOf(v *atomic.Value) decor.DecorFunc {
	return func(decor.Statistics) string {
		s, _ := v.Load().(string)
		return s
	}
}

func (d *barDisplay) end() {
	for _, bar := range d.bars {
		bar.Abort(false)
	}
	if d.totalBar != nil {
		d.totalBar.Abort(false)
	}
	d.progress.Wait()
}

// logOutput writes log lines to standard error or, while bars are shown, above them: bars would
// overwrite the lines.
type logOutput struct{ *global }

// Write implements io.Writer.
func (l logOutput) Write(line []byte) (int, error) {
	if bars := l.bars.Load(); bars != nil {
		if _, err := bars.Write([]byte(secrets.RedactPasswords(string(line)))); err == nil {
			return len(line), nil
		}
	}
	return l.writeError(line)
}

// Widths of tables on a terminal: the minimum, and the default for a terminal of unknown width.
const (
	minWidth     = 40
	defaultWidth = 80
)

// screen describes the terminal of standard output; nil for a file, a pipe, or --json.
func (g *global) screen(notes bool) *results.Terminal {
	out, _ := g.data.(*output)
	if out == nil {
		return nil
	}
	f, ok := out.Writer.(*os.File)
	if !ok || g.json || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &results.Terminal{Width: screenWidth(f), Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", Notes: notes}
}

// colorless returns the screen for texts in which escape sequences are made visible.
func (g *global) colorless() *results.Terminal {
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
