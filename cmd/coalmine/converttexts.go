package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"coalmine/internal/readable"
	"coalmine/tasks/datasets/forms"
	"coalmine/workflows/data/conversion"
)

func newConvertTexts(g *global) *cobra.Command {
	var files conversion.TextFiles
	var to, unit string
	c := &cobra.Command{
		Use:   "texts FOLDER",
		Short: "Text files: a folder, or a file, for each user",
		Long: `Convert a folder of texts: a folder for each user, with text files at any depth, or a file
for each user. Users are named by folder, or by file without its ending. An example is a
line, a paragraph (ended by empty lines) or a file. Files are read in byte order of their
paths; hidden ones are skipped.

A folder of .txt files needs no conversion: it is a source.`,
		Example: "  coalmine data convert texts novels/ --unit paragraph -o novels.jsonl.zst",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files.Folder, files.Unit = args[0], forms.Unit(unit)
			if !files.Unit.Known() {
				return fmt.Errorf("--unit %q: expected one of %v", unit, files.Unit.Choices())
			}
			return g.convertTexts(files, to)
		},
	}
	f := c.Flags()
	f.StringVarP(&to, "output", "o", "", "file to write (required)")
	f.StringVar(&files.Ending, "ending", ".txt", "ending of the files to read")
	f.StringVar(&unit, "unit", string(forms.Lines), "example: line, paragraph or file")
	f.BoolVar(&files.SkipCorrupt, "skip-corrupt", false, "skip and count examples that are not UTF-8")
	return c
}

// convertTexts writes the file completely or not at all.
func (g *global) convertTexts(files conversion.TextFiles, to string) error {
	if err := checkOutput(to); err != nil {
		return err
	}
	out, err := conversion.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // no effect after Commit
	found, err := conversion.Texts(files, out)
	if err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	if g.json {
		return g.printJSON(found)
	}
	g.printf("%s: %s of %s in %s\n", to, readable.Count(found.Examples, "example"), readable.Count(found.Users, "user"), readable.Count(found.Files, "file"))
	if found.Empty > 0 {
		g.printf("users without text, who are left out: %d\n", found.Empty)
	}
	g.printSkipped("examples", found.Skipped, found.FirstSkipped)
	return nil
}
