package plantest

import (
	"bytes"
	"encoding/json"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/tasks/reports"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

// Text returns a small text with enough words and users for a real experiment: more than 60 distinct words,
// and 74 users of 300 words each.
func Text() []byte { return taskstest.Text(3000) }

// SecretKey returns the key of experiments that need one, the same in all tests.
func SecretKey(t testing.TB) secrets.Key {
	t.Helper()
	return secrets.NewKey([secrets.Size]byte(bytes.Repeat([]byte{0x5a}, secrets.Size)))
}

// Facts returns the facts of the Text, with any files.
func Facts(t testing.TB, files ...storage.Digest) experiment.Facts {
	t.Helper()
	return experiment.Facts{Key: SecretKey(t).Fingerprint(), Files: files, Users: 74, HeldOutUsers: 18, Examples: 2000, DistinctWords: 90, TestExamples: 300}
}

// Resolve parses and resolves an experiment file, as if its data were files with these digests.
func Resolve(t testing.TB, text string, files []storage.Digest, sets ...string) *experiment.Spec {
	t.Helper()
	spec := must.Get(experiment.Parse("test.yaml", []byte(text), experiment.Options{Sets: sets}))(t)
	facts := make([]experiment.Facts, len(spec.Cells))
	for i := range facts {
		facts[i] = Facts(t, files...)
	}
	must.Do(t, spec.Resolve(facts))
	return spec
}

// Compiled compiles an experiment file, as if its data were a file with the digest.
func Compiled(t testing.TB, text string, digest storage.Digest, sets ...string) *plan.Plan {
	t.Helper()
	p := must.Get(compile.Plan(Resolve(t, text, []storage.Digest{digest}, sets...)))(t)
	must.Do(t, p.Check())
	return p
}

// Executor runs the nodes of a plan on the Text.
func Executor(t testing.TB, p *plan.Plan) *localexec.Executor {
	t.Helper()
	e := localexec.New(p, compile.Registry(), Text())
	e.Runner.Keys = secrets.NewKeyring(SecretKey(t))
	return e
}

// CellReport runs the first cell of an experiment on the Text to its report.
func CellReport(t testing.TB, text string, sets ...string) reports.Report {
	t.Helper()
	p := Compiled(t, text, storage.DigestOf(Text()), sets...)
	var report reports.Report
	Decode(t, Executor(t, p), p.Cells[0].Report, reports.CellBlob, &report)
	return report
}

// Decode runs a node and decodes a blob of it.
func Decode(t testing.TB, e *localexec.Executor, node plan.Ref, blob string, into any) {
	t.Helper()
	must.Do(t, e.Reach(t.Context(), node))
	data := must.Get(e.Blob(t.Context(), node.Key, blob))(t)
	must.Do(t, json.Unmarshal(data, into))
}

// Outcome decodes the result of an audit into v. It fails the test if there is no result.
func Outcome(t testing.TB, r *reports.Report, audit string, v any) {
	t.Helper()
	raw, measured := r.Outcome(audit)
	if !measured {
		t.Fatalf("the report has no outcome of %s", audit)
	}
	must.Do(t, json.Unmarshal(raw, v))
}
