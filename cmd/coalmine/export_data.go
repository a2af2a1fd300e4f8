package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"

	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results/dataexport"
)

const dataExportHelp = `Write the data of a cell as tables, one file each, from which other programs can
recompute its results:

  vocabulary   the text of each token
  parts        each example of the source: its user, its part, its tokens
  population   each training example: its user, its tokens, and the canary that
               replaces it, if any
  canaries     each canary, and the places of its copies in the population
  references   the random sequences that canaries are ranked against
  cohorts      the users sampled for each round
  devices      the owner of each device, if users have devices
  updates      the updates stored by training.record; only if --only names it
  memberships  the losses of each user, under the model and each reference model of
               audit.membership; only if --only names it

A table is absent if the experiment does not produce its contents, as are the cohorts of a
training with randomness: secret. Tables are streamed, so their size does not matter.
docs/data.md describes the columns. export.json lists the tables of the directory, their
format and the build that wrote them. The command never overwrites a table.`

type dataExportFlags struct {
	dir, format string
	only        []string
}

func newDataExportCommand(g *global) *cobra.Command {
	var f dataExportFlags
	c := &cobra.Command{
		Use:   "export RUN CELL",
		Short: "Write the data of a cell as tables: parts, population, canaries, references",
		Long:  dataExportHelp,
		Example: "  coalmine data export quickstart c01 -o c01\n" +
			"  coalmine data export whose c01 --only devices,updates --format parquet\n" +
			"  coalmine data export quickstart c01 --only references --format parquet\n" +
			"  coalmine data export latest c03 --only canaries --json | jq -r '.files[].path'",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			return g.exportData(ctx, api, args[0], args[1], f)
		}),
	}
	formats := fmt.Sprintf("%s or %s", dataexport.JSONLines, dataexport.Parquet)
	c.Flags().StringVarP(&f.dir, "output", "o", "", "directory to write to; RUN-CELL if none is given")
	c.Flags().StringVar(&f.format, "format", string(dataexport.JSONLines), formats)
	c.Flags().StringSliceVar(&f.only, "only", nil, "tables to write, separated by commas; default all tables of the cell except updates and memberships")
	return c
}

// exportFormat is the format of directories with exported data.
var exportFormat = storage.Format{Name: "exported data", Number: 1}

// exportedData is the output of data export --json, and the content of exportManifest.
type exportedData struct {
	storage.Stamp
	Run   string         `json:"run"`
	Cell  string         `json:"cell"`
	Files []exportedFile `json:"files"`
}

type exportedFile struct {
	Table  dataexport.Table `json:"table"`
	Path   string           `json:"path"`
	Rows   int64            `json:"rows"`
	Bytes  int64            `json:"bytes"`
	SHA256 storage.Digest   `json:"sha256"`
}

func (g *global) exportData(ctx context.Context, api control.API, run, cell string, f dataExportFlags) error {
	status, err := api.Status(ctx, run)
	if err != nil {
		return err
	}
	spec, err := api.Experiment(ctx, status.Run)
	if err != nil {
		return err
	}
	if err := onlyCell(spec, cell); err != nil {
		return fmt.Errorf("run %s: %w", status.Run, err)
	}
	tables, err := f.tables(&spec.Cells[0].Experiment)
	if err != nil {
		return fmt.Errorf("run %s, cell %s: %w", status.Run, cell, err)
	}
	if f.dir == "" {
		f.dir = status.Run + "-" + cell
	}
	out := exportedData{Stamp: exportFormat.Stamp(), Run: status.Run, Cell: cell}
	before, err := f.readManifest(&out)
	if err != nil {
		return err
	}
	if out.Files, err = f.write(ctx, api, status.Run, cell, tables); err != nil {
		return err
	}
	if err := f.writeManifest(out, before); err != nil {
		return err
	}
	return g.show(out, func() error { return out.write(g.stdout) })
}

// exportManifest is the file of an export that lists its format, the build that wrote it, and its
// tables.
const exportManifest = "export.json"

// readManifest returns the tables that are already in the directory. Tables of another cell, or in
// a newer format, are an error.
func (f *dataExportFlags) readManifest(out *exportedData) ([]exportedFile, error) {
	name := filepath.Join(f.dir, exportManifest)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var before exportedData
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err == nil {
		err = exportFormat.Check(before.Stamp)
	}
	if err == nil && (before.Run != out.Run || before.Cell != out.Cell) {
		err = fmt.Errorf("the directory has data of run %s, cell %s: name another directory with --output", before.Run, before.Cell)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return before.Files, nil
}

// writeManifest lists the tables in the directory, with paths relative to it.
func (f *dataExportFlags) writeManifest(out exportedData, before []exportedFile) error {
	for _, file := range out.Files {
		file.Path = filepath.Base(file.Path)
		before = slices.DeleteFunc(before, func(b exportedFile) bool { return b.Path == file.Path })
		before = append(before, file)
	}
	out.Files = before
	data, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return err
	}
	return tempfiles.WriteFile(filepath.Join(f.dir, exportManifest), append(data, '\n'))
}

// tables returns the requested tables, in the order of writing.
func (f *dataExportFlags) tables(e *experiment.Experiment) ([]dataexport.Table, error) {
	if !slices.Contains(dataexport.Formats(), dataexport.Format(f.format)) {
		return nil, fmt.Errorf("--format %q: expected %s or %s", f.format, dataexport.JSONLines, dataexport.Parquet)
	}
	has := dataexport.Tables(e)
	if len(f.only) == 0 {
		return dataexport.DefaultTables(e), nil
	}
	for _, name := range f.only {
		if !slices.Contains(dataexport.AllTables(), dataexport.Table(name)) {
			return nil, fmt.Errorf("--only %q: expected some of %q", name, dataexport.AllTables())
		}
		if !slices.Contains(has, dataexport.Table(name)) {
			return nil, fmt.Errorf("--only %s: the cell has no such table; it has %q", name, has)
		}
	}
	return slices.DeleteFunc(has, func(t dataexport.Table) bool { return !slices.Contains(f.only, string(t)) }), nil
}

// write writes all tables or none.
func (f *dataExportFlags) write(ctx context.Context, api control.API, run, cell string, tables []dataexport.Table) (files []exportedFile, err error) {
	for _, table := range tables {
		if _, err := os.Lstat(f.path(table)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s already exists and is not overwritten: name another directory with --output, or remove it", f.path(table))
		}
	}
	_, missing := os.Stat(f.dir)
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		for _, done := range files {
			os.Remove(done.Path)
		}
		if missing != nil {
			os.Remove(f.dir)
		}
	}()
	for _, table := range tables {
		file, err := f.writeTable(ctx, api, run, cell, table)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

func (f *dataExportFlags) path(table dataexport.Table) string {
	return filepath.Join(f.dir, string(table)+"."+f.format)
}

// writeTable writes to a temporary file and renames it, so that a file with the table's name is
// always complete.
func (f *dataExportFlags) writeTable(ctx context.Context, api control.API, run, cell string, table dataexport.Table) (exportedFile, error) {
	file, err := os.CreateTemp(f.dir, string(table)+"-*.unfinished")
	if err != nil {
		return exportedFile{}, err
	}
	w := &tableWriter{file: file, digest: sha256.New()}
	err = api.Data(ctx, run, cell, table, dataexport.Format(f.format), w)
	out := exportedFile{Table: table, Path: f.path(table), Bytes: w.bytes, SHA256: storage.Digest(w.digest.Sum(nil))}
	if err == nil {
		out.Rows, err = w.rows(dataexport.Format(f.format))
	}
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil {
		err = os.Rename(file.Name(), out.Path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return out, err
}

// tableWriter writes to a file, and counts and hashes the bytes.
type tableWriter struct {
	file         *os.File
	digest       hash.Hash
	bytes, lines int64
}

func (w *tableWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.digest.Write(p[:n])
	w.bytes += int64(n)
	w.lines += int64(bytes.Count(p[:n], []byte{'\n'}))
	return n, err
}

func (w *tableWriter) rows(format dataexport.Format) (int64, error) {
	if format == dataexport.JSONLines {
		return w.lines, nil
	}
	file, err := parquet.OpenFile(w.file, w.bytes)
	if err != nil {
		return 0, err
	}
	return file.NumRows(), nil
}

func (e *exportedData) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "table\trows\tbytes\tfile")
	for _, f := range e.Files {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", f.Table, f.Rows, f.Bytes, f.Path)
	}
	return t.Flush()
}
