package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

// wrongValues are the mistakes that people make in place of a value.
func wrongValues(old any) []any {
	wrong := []any{
		nil, "", "x", []any{}, map[string]any{}, 0, -1, 1, 1e300, 0.5, true, []any{nil}, map[string]any{"x": 1},
		9223372036854775807, 100_000_000, 5, "words", "100%", "a # b ##", "1/3", "\u0000", "../x",
	}
	if text, ok := old.(string); ok && len(text) < 200 {
		wrong = append(wrong, text+"x", strings.ToUpper(text), text[:len(text)/2], text+" "+text, []any{text, text})
	}
	return wrong
}

// typo is one wrong value in an example.
type typo struct {
	file, path string
	wrong      any
	text       []byte
}

// eachTypo does something with every wrong value of every example that is chosen: once for a
// field and the value that it replaces.
func eachTypo(t *testing.T, chosen func() bool, do func(typo)) {
	t.Helper()
	done := map[string]bool{}
	must.Do(t, filepath.WalkDir("../../examples", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var ps problems
		root := parseYAML(file, data, &ps)
		if root == nil {
			return ps.err(0)
		}
		tree := root.plain()
		eachValue(tree, "", func(path string, set func(any), old any) {
			for i, wrong := range wrongValues(old) {
				id := fmt.Sprintf("%s %d %.6s", path, i, fmt.Sprint(old))
				if done[id] {
					continue
				}
				done[id] = true
				if !chosen() {
					continue
				}
				set(wrong)
				text := must.Get(json.Marshal(tree))(t)
				do(typo{file, path, wrong, text})
			}
			set(old)
		})
		return nil
	}))
}

// eachValue visits the values below one in a fixed order.
func eachValue(value any, path string, visit func(path string, set func(any), old any)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			old := value[key]
			visit(join(path, key), func(x any) { value[key] = x }, old)
			eachValue(old, join(path, key), visit)
		}
	case []any:
		for i, old := range value {
			visit(path, func(x any) { value[i] = x }, old)
			eachValue(old, path, visit)
		}
	}
}

// A wrong value is reported at its place, and fields that depend on it are not
// reported too.
func TestOneWrongValueInAnExampleIsOneMistake(t *testing.T) {
	t.Parallel()
	sample := rand.New(rand.NewPCG(1, 2))
	group := goroutines.NewGroup()
	group.SetLimit(runtime.GOMAXPROCS(0))
	eachTypo(t, func() bool { return taskstest.Whole() || sample.IntN(100) == 0 }, func(x typo) {
		group.Go(func() error { x.check(t); return nil })
	})
	must.Do(t, group.Wait())
}

// check parses a file with a typo. A value that the field itself refuses must be the one mistake.
func (x *typo) check(t *testing.T) {
	t.Helper()
	begun := time.Now()
	_, err := Parse(filepath.Base(x.file), x.text, Options{MaxCells: 200})
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("%s: %s = %v takes %v", x.file, x.path, x.wrong, took)
	}
	var mistakes *Error
	if !errors.As(err, &mistakes) {
		if err != nil {
			t.Errorf("%s: %s = %v: %v", x.file, x.path, x.wrong, err)
		}
		return
	}
	if !x.refused() || x.wrong == nil { // without a field, others have other defaults
		return
	}
	for _, p := range mistakes.Problems {
		if p.Path != "grid" && !within(p.Path, x.path) && !within(x.path, p.Path) {
			t.Errorf("%s: %s = %v is also reported as %s", x.file, x.path, x.wrong, p)
		}
	}
}

// refused reports whether the field takes no such value, in any context.
func (x *typo) refused() bool {
	f, known := lookup(x.path)
	if !known {
		return false
	}
	data, _ := json.Marshal(x.wrong)
	n, err := nodeOf(data, "")
	if err != nil {
		return false
	}
	var ps problems
	d := newDecoder(&ps)
	d.value(n, reflect.New(f.typ).Elem(), &f, x.path)
	return slices.Contains(d.bad, x.path)
}
