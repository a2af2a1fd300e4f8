package compile_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
)

// Users' results have these keys, and a submitted experiment finds its run by the
// digest: neither may change unless a kind's version has risen, and then only that
// kind's keys and those that depend on them.
func TestExperimentsKeepTheirDigestsAndKeys(t *testing.T) {
	t.Parallel()
	for _, path := range globbed(t, "../../../examples/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml") + ".txt"
		t.Run("examples "+name, func(t *testing.T) {
			t.Parallel()
			taskstest.File(t, filepath.Join("testdata/examples", name), identities(t, fitted(t, path)))
		})
	}
	for _, path := range globbed(t, completeFiles...) {
		golden := strings.TrimSuffix(path, ".yaml") + ".txt"
		t.Run("complete "+filepath.Base(golden), func(t *testing.T) {
			t.Parallel()
			spec := fitted(t, path)
			taskstest.File(t, golden, append(identities(t, spec), spec.Canonical()...))
		})
	}
}

// completeFiles together have every field of an experiment. An audit may have its own in
// its folder.
var completeFiles = []string{"testdata/complete/*.yaml", "../../../tasks/audits/*/*/testdata/complete/*.yaml"}

// globbed are the files of patterns of which each has some.
func globbed(t *testing.T, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		all = append(all, paths...)
	}
	return all
}

// The digests stand beside the kinds' own tests; whether a kind has any is asked here,
// where all kinds are known.
func TestEveryKindHasGoldenBytes(t *testing.T) {
	t.Parallel()
	golden := make(map[string]bool)
	for _, pattern := range []string{"../../../tasks/*/testdata/golden.txt", "../../../tasks/*/*/testdata/golden.txt", "../../../tasks/*/*/*/testdata/golden.txt"} {
		paths := must.Get(filepath.Glob(pattern))(t)
		for _, path := range paths {
			text := must.Get(os.ReadFile(path))(t)
			for line := range strings.Lines(string(text)) {
				kind, _, _ := strings.Cut(line, " ")
				golden[kind] = true
			}
		}
	}
	for _, kind := range compile.Registry().Advertised() {
		if !golden[kind] {
			t.Errorf("%s has no golden digest: call taskstest.Golden in a test beside it, and run that with -rewrite", kind)
		}
		delete(golden, kind)
	}
	for kind := range golden {
		t.Errorf("%s has a golden digest, and no plan may hold it", kind)
	}
}

// fitted resolves an experiment file as if its data fitted it.
func fitted(t *testing.T, file string) *experiment.Spec {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	spec := must.Get(experiment.Parse(filepath.Base(file), text, experiment.Options{}))(t)
	facts := make([]experiment.Facts, len(spec.Cells))
	for i := range facts {
		must.Do(t, spec.Cells[i].Experiment.ListCanaryWords(strings.Fields("to be or not that is the question whether it nobler in mind suffer slings arrows of outrageous fortune take arms against a sea troubles and by opposing end them die sleep no more")))
		facts[i] = fitting()
		facts[i].Prepared = []experiment.Facts{fitting(), fitting()}
	}
	must.Do(t, spec.Resolve(facts))
	return spec
}

// fitting are facts of data that are large enough for every experiment here.
func fitting() experiment.Facts {
	return experiment.Facts{
		Files: []storage.Digest{storage.DigestOf([]byte("the text"))}, Users: 392_000, HeldOutUsers: 98_000, Examples: 93_000_000,
		DistinctWords: 500_000, TestExamples: 16_000_000, Unlabelled: 1,
		OfAudits: map[string][]storage.Digest{"audit.cross_modal.embeddings": {storage.DigestOf([]byte("the vectors"))}},
		Second: experiment.SecondFiles{
			experiment.BackgroundSource: {storage.DigestOf([]byte("the crowd"))},
			experiment.ProfilesSource:   {storage.DigestOf([]byte("the profiles"))},
		},
	}
}

// identities are the digests of an experiment and its cells, and for each kind how
// many nodes it has and a digest of their keys.
func identities(t *testing.T, spec *experiment.Spec) []byte {
	t.Helper()
	p := must.Get(compile.Plan(spec))(t)
	var out bytes.Buffer
	fmt.Fprintf(&out, "spec %s\n", spec.Digest())
	for i := range spec.Cells {
		fmt.Fprintf(&out, "cell %s %s\n", spec.Cells[i].Name, spec.Cells[i].Experiment.Digest())
	}
	keys, known := map[string][]storage.Key{}, compile.Registry()
	for key, n := range p.Nodes {
		if !known.Supports(n.Spec) {
			t.Errorf("no worker knows the kind %s of %s: add it to those of its package", n.Kind, n.Label)
		}
		kind := fmt.Sprintf("%s@%d", n.Kind, n.Version)
		keys[kind] = append(keys[kind], key)
	}
	for _, chain := range p.Chains {
		kind := fmt.Sprintf("chain of %s@%d", chain.Join.Kind.Name, chain.Join.Kind.Version)
		keys[kind] = append(keys[kind], endOf(chain))
	}
	for _, kind := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&out, "%s %d %s\n", kind, len(keys[kind]), digestOf(keys[kind]))
	}
	return out.Bytes()
}

// endOf is the key of a chain's last step, or of a near one where that is far.
func endOf(c *plan.Chain) storage.Key { return c.Key(min(c.Steps, 1000)) }

func digestOf(keys []storage.Key) storage.Key {
	slices.SortFunc(keys, storage.Key.Compare)
	h := tasks.NewHasher("keys")
	for _, key := range keys {
		h.Key(key)
	}
	return h.Sum()
}
