package audits_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// maxInterfaces is how many interfaces the reader of an audit may have to know.
const maxInterfaces = 12

// The package comment is the map of the package: it names every interface that an audit may
// implement or use.
func TestThePackageCommentNamesAllInterfaces(t *testing.T) {
	t.Parallel()
	var about string
	var interfaces []string
	files := must.Get(filepath.Glob("*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
		about += file.Doc.Text()
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					interfaces = append(interfaces, spec.Name.Name)
				}
			}
			return true
		})
	}
	for _, name := range interfaces {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(about) {
			t.Errorf("the package comment does not name the interface %s", name)
		}
	}
	if n := len(interfaces); n == 0 || n > maxInterfaces {
		t.Errorf("%d interfaces: %v; expected at most %d", n, interfaces, maxInterfaces)
	}
}
