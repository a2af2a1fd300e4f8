// Command notices writes the licences of Go and of the modules that a release of coalmine links, for
// all platforms, each text once. It finds them next to the linked packages, in the module cache.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/build"
)

func main() {
	log.SetFlags(0)
	text := flag.String("text", "NOTICE", "write the text to this file")
	embedded := flag.String("embedded", "", "write it, compressed, to this file, too")
	flag.Parse()
	notice, err := write()
	if err == nil {
		err = os.WriteFile(*text, notice, 0o644)
	}
	if err == nil && *embedded != "" {
		err = os.WriteFile(*embedded, compressed(notice), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func compressed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = w.Write(text)                                  // memory
	_ = w.Close()
	return b.Bytes()
}

// linked maps the name and version of each module that is linked for a platform to its folders: its
// root, and those of the linked packages.
func linked(platform string) (map[string][]string, error) {
	system, processor, _ := strings.Cut(platform, "/")
	list := exec.Command("go", "list", "-deps", "-tags", build.ReleaseTags, "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", "coalmine/cmd/coalmine")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s: %w", platform, err)
	}
	modules := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if name, folders, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			root, folder, _ := strings.Cut(folders, "\t")
			modules[name] = append(modules[name], upTo(root, folder)...)
		}
	}
	return modules, nil
}

// upTo returns a folder and those above it, up to the root.
func upTo(root, folder string) []string {
	folders := []string{folder}
	for folder != root {
		folder = filepath.Dir(folder)
		folders = append(folders, folder)
	}
	return folders
}

// isLicense matches the names of files that licences require to be distributed, and of a folder of
// such files.
var isLicense = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|copyright|notice|third[-_]party)`)

// licences returns the paths of the licence files in folders.
func licences(folders []string) (files []string, err error) {
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			switch {
			case !isLicense.MatchString(e.Name()):
			case !e.IsDir():
				files = append(files, path)
			case strings.EqualFold(e.Name(), "third_party_licenses"):
				below, _ := filepath.Glob(filepath.Join(path, "*")) // the pattern is well formed
				files = append(files, below...)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// text is a licence with the modules that have it, as "example.com/m v1.0.0, LICENSE".
type text struct {
	content string
	of      []string
}

// write returns the notices for all platforms.
func write() ([]byte, error) {
	modules := map[string][]string{}
	for _, p := range build.Platforms {
		more, err := linked(p)
		if err != nil {
			return nil, err
		}
		for name, folders := range more {
			modules[name] = append(modules[name], folders...)
		}
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	modules["Go's runtime and standard library"] = []string{strings.TrimSpace(string(goroot))}
	texts, err := collect(modules)
	if err != nil {
		return nil, err
	}
	return format(len(modules), texts), nil
}

// collect returns the texts of all modules. Texts that differ only in white space count as one.
func collect(modules map[string][]string) ([]*text, error) {
	byWords := map[string]*text{}
	for name, folders := range modules {
		files, err := licences(folders)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no licence file in %s; expected one, as a release passes it on", name, folders)
		}
		root := slices.MinFunc(folders, func(a, b string) int { return len(a) - len(b) })
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			words := strings.Join(strings.Fields(string(content)), " ")
			if byWords[words] == nil {
				byWords[words] = &text{content: strings.Trim(strings.ReplaceAll(string(content), "\r", ""), "\n")}
			}
			inside, _ := filepath.Rel(root, file) // both are absolute
			byWords[words].of = append(byWords[words].of, name+", "+filepath.ToSlash(inside))
		}
	}
	var texts []*text
	for _, t := range byWords {
		slices.Sort(t.of)
		texts = append(texts, t)
	}
	slices.SortFunc(texts, func(a, b *text) int { return cmp.Compare(a.of[0], b.of[0]) })
	return texts, nil
}

func format(modules int, texts []*text) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "The binaries of Coalmine hold Go's standard library and %d modules of others, under these licences.\n"+
		"Each licence stands below the files that have it.\n", modules-1)
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(t.of, "\n"), t.content)
	}
	return b.Bytes()
}
