package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/retention"
	"coalmine/workflows/runs/status"
)

// stores are those that testdata/stores/README.md tells of.
const stores = "testdata/stores"

// keptRun is the finished run of each, halfRun the one that was cancelled after some rounds.
const (
	keptRun = "tiny-2f797c23"
	halfRun = "half-fe8f6f5b"
)

// keptModels are the digests of the models that the cells of keptRun export.
var keptModels = map[string]string{
	"c01": "857f09d18973319b5ce4a9379231433aa0251aa8bede9dcdbc97934ec0f27d14",
	"c02": "b6c5ea1db254dc1304f72f963a1db5062c7379181a8e3ac1cfd7784ad65ced14",
}

// keptStore unpacks a store into a home of its own.
type keptStore struct {
	t    *testing.T
	home string
}

func openKept(t *testing.T, name string) *keptStore {
	t.Helper()
	s := &keptStore{t, filepath.Join(t.TempDir(), "home")}
	packed := must.Get(os.Open(filepath.Join(stores, name)))(t)
	defer packed.Close()
	unzip := must.Get(gzip.NewReader(packed))(t)
	for files := tar.NewReader(unzip); ; {
		h, err := files.Next()
		if err == io.EOF {
			return s
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			err = s.unpack(h.Name, files)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *keptStore) unpack(name string, from io.Reader) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.path(name), data, 0o600)
}

func (s *keptStore) path(name string) string { return filepath.Join(s.home, "store", name) }

// prints runs a command on the store, which must succeed.
func (s *keptStore) prints(args ...string) string {
	s.t.Helper()
	return prints(s.t, append(args, "--home", s.home)...)
}

// decoded holds the output of a command with --json.
func decoded[V any](s *keptStore, args ...string) V {
	s.t.Helper()
	var v V
	if err := json.Unmarshal([]byte(s.prints(append(args, "--json")...)), &v); err != nil {
		s.t.Fatalf("coalmine %s: %v", args, err)
	}
	return v
}

// rewriteSpec changes the experiment in a run's record.
func (s *keptStore) rewriteSpec(change func(experiment string) string) {
	s.t.Helper()
	name := s.path("runs/" + keptRun + "/spec")
	data := must.Get(os.ReadFile(name))(s.t)
	var spec runs.Spec
	must.Do(s.t, json.Unmarshal(data, &spec))
	changed := change(string(spec.Experiment))
	if changed == string(spec.Experiment) {
		s.t.Fatal("nothing was changed")
	}
	spec.Experiment, spec.Digest = runs.Document(changed), storage.DigestOf([]byte(changed))
	data = must.Get(json.Marshal(spec))(s.t)
	must.Do(s.t, os.WriteFile(name, data, 0o600))
}

// files are the objects of the store.
func (s *keptStore) files() map[string]bool {
	s.t.Helper()
	found := make(map[string]bool)
	must.Do(s.t, fs.WalkDir(os.DirFS(filepath.Join(s.home, "store")), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path, "leader/") && !strings.HasPrefix(path, "~") {
			found[path] = true
		}
		return err
	}))
	return found
}

// within reports where a JSON value lacks something that another has: fields may have been added.
func within(path string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		found, _ := got.(map[string]any)
		for name, value := range want {
			if err := within(path+"."+name, value, found[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		found, _ := got.([]any)
		if len(found) != len(want) {
			return fmt.Errorf("%s has %d items, want %d", path, len(found), len(want))
		}
		for i := range want {
			if err := within(fmt.Sprintf("%s[%d]", path, i), want[i], found[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if want != got {
		return fmt.Errorf("%s is %v, want %v", path, got, want)
	}
	return nil
}

func (s *keptStore) wantResults() {
	s.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(stores, "tiny.json")))(s.t)
	var want any
	must.Do(s.t, json.Unmarshal(text, &want))
	if err := within("results", want, decoded[any](s, "results", keptRun)); err != nil {
		s.t.Error(err)
	}
}

func (s *keptStore) wantModels() {
	s.t.Helper()
	for cell, want := range keptModels {
		file := filepath.Join(s.t.TempDir(), cell)
		if got := decoded[exportedModel](s, "export", keptRun, cell, "-o", file); got.SHA256.String() != want {
			s.t.Errorf("the model of %s has digest %s, want %s", cell, got.SHA256, want)
		}
	}
}

// wantDone has the run done, with its cells.
func (s *keptStore) wantDone(run string, cells int) {
	s.t.Helper()
	all := decoded[struct{ Runs []status.Run }](s, "status")
	for _, r := range all.Runs {
		if r.Run != run {
			continue
		}
		if r.Phase != runs.Done || len(r.Cells) != cells || r.Cells[0].Phase != runs.Done {
			s.t.Errorf("status of %s: %s, cells %+v", run, r.Phase, r.Cells)
		}
		return
	}
	s.t.Errorf("status knows no run %s", run)
}

// wantSame executes all nodes again. A kind that this build has in another version cannot be
// executed, which has to be said.
func (s *keptStore) wantSame() {
	s.t.Helper()
	var out, messages bytes.Buffer
	execute(s.t.Context(), []string{"verify", keptRun, "--all", "--json", "--home", s.home}, &out, &messages)
	var got verified
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Nodes) < 50 {
		s.t.Fatalf("verify: %v, %d nodes\n%s", err, len(got.Nodes), &messages)
	}
	for _, n := range got.Nodes {
		other := n.Verdict == localexec.Failed && strings.Contains(n.Why, "this build has no kind") && strings.Contains(n.Why, "the version that committed it")
		if n.Verdict != localexec.Same && n.Verdict != localexec.Incomparable && !other {
			s.t.Errorf("%s (%s) is %s: %s", n.Label, n.Kind, n.Verdict, n.Why)
		}
	}
}

// collect deletes every object that no run needs, however young.
func (s *keptStore) collect() retention.Result {
	s.t.Helper()
	return decoded[retention.Result](s, "gc", "--older", "0s")
}

// serves has all of the finished run be there, before a collection and after one that has
// something to delete.
func (s *keptStore) serves() {
	s.t.Helper()
	s.wantDone(keptRun, 2)
	s.wantResults()
	s.wantModels()
	s.prints("rm", halfRun)
	if got := s.collect(); len(got.Held) > 0 || got.Collected[storage.CommitObject].Objects == 0 {
		s.t.Errorf("collected %+v, held %v; want the commits of the run that was removed", got.Total(), got.Held)
	}
	s.wantResults()
	s.wantModels()
	s.wantSame()
}

// beforeFormats has no records of plans: its run is served as long as this build gives it the keys
// of then.
const beforeFormats = "before-formats.tar.gz"

// keepsWhole reports whether a collection does not know the needs of the finished run, and checks
// that it then deletes nothing.
func (s *keptStore) keepsWhole() bool {
	s.t.Helper()
	got := decoded[retention.Result](s, "gc", "--dry-run", "--older", "0s")
	if len(got.Held) > 0 && got.Total().Objects > 0 {
		s.t.Errorf("would go %+v, although held are %v", got.Total(), got.Held)
	}
	return len(got.Held) > 0
}

// Stores of earlier builds open, show their runs, and continue them.
func TestStoresOfEarlierBuildsOpen(t *testing.T) {
	t.Parallel()
	packed, err := filepath.Glob(filepath.Join(stores, "*.tar.gz"))
	if err != nil || len(packed) < 2 {
		t.Fatalf("stores %v, %v", packed, err)
	}
	for _, path := range packed {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openKept(t, name)
			if name == beforeFormats && s.keepsWhole() {
				return // a kind has another version since, and no plan was recorded
			}
			openKept(t, name).serves()
			s.prints("resume", halfRun)
			s.prints("run", filepath.Join(stores, "half.yaml"))
			s.wantDone(halfRun, 1)
			s.wantResults()
		})
	}
}

// A build that would compute the experiment differently serves the computed results, since the
// plan is recorded with the run. The seed stands for any change that gives other keys.
func TestFinishedRunIsServedUnderOtherKeys(t *testing.T) {
	t.Parallel()
	s := openKept(t, "format-1.tar.gz")
	s.rewriteSpec(func(e string) string { return strings.ReplaceAll(e, `"seed":1,`, `"seed":99,`) })
	s.serves()
}

// Without a record of the plan nothing can be served by such a build, but nothing is lost either.
func TestFinishedRunWithUnknownKeysIsKept(t *testing.T) {
	t.Parallel()
	s := openKept(t, beforeFormats)
	s.rewriteSpec(func(e string) string { return strings.ReplaceAll(e, `"seed":1,`, `"seed":99,`) })
	before := s.files()
	const why = "a build with other keys computed it without recording a plan"
	if got := decoded[struct{ Runs []status.Run }](s, "status", keptRun); len(got.Runs) != 1 || !strings.Contains(got.Runs[0].Error, why) {
		t.Errorf("status says %+v", got)
	}
	results := decoded[struct {
		Cells []struct{ State, Lost string }
	}](s, "results", keptRun)
	if len(results.Cells) != 2 || results.Cells[0].State != "pending" || !strings.Contains(results.Cells[0].Lost, why) {
		t.Errorf("results say %+v", results.Cells)
	}
	// The store may have a model of the same cell under the keys of this build: that of a later run.
	refuses(t, why, "export", keptRun, "c01", "-o", filepath.Join(t.TempDir(), "model"), "--home", s.home)
	got := s.collect()
	if len(got.Held) != 1 || got.Held[0].Run != keptRun || got.Total().Objects > 0 {
		t.Errorf("collected %+v, held %v", got.Total(), got.Held)
	}
	after := s.files()
	for name := range before {
		if !after[name] {
			t.Errorf("%s was deleted", name)
		}
	}
	if text := s.prints("gc", "--dry-run"); !strings.Contains(text, "No commit, blob or source is deleted") || !strings.Contains(text, "coalmine rm "+keptRun) {
		t.Errorf("gc says\n%s", text)
	}
}

// A build that cannot read the experiment any more serves the record of the plan and the
// reports.
func TestFinishedRunWithUnreadableExperimentIsServed(t *testing.T) {
	t.Parallel()
	s := openKept(t, "format-1.tar.gz")
	s.rewriteSpec(func(e string) string { return strings.Replace(e, `"seed":1,`, `"seed":1,"forgotten":true,`, 1) })
	s.wantDone(keptRun, 2)
	got := decoded[map[string]any](s, "results", keptRun)
	if why, _ := got["unreadable"].(string); !strings.Contains(why, `unknown field "forgotten"`) || !strings.Contains(why, "format 1, written by coalmine") {
		t.Errorf("results say %q of the experiment", why)
	}
	for i, cell := range got["cells"].([]any) {
		c := cell.(map[string]any)
		if c["state"] != "done" || c["axes"].(map[string]any)["training"] == nil || c["audit"] == nil || c["utility"] == nil {
			t.Errorf("cell %d: %v", i, c)
		}
	}
	s.wantModels()
	s.prints("rm", halfRun)
	if got := s.collect(); len(got.Held) > 0 || got.Collected[storage.CommitObject].Objects == 0 {
		t.Errorf("collected %+v, held %v", got.Total(), got.Held)
	}
	s.wantModels()
	s.wantSame()
	for _, format := range []string{"table", "csv", "html", "latex"} {
		if text := s.prints("results", keptRun, "--format", format); !strings.Contains(text, "forgotten") && (format == "table" || format == "html") {
			t.Errorf("results as %s do not say that the experiment cannot be read:\n%.2000s", format, text)
		}
	}
}
