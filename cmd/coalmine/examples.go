package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/clients/python"
	"coalmine/examples"
	"coalmine/internal/childprocess"
	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
)

// finder finds the sources of an experiment file in its folder, and the sources of examples from
// any folder.
func (g *global) finder(folder string) notingFinder {
	return notingFinder{sources.LocalFinder{Folder: folder, Library: g.library, Shipped: shipped{}, Advice: makeAdvice}, g}
}

// notingFinder names each large source, once, before a command reads it.
type notingFinder struct {
	sources.LocalFinder
	global *global
}

// largeSource is the size in bytes of a source that takes some seconds to read.
const largeSource = 32 << 20

// Find implements sources.Finder.
func (f notingFinder) Find(ctx context.Context, name, digest string) (*sources.Source, error) {
	source, err := f.LocalFinder.Find(ctx, name, digest)
	if err != nil {
		return nil, err
	}
	var size int64
	for _, file := range source.Files {
		size += file.Size
	}
	if size >= largeSource {
		if _, noted := f.global.largeNoted.LoadOrStore(name, true); !noted {
			f.global.note("reading %s (%s)", name, bytesText(float64(size)))
		}
	}
	return source, nil
}

// shipped is the file system embedded in the program: the examples, and the trainer in PyTorch.
type shipped struct{}

// Open implements fs.FS.
func (shipped) Open(name string) (fs.File, error) {
	if below, ok := strings.CutPrefix(name, experiment.TrainerCode); ok {
		return python.Trainer.Open(path.Join(".", below))
	}
	return examples.Root.Open(name)
}

// makeAdvice explains how to make or get the data of an example.
func makeAdvice(source string) string {
	for _, m := range examples.MadeData() {
		if m.File == path.Base(filepath.ToSlash(source)) {
			return fmt.Sprintf("; to make it here: coalmine data example %s", m.Example)
		}
	}
	if examples.Read(source) {
		return "; this data is not included, see docs/data.md"
	}
	return ""
}

// readExperiment reads an experiment file. If no file has the name, it may name an example:
// examples/quickstart.yaml, or quickstart. found is the path of the file, including its folder.
func (g *global) readExperiment(name string) (found string, text []byte, err error) {
	text, err = submission.ReadFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, text, err
	}
	if shipped, ok := examples.Named(filepath.ToSlash(name)); ok {
		g.note("%s: no such file; using the example in the program", name)
		text, err = fs.ReadFile(examples.Root, shipped)
		return shipped, text, err
	}
	hint := "; coalmine init writes a first file, coalmine data example lists the examples"
	example, _ := examples.Find(filepath.ToSlash(name)) // "" if none has the name
	likely := cmp.Or(fileLike(name), example, examples.Meant(filepath.ToSlash(name)))
	return name, nil, fmt.Errorf("%w, and no example has this name%s%s", err, hint, readable.DidYouMean(likely))
}

// fileLike returns an experiment file in the folder of name: the file that differs from name only in its extension,
// or else the file with the most similar name, or "".
func fileLike(name string) string {
	folder, base := filepath.Split(name)
	entries, _ := os.ReadDir(cmp.Or(folder, ".")) // no folder has no files
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			if strings.TrimSuffix(e.Name(), ext) == strings.TrimSuffix(base, filepath.Ext(base)) {
				return folder + e.Name()
			}
			names = append(names, e.Name())
		}
	}
	if likely := readable.Nearest(base, names); likely != "" {
		return folder + likely
	}
	return ""
}

func newDataExampleCommand(g *global) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "example [NAME]",
		Short: "Make the data of an example, or list the examples",
		Long: `Make the data of an example that comes without them, in the working directory, by a
program in Python that comes with the example. It needs python3 and no network.

The examples are

  ` + strings.Join(madeExamples(), "\n  ") + `

Other examples come with their data, or name its source in their first lines.
Without NAME the command lists the names of all examples; coalmine run accepts them.`,
		Example:   "  coalmine data example carlini-2019/table2-small\n  coalmine run examples/carlini-2019/table2-small.yaml",
		ValidArgs: madeExamples(),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return g.report(map[string][]string{"examples": examples.Names()}, "%s\n", strings.Join(examples.Names(), "\n"))
			}
			made, err := findMade(args[0])
			if err != nil {
				return err
			}
			return g.makeData(c.Context(), made, force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return c
}

// findMade finds the example whose data a program makes.
func findMade(name string) (examples.GeneratedData, error) {
	found, err := examples.Find(name)
	if err != nil {
		return examples.GeneratedData{}, err
	}
	for _, m := range examples.MadeData() {
		if shipped, _ := examples.Named(m.Example); shipped == found {
			return m, nil
		}
	}
	return examples.GeneratedData{}, fmt.Errorf("%s: its data are not generated; run it, or see its first lines for the source of its data; expected one of %s", found, strings.Join(madeExamples(), ", "))
}

func madeExamples() []string {
	return lists.Map(examples.MadeData(), func(m examples.GeneratedData) string { return m.Example })
}

func (g *global) makeData(ctx context.Context, m examples.GeneratedData, force bool) error {
	if err := mayWriteFile(m.File, force); err != nil {
		return err
	}
	w, err := childprocess.NewWorkspace()
	if err != nil {
		return err
	}
	defer w.Remove()
	if err := runMaker(ctx, w, m); err != nil {
		return fmt.Errorf("%s: python3 %s: %w", m.File, strings.Join(m.Files, " "), err)
	}
	if err := compressFile(filepath.Join(w.Path(), madeFile), m.File); err != nil {
		return err
	}
	g.note("wrote %s; now: coalmine run examples/%s.yaml", m.File, m.Example)
	if g.json {
		return g.printJSON(map[string]string{"file": m.File, "example": m.Example})
	}
	return nil
}

// madeFile is the output file of a program that makes data.
const madeFile = "made"

// runMaker runs the program that makes data in a workspace with its input files.
func runMaker(ctx context.Context, w *childprocess.Workspace, m examples.GeneratedData) error {
	for _, name := range m.Files {
		data, err := fs.ReadFile(examples.Root, path.Join(examples.Folder, "data", name))
		if err == nil {
			err = w.Put(name, data)
		}
		if err != nil {
			return err
		}
	}
	line := "python3 " + strings.Join(m.Files, " ") + " >" + madeFile
	program, err := childprocess.Command{Args: childprocess.Shell(line), Dir: w.Path(), Write: []string{w.Path()}, Quiet: true}.Start()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { program.Terminate(context.Cause(ctx)) })()
	if err := program.Close(); err != nil {
		return &childprocess.FailedError{Err: err, Lines: program.LastLines()}
	}
	return nil
}

// compressFile copies a file to another name, compressed according to its extension.
func compressFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = written(to, func(out io.Writer) (*int64, error) {
		n, err := io.Copy(out, in)
		return &n, err
	})
	return err
}

// mayWriteFile returns an error if the file exists and may not be replaced.
func mayWriteFile(file string, force bool) error {
	if _, err := os.Lstat(file); err == nil && !force {
		return fmt.Errorf("%s already exists; --force replaces it", file)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
