// Package docs holds the tests of these pages.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/clone"
	"coalmine/internal/must"
)

// root is that of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, ok := clone.Root()
	if !ok {
		t.Fatal("the pages are those of a clone, and this test runs in none")
	}
	return dir
}

// pages are all pages of the repository, by their paths from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	dir := root(t)
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (len(entry.Name()) > 1 && entry.Name()[0] == '.' || entry.Name() == "node_modules" || name == "shared"):
			return filepath.SkipDir // tools and their pages
		case filepath.Ext(name) == ".md":
			text, err := os.ReadFile(path)
			all[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil || all["docs/architecture.md"] == "" {
		t.Fatalf("%d pages below %s, and docs/architecture.md is none of them: %v", len(all), dir, err)
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	block   = regexp.MustCompile("(?s)```.*?```")
	notWord = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are those of a page's headings, as forges make them.
func anchors(page string) map[string]bool {
	found := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(block.ReplaceAllString(page, ""), -1) {
		text := notWord.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), "")
		found[strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

func TestLinksResolve(t *testing.T) {
	t.Parallel()
	dir, all := root(t), pages(t)
	for name, text := range all {
		for _, match := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			if strings.Contains(match[1], ":") {
				continue // another site
			}
			path, anchor, _ := strings.Cut(match[1], "#")
			target := name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", name, match[1], target)
			}
		}
	}
}

var (
	span    = regexp.MustCompile("`[^`\n]*`")
	formula = regexp.MustCompile(`(?s)\$\$(.+?)\$\$|\$([^$\n]+)\$`)
	escape  = regexp.MustCompile(`\\[[:punct:]]`)
)

// Markdown takes a backslash before punctuation for an escape.
func TestFormulasAreWellFormed(t *testing.T) {
	t.Parallel()
	n := 0
	for name, text := range pages(t) {
		text = span.ReplaceAllString(block.ReplaceAllString(text, ""), "")
		for _, f := range formula.FindAllString(text, -1) {
			n++
			if strings.Count(f, "{") != strings.Count(f, "}") || escape.MatchString(f) {
				t.Errorf("%s: %s has an open brace, or a backslash before punctuation", name, f)
			}
		}
		if _, after, found := strings.Cut(formula.ReplaceAllString(text, ""), "$"); found {
			t.Errorf("%s has a lone $ before %.80q", name, after)
		}
	}
	if n < 100 {
		t.Errorf("the test recognises only %d formulas", n)
	}
}

func TestTheIndexLinksToEveryPage(t *testing.T) {
	t.Parallel()
	all := pages(t)
	linked := map[string]bool{"docs/README.md": true}
	for _, match := range link.FindAllStringSubmatch(all["docs/README.md"], -1) {
		path, _, _ := strings.Cut(match[1], "#")
		linked[filepath.ToSlash(filepath.Join("docs", path))] = true
	}
	for name := range all {
		if strings.HasPrefix(name, "docs/") && !linked[name] {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

var (
	named = regexp.MustCompile("`((?:bench|cmd|dashboards|docs|examples|internal|models|privacy|scripts|storage|tasks|workers|workflows)/[\\w./-]+)`")
	walk  = regexp.MustCompile("`(\\w+)`\\s(?:\\([^`()]*\\)\\s)?(?:in\\s+|\\()`((?:cmd|dashboards|internal|models|privacy|storage|tasks|workers|workflows)/[\\w./-]+\\.go)`")
)

// The walks of architecture.md and the lists of extending.md name files and their
// declarations, and so must move with them.
func TestFilesNamedInPagesExist(t *testing.T) {
	t.Parallel()
	dir, all := root(t), pages(t)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/extending.md"} {
		for _, match := range named.FindAllStringSubmatch(all[name], -1) {
			if _, err := os.Stat(filepath.Join(dir, match[1])); err != nil {
				t.Errorf("%s names %s: %v", name, match[1], err)
			}
		}
		for _, match := range walk.FindAllStringSubmatch(all[name], -1) {
			code, err := os.ReadFile(filepath.Join(dir, match[2]))
			if err != nil {
				continue // told above
			}
			declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var |\t)` + regexp.QuoteMeta(match[1]) + `\b`)
			if !declared.Match(code) {
				t.Errorf("%s says that %s is in %s, which does not declare it", name, match[1], match[2])
			}
		}
	}
	if n := len(walk.FindAllString(all["docs/architecture.md"], -1)); n < 15 {
		t.Errorf("the test recognises only %d functions that architecture.md names in a file", n)
	}
}

// Comments cite invariants by number.
func TestCitedInvariantsAreListed(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(pages(t)["docs/architecture.md"], "\n## Invariants\n")
	list, _, _ = strings.Cut(list, "\n## ")
	listed := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^(\d+)\. \*\*`).FindAllStringSubmatch(list, -1) {
		listed[match[1]] = true
	}
	cited := regexp.MustCompile(`(?i)\binvariants? (\d+)`)
	n := 0
	err := filepath.WalkDir(root(t), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") {
			return skip(err)
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		code, err := os.ReadFile(path)
		for _, match := range cited.FindAllStringSubmatch(string(code), -1) {
			n++
			if !listed[match[1]] {
				t.Errorf("%s cites invariant %s, which docs/architecture.md does not list", path, match[1])
			}
		}
		return err
	})
	if err != nil || len(listed) != 9 || n < 8 {
		t.Errorf("%d invariants listed, %d cited: %v", len(listed), n, err)
	}
}

// skip leaves out a hidden directory, unless it is the way that failed.
func skip(err error) error {
	if err != nil {
		return err
	}
	return filepath.SkipDir
}

// The table of README.md is that of a kept output, which TestKeptOutputsMatchCommands compares with its
// command.
func TestTheTableOfTheReadmeIsAKeptOutput(t *testing.T) {
	t.Parallel()
	kept := must.Get(os.ReadFile(filepath.Join(root(t), "docs", "tutorials", "demo.txt")))(t)
	tables := regexp.MustCompile("(?s)```\n(setting .*?)```").FindAllStringSubmatch(pages(t)["README.md"], -1)
	if len(tables) != 1 || !strings.Contains(string(kept), tables[0][1]) {
		t.Errorf("README.md has %d tables; expected one, that of docs/tutorials/demo.txt: %q", len(tables), tables)
	}
}
