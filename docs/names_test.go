package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
)

var (
	quoted = regexp.MustCompile("`([^`\n]+)`")
	// ofCode is an exported name of Go, alone or after its package or its type.
	ofCode = regexp.MustCompile(`^(?:\(?\*?\w+\)?\.)?([A-Z]\w*[a-z]\w*)(?:\(\))?$`)
)

// The pages for those who change the code name its types, functions and fields. A name that is
// declared nowhere any more is a mistake of the page.
func TestNamesOfCodeInPagesAreDeclared(t *testing.T) {
	t.Parallel()
	declared := declaredNames(t)
	declared["Long"] = true // of a command of cobra
	found := 0
	for _, page := range []string{"docs/architecture.md", "docs/extending.md", "docs/storage.md", "CONTRIBUTING.md"} {
		text := must.Get(os.ReadFile(filepath.Join(root(t), page)))(t)
		for _, match := range quoted.FindAllStringSubmatch(string(text), -1) {
			name := ofCode.FindStringSubmatch(match[1])
			if name == nil {
				continue
			}
			found++
			if !declared[name[1]] {
				t.Errorf("%s names `%s`, which no Go file declares", page, match[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("%d names of code found; expected 50 at least, or this test sees none", found)
	}
}

// declaredNames returns the names of functions, methods, types, fields, constants and variables.
func declaredNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	must.Do(t, filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root(t) && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.Field:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
			return true
		})
		return nil
	}))
	return names
}
