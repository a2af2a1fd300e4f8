package audits_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
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

// Three of ten canaries are memorized.
func ExampleNewShare() {
	share := audits.NewShare(3, 10)
	fmt.Printf("%.1f (%.3f to %.3f)\n", share.Share, share.Low, share.High)
	// Output: 0.3 (0.067 to 0.652)
}

// Are three of ten fewer than nine of ten? Fisher's exact test.
func ExampleDiffer() {
	fmt.Printf("%.4f\n", audits.Differ(audits.NewShare(3, 10), audits.NewShare(9, 10)))
	// Output: 0.0198
}

// Scores of members and of others: the two-sided test of Mann and Whitney.
func ExampleMannWhitney() {
	p, err := audits.MannWhitney([]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8})
	fmt.Printf("%.4f %v\n", p, err)
	// Output: 0.0286 <nil>
}

// The probability that more than 1 of 10 canaries look memorized by chance, 1 in 100 each.
func ExampleBinomialTail() {
	fmt.Printf("%.5f\n", audits.BinomialTail(1, 10, 0.01))
	// Output: 0.00427
}
