package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"coalmine/examples"
	"coalmine/workflows/experiment"
	"coalmine/workflows/standalone/starter"
)

// copyExample makes an experiment file from an example.
func (g *global) copyExample(ctx context.Context, f *initFlags, out *outputs) error {
	if err := refuseFlags(f.set, []string{"data", "form", "column", "algorithm", "private", "time", "trainer"}, "--%s and --like: expected one of them, because an example determines its data and training"); err != nil {
		return err
	}
	name, err := examples.Find(f.like)
	if err != nil {
		return err
	}
	shipped, err := fs.ReadFile(examples.Root, name)
	if err != nil {
		return err
	}
	text := anywhere(string(shipped), path.Dir(name))
	if out.experiment != "-" {
		text = strings.ReplaceAll(text, name, out.experiment)
	}
	if f.set.Changed("seed") {
		text = setLine(text, "seed", fmt.Sprint(f.seed))
	}
	if f.name != "" {
		text = setLine(text, "name", f.name)
	}
	out.text = []byte(starter.EditorLine + text)
	return g.noteMissing(ctx, out, strings.TrimSuffix(name, ".yaml"))
}

var (
	placeField = regexp.MustCompile(`\b(source|code): ([^\s,}]+)`)
	nameLine   = regexp.MustCompile(`(?m)^name: .*\n`)
)

// anywhere names embedded data by their paths below examples, which resolve from any folder.
func anywhere(text, folder string) string {
	return placeField.ReplaceAllStringFunc(text, func(field string) string {
		key, place, _ := strings.Cut(field, ": ")
		below := path.Join(folder, place)
		if _, err := fs.Stat(examples.Root, below); err != nil {
			return field
		}
		return key + ": " + below
	})
}

// setLine sets a top-level field; a new field follows the name.
func setLine(text, field, value string) string {
	line := field + ": " + value + "\n"
	if old := regexp.MustCompile(`(?m)^` + field + `: .*\n`); old.MatchString(text) {
		return old.ReplaceAllLiteralString(text, line)
	}
	return nameLine.ReplaceAllString(text, "${0}"+line)
}

// noteMissing checks an example, and notes its missing data.
func (g *global) noteMissing(ctx context.Context, out *outputs, example string) error {
	spec, err := experiment.Parse(out.experiment, out.text, experiment.Options{})
	if err != nil {
		return err
	}
	finder, known := g.finder(filepath.Dir(out.experiment)).LocalFinder, map[string]bool{}
	for _, c := range spec.Cells {
		source := c.Experiment.Data.Source
		if known[source] {
			continue
		}
		known[source] = true
		if _, err := finder.Find(ctx, source, ""); err != nil {
			out.notes = append(out.notes, "first: "+err.Error()+smaller(example))
		}
	}
	return nil
}

// smaller returns a hint at the variant of an example that includes its data, or "".
func smaller(example string) string {
	if _, err := fs.Stat(examples.Root, example+"-small.yaml"); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf("; --like %s-small needs none", strings.TrimPrefix(example, examples.Folder+"/"))
}
