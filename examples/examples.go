// Package examples embeds the repository's folder examples: experiment files, their data, and the programs that
// make data.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"coalmine/internal/readable"
)

//go:embed *.yaml */*.yaml external data/*.gz data/*.jsonl data/*.json data/*.js data/*.py data/*.txt data/README.md
var files embed.FS

// Folder is the folder of the repository that the files are below.
const Folder = "examples"

// Root is a file system with the files of this package, named from the root of the repository.
var Root fs.FS = root{}

type root struct{}

// Open implements fs.FS.
func (root) Open(name string) (fs.File, error) {
	inner, ok := strings.CutPrefix(name, Folder)
	if inner = strings.TrimPrefix(inner, "/"); !ok || path.Join(Folder, inner) != name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return files.Open(path.Clean(inner))
}

// Names lists the experiment files, such as thakkar-2020/table-1-small.
func Names() (names []string) {
	_ = fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error { // an embed.FS has no errors
		if experiment, ok := strings.CutSuffix(name, ".yaml"); ok {
			names = append(names, experiment)
		}
		return err
	})
	return names
}

// Named returns the path in Root of the experiment file with this complete name, such as thakkar-2020/table-1-small
// or examples/thakkar-2020/table-1-small.yaml.
func Named(name string) (string, bool) {
	found := path.Join(Folder, trimmed(path.Clean(name))) + ".yaml"
	_, err := fs.Stat(Root, found)
	return found, err == nil
}

// Find returns the path of an experiment file in Root. The name may be a unique end of the path, such as
// table-1-small, and may omit hyphens if it stays unique: thakkar-2020/table1.
func Find(name string) (string, error) {
	var found []string
	for _, as := range []func(string) string{asIs, withoutHyphens} {
		if found = named(as(trimmed(name)), as); len(found) == 1 {
			return path.Join(Folder, found[0]) + ".yaml", nil
		} else if len(found) > 1 {
			return "", fmt.Errorf("example %q: several names end so: expected one of %s", name, strings.Join(found, ", "))
		}
	}
	if likely := Meant(name); likely != "" {
		return "", fmt.Errorf("example %q: there is none%s (coalmine data example lists them)", name, readable.DidYouMean(likely))
	}
	if inside := below(trimmed(name)); len(inside) > 0 {
		return "", fmt.Errorf("no example %q; expected one of\n  %s", name, strings.Join(inside, "\n  "))
	}
	return "", fmt.Errorf("no example %q; the nearest names are\n  %s\n(coalmine data example lists all %d)", name, strings.Join(nearest(trimmed(name)), "\n  "), len(Names()))
}

// Meant returns the example whose name, or last element, is most similar to a mistyped one; "" if none is similar.
func Meant(mistyped string) string {
	ends := map[string]string{}
	for _, n := range Names() {
		ends[n], ends[path.Base(n)] = n, n
	}
	return ends[readable.Nearest(trimmed(mistyped), slices.Sorted(maps.Keys(ends)))]
}

// below are the names in a folder.
func below(folder string) []string {
	return slices.DeleteFunc(Names(), func(n string) bool { return !strings.HasPrefix(n, folder+"/") })
}

// nearest returns the few names with the fewest edits from the wanted one, as a whole or at their end.
func nearest(name string) []string {
	edits := func(n string) int { return min(readable.Edits(name, n), readable.Edits(name, path.Base(n))) }
	names := Names()
	slices.SortStableFunc(names, func(a, b string) int { return edits(a) - edits(b) })
	return names[:min(5, len(names))]
}

// named returns the names equal to the wanted one or, if there are none, the names that end in it.
func named(wanted string, as func(string) string) (ends []string) {
	for _, n := range Names() {
		if as(n) == wanted {
			return []string{n}
		}
		if strings.HasSuffix(as(n), "/"+wanted) {
			ends = append(ends, n)
		}
	}
	return ends
}

func trimmed(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, Folder+"/"), ".yaml")
}

func asIs(name string) string { return name }

func withoutHyphens(name string) string { return strings.ReplaceAll(name, "-", "") }

// GeneratedData describes data that a program makes from the examples' data.
type GeneratedData struct {
	// Example is the experiment file that reads File from the working directory.
	Example, File string
	// Files below examples/data: the program in Python, and its arguments, the files that it reads.
	Files []string
}

var made = []GeneratedData{
	{"carlini-2019/table2-small", "secrets.jsonl", []string{"secrets.py", "state-of-the-union.jsonl.gz"}},
	{"orekondy-2018/table2-tags-small", "digit-pairs.jsonl.gz", []string{"digit_pairs.py", "handwriting.jsonl.gz"}},
	{"augenstein-2020/task6-small", "public.jsonl.gz", []string{"earlier.py", "state-of-the-union.jsonl.gz"}},
}

// Read reports whether an example reads a source of this name.
func Read(source string) bool {
	return slices.ContainsFunc(Names(), func(name string) bool {
		text, err := fs.ReadFile(Root, path.Join(Folder, name)+".yaml")
		return err == nil && strings.Contains(string(text), "source: "+source+"\n")
	})
}

// MadeData lists the data that programs make.
func MadeData() []GeneratedData { return slices.Clone(made) }
