package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/examples"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/conversion"
	"coalmine/workflows/data/sources"
)

// finder finds the sources of an experiment file in a folder, and those of the examples in any.
func (g *global) finder(folder string) sources.Here {
	return sources.Here{Folder: folder, Library: g.library, Shipped: examples.Root, Advice: makeAdvice}
}

// makeAdvice says how the data of an example are made.
func makeAdvice(source string) string {
	for _, m := range examples.MadeData() {
		if m.File == path.Base(filepath.ToSlash(source)) {
			return fmt.Sprintf("; make it here by: coalmine data example %s", m.Example)
		}
	}
	return ""
}

// readExperiment reads an experiment file. One below examples that is not there is that of the program.
func (g *global) readExperiment(name string) ([]byte, error) {
	text, err := submission.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if shipped, missing := fs.ReadFile(examples.Root, path.Clean(filepath.ToSlash(name))); missing == nil {
			g.note("%s: no such file here; this is the example of the program", name)
			return shipped, nil
		}
	}
	return text, err
}

func newDataExampleCommand(g *global) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "example NAME",
		Short: "Make the data of an example that comes without them",
		Long: `Make the data of an example that comes without them, in the working directory, by a
program in Python that comes with the example. It needs python3 and no network.

The examples are ` + strings.Join(madeExamples(), ", ") + `.
Other examples come with their data, or say in their first lines where the data are.`,
		Example:   "  coalmine data example carlini-2019/table2-small\n  coalmine run examples/carlini-2019/table2-small.yaml",
		Args:      cobra.ExactArgs(1),
		ValidArgs: madeExamples(),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := examples.Find(args[0])
			if err != nil {
				return err
			}
			for _, m := range examples.MadeData() {
				if path.Join(examples.Folder, m.Example)+".yaml" == name {
					return g.makeData(c.Context(), m, force)
				}
			}
			return fmt.Errorf("%s: no program here makes its data: run it, or see its first lines for where its data are; expected one of %s", name, strings.Join(madeExamples(), ", "))
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return c
}

func madeExamples() (names []string) {
	for _, m := range examples.MadeData() {
		names = append(names, m.Example)
	}
	return names
}

// makeData writes the data of an example.
func (g *global) makeData(ctx context.Context, m examples.Made, force bool) error {
	if err := mayWriteFile(m.File, force); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "coalmine-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	data, err := fs.Sub(examples.Root, path.Join(examples.Folder, "data"))
	if err == nil {
		err = os.CopyFS(folder, data)
	}
	if err != nil {
		return err
	}
	out, err := conversion.Create(m.File)
	if err != nil {
		return err
	}
	defer out.Close()
	program := exec.CommandContext(ctx, "python3", m.Arguments...)
	var complaint strings.Builder
	program.Dir, program.Stdout, program.Stderr = folder, out, &complaint
	if err := program.Run(); err != nil {
		return fmt.Errorf("%s: python3 %s: %w\n%s", m.File, strings.Join(m.Arguments, " "), err, complaint.String())
	}
	if err := out.Commit(); err != nil {
		return err
	}
	g.note("wrote %s; now: coalmine run examples/%s.yaml", m.File, m.Example)
	if g.json {
		return g.printJSON(map[string]string{"file": m.File, "example": m.Example})
	}
	return nil
}

// mayWriteFile returns an error if a file is there and may not be replaced.
func mayWriteFile(file string, force bool) error {
	if _, err := os.Lstat(file); err == nil && !force {
		return fmt.Errorf("%s is there already; --force replaces it", file)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
