package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/storage"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// mutatedRecords is how many records make check tries; make test tries fewer.
const mutatedRecords = 10_000

// Records come from anybody. One with wrong values is refused or compiled; it never panics.
func TestNoMutatedRecordPanics(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	files := exampleFiles(t)
	each := mutatedRecords/len(files) + 1
	if !taskstest.Whole() {
		r.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		files, each = files[:15], 15
	}
	group := goroutines.NewGroup()
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, file := range files {
		seed := r.Uint64()
		group.Go(func() error { return mutateRecord(t, file, each, rand.New(rand.NewPCG(seed, 0))) })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// A record that once ended serve: an alphabet that is none, beside a format and a prefix.
func TestRecordWithUnknownAlphabetIsRejected(t *testing.T) {
	t.Parallel()
	const file = `{name: x, data: {source: a.jsonl, level: byte}, canaries: {format: "my number is ####", alphabet: digits, insertions: [1]},
		training: {rounds: 1, cohort: 4}, audit: {random_sampling: {references: 100, prefix: 13}}}`
	document := recordOf(t, "x.yaml", []byte(file), 0)
	if err := check(document); err != nil {
		t.Fatalf("the record as it is: %v", err)
	}
	err := check([]byte(strings.Replace(string(document), `"digits"`, `"(a|b)*"`, 1)))
	if err == nil || goroutines.IsPanic(err) || !strings.Contains(err.Error(), "canaries.alphabet") {
		t.Errorf("got %v, want an error that names canaries.alphabet", err)
	}
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob("../../examples/*.yaml")
	more, _ := filepath.Glob("../../examples/*/*.yaml")
	if files = append(files, more...); len(files) == 0 {
		t.Fatal("no examples")
	}
	return files
}

// mutateRecord tries mutations of the record of a cell of an example.
func mutateRecord(t *testing.T, file string, times int, r *rand.Rand) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	document := recordOf(t, file, data, r.IntN(1000))
	if err := check(document); err != nil {
		t.Errorf("%s: the record as it is: %v", file, err)
	}
	for range times {
		mutated := mutate(document, r)
		begun := time.Now()
		err := check(mutated)
		if p, ok := errors.AsType[*goroutines.Panic](err); ok {
			t.Errorf("%s: %v\n%s\n%s", file, err, p.Stack, mutated)
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("%s: took %v\n%s", file, took, mutated)
		}
	}
	return nil
}

// check handles a record as one that is posted, and shows one that is accepted.
func check(document []byte) error {
	return goroutines.Recover(func() error {
		spec := runs.Spec{Experiment: document}
		if s, err := experiment.ReadSpec(document); err == nil {
			spec.Name, spec.Experiment = s.Name, s.Canonical()
		}
		spec.Digest = storage.DigestOf(spec.Experiment)
		e, err := checkRecord(&spec)
		if err != nil {
			return err
		}
		for i := range e.Cells {
			e.Cells[i].Warnings()
			e.Cells[i].Experiment.Measured()
		}
		e.FalseAlarms()
		_, err = e.YAML()
		return err
	})
}

// recordOf is the record of one cell of a file, with digests and rounds as if its data had been
// read.
func recordOf(t *testing.T, name string, file []byte, cell int) []byte {
	t.Helper()
	spec, err := experiment.Parse(name, file, experiment.Options{})
	if err != nil {
		t.Error(err)
		return nil
	}
	alone, err := spec.Cells[cell%len(spec.Cells)].Experiment.YAML()
	if err == nil {
		spec, err = experiment.Parse(name, alone, experiment.Options{})
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	var tree any
	if err := json.Unmarshal(spec.Canonical(), &tree); err != nil {
		t.Error(err)
		return nil
	}
	eachValue(tree, func(p place) {
		block, ok := p.value().(map[string]any)
		if _, named := block["source"]; ok && named {
			block["sha256"] = storage.DigestOf(nil).String()
		}
		if _, counted := block["epochs"]; counted && p.key == "training" {
			block["rounds"] = 10_000
		}
	})
	return marshal(t, tree)
}

func marshal(t *testing.T, tree any) []byte {
	data, err := json.Marshal(tree)
	if err != nil {
		t.Error(err)
	}
	return data
}

// place is the position of a value in a tree: in a map or in a list.
type place struct {
	in   map[string]any
	key  string
	list []any
	at   int
}

func (p place) value() any {
	if p.in != nil {
		return p.in[p.key]
	}
	return p.list[p.at]
}

func (p place) set(value any) {
	if p.in != nil {
		p.in[p.key] = value
	} else {
		p.list[p.at] = value
	}
}

// eachValue visits the values below one in a fixed order.
func eachValue(value any, visit func(place)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			visit(place{in: value, key: key})
			eachValue(value[key], visit)
		}
	case []any:
		for i := range value {
			visit(place{list: value, at: i})
			eachValue(value[i], visit)
		}
	}
}

// mutate changes one to three values of a document: to another value, to that of another field,
// or to none.
func mutate(document []byte, r *rand.Rand) []byte {
	var tree any
	if json.Unmarshal(document, &tree) != nil {
		return document
	}
	for range 1 + r.IntN(3) {
		var places []place
		eachValue(tree, func(p place) { places = append(places, p) })
		if len(places) == 0 {
			break
		}
		p, other := places[r.IntN(len(places))], places[r.IntN(len(places))]
		switch r.IntN(6) {
		case 0:
			delete(p.in, p.key)
		case 1:
			p.set(copyOf(other.value()))
		case 2:
			p.set([]any{p.value(), copyOf(other.value())})
		default:
			p.set(copyOf(mutants[r.IntN(len(mutants))](fmt.Sprint(p.value()))))
		}
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return document
	}
	return data
}

// copyOf keeps a tree from holding itself, and trees from sharing values.
func copyOf(value any) any {
	var out any
	data, _ := json.Marshal(value)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	_ = d.Decode(&out)
	return out
}

// mutants make another value of the text of one.
var mutants = func() []func(string) any {
	var all []func(string) any
	for _, value := range []any{
		nil, true, "", "x", "\x00", "1/3", "100%", "1/18446744073709551615", "../x", "(a|b)*", "a # b ##", strings.Repeat("#", 100),
		0, 1, -1, 0.5, 5, 1000, 1e6, 1e9, 1e15, 1e300, 5e-324, json.Number("9223372036854775807"), json.Number("18446744073709551615"),
		[]any{}, []any{nil}, map[string]any{}, map[string]any{"x": 1}, []any{1, 2, 3}, slices.Repeat([]any{0.5}, 1000),
	} {
		all = append(all, func(string) any { return value })
	}
	return append(all,
		func(old string) any { return old + "x" },
		func(old string) any { return strings.ToUpper(old) },
		func(old string) any { return old[:len(old)/2] },
		func(old string) any { return old + " " + old },
		func(old string) any { return []any{old, old} },
	)
}()
