package control_test

import (
	"errors"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/reports"
	"coalmine/workflows/control"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

const ranked = `
name: ranked
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 100}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%, example_probability: [1/3, 1], held_back: 1}
model: {embedding: 3, units: 4}
training: {rounds: 2, cohort: 5}
audit: {random_sampling: {references: 300}}
`

// trained is a run whose model and canaries are stored, and their ranking.
func trained(t *testing.T) (api *control.Local, run string, outcomes []randomsampling.CanaryOutcome) {
	t.Helper()
	archive := storage.NewArchive(storagetest.NewMemory())
	spec := plantest.Resolve(t, ranked, []storage.Digest{storage.DigestOf(plantest.Text())})
	p := must.Get(compile.Plan(spec))(t)
	e := localexec.New(p, compile.Registry(), plantest.Text())
	summary := plan.Ref{Key: p.Nodes[p.Cells[0].Report.Key].Input(reports.AuditInput(randomsampling.Audit.Name, 2))}
	plantest.Decode(t, e, summary, audits.CanaryOutcomesBlob, &outcomes)
	part := p.Nodes[p.Nodes[summary.Key].Inputs[1].Key]
	for _, node := range []plan.Ref{p.Cells[0].Final, {Key: part.Input(audits.CanariesInput)}} {
		keep(t, archive, e, node)
	}
	r, _, err := runs.NewService(archive, nil).Submit(t.Context(), runs.Spec{Name: "x", Digest: spec.Digest(), Experiment: spec.Canonical()}, "ada", false)
	must.Do(t, err)
	return control.New(archive, nil, nil), r.ID, outcomes
}

// keep stores the outputs of a node.
func keep(t *testing.T, archive *storage.Archive, e *localexec.Executor, node plan.Ref) {
	t.Helper()
	commit := must.Get(e.Execute(t.Context(), node))(t)
	commit.Attempt = "of the test"
	for i, b := range commit.Blobs {
		data, err := e.Blob(t.Context(), node.Key, b.Name)
		if err == nil {
			commit.Blobs[i], err = archive.PutBlob(t.Context(), node.Key, b.Name, data, storage.Durable)
		}
		must.Do(t, err)
	}
	if _, _, err := archive.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
}

// Canary and references are scored as the audit scored them: to the last bit, and all
// references where there are few.
func TestSurroundingsMatchScoresOfAudit(t *testing.T) {
	t.Parallel()
	api, run, outcomes := trained(t)
	for i, o := range outcomes {
		got := must.Get(api.Surroundings(t.Context(), run, "c01", i, control.LastRound))(t)
		counted := 0
		for _, n := range got.Fit.Histogram.Counts {
			counted += n
		}
		if got.LogPerplexity != *o.LogPerplexity || counted != 300 || got.References != 300 || got.Canary != i || got.Round != 2 {
			t.Errorf("canary %d: %+v; the audit has %g nats", i, got, *o.LogPerplexity)
		}
		if below := atMost(got, *o.LogPerplexity); below > *o.Rank {
			t.Errorf("canary %d: %d references lie in bins below it, and its rank is %d", i, below, *o.Rank)
		}
	}
}

// atMost counts the references in bins that end before a place.
func atMost(s *control.Surroundings, place float64) (n int64) {
	h := s.Fit.Histogram
	for i, count := range h.Counts {
		if h.From+float64(i+1)*h.Width < place {
			n += int64(count)
		}
	}
	return n
}

func TestSurroundingsRejectUnknownCanaryAndRound(t *testing.T) {
	t.Parallel()
	api, run, outcomes := trained(t)
	for _, c := range []struct {
		canary, round int
		is            error
		says          string
	}{
		{len(outcomes), 2, storage.ErrNotFound, "no canary"},
		{0, 1, control.ErrInput, "random_sampling"},
	} {
		_, err := api.Surroundings(t.Context(), run, "c01", c.canary, c.round)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("canary %d after %d: %v", c.canary, c.round, err)
		}
	}
}
