package retention

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
)

// fixture is a store with runs, and a collector that takes everything for old.
type fixture struct {
	*Collector
	t       *testing.T
	memory  *storagetest.Memory
	service *runs.Service
	plans   map[string]*plan.Plan // by the name of the experiment
	token   *leadership.Token
}

func newFixture(t *testing.T) *fixture {
	x := &fixture{t: t, memory: storagetest.NewMemory(), plans: make(map[string]*plan.Plan)}
	x.Collector = &Collector{
		Archive: storage.NewArchive(x.memory),
		Compile: func(_ context.Context, r *runs.Run) (*plan.Plan, error) { return x.plans[r.Spec.Name], nil },
		Sources: func(r *runs.Run) ([]storage.Digest, error) {
			return []storage.Digest{storage.DigestOf([]byte(r.Spec.Name))}, nil
		},
		Now: func() time.Time { return time.Now().Add(24 * time.Hour) },
	}
	x.service = runs.NewService(x.Archive, nil)
	x.lead()
	return x
}

func (x *fixture) lead() {
	x.token = must.Get((&leadership.Contest{Archive: x.Archive}).Begin(x.t.Context()))(x.t)
}

// submit records a run of a plan, all of which has been executed.
func (x *fixture) submit(name string, p *plan.Plan) string {
	x.t.Helper()
	x.plans[name] = p
	if _, _, err := x.Archive.PutSource(x.t.Context(), strings.NewReader(name)); err != nil {
		x.t.Fatal(err)
	}
	plantest.Store(x.t, x.Archive, p)
	spec := runs.Spec{Name: name, Digest: storage.DigestOf([]byte(name)), Experiment: []byte(name)}
	run, _, err := x.service.Submit(x.t.Context(), spec, "", false)
	if err != nil {
		x.t.Fatal(err)
	}
	return run.ID
}

func (x *fixture) append(id string, kinds ...runs.Kind) {
	x.t.Helper()
	for _, kind := range kinds {
		must.Do(x.t, x.service.Append(x.t.Context(), id, runs.Entry{Kind: kind}))
	}
}

func (x *fixture) collect() *Result {
	x.t.Helper()
	return must.Get(x.Collect(x.t.Context(), x.token))(x.t)
}

// names are those of the objects under a prefix.
func (x *fixture) names(prefix string) []string {
	var names []string
	for info, err := range x.memory.List(x.t.Context(), prefix) {
		if err != nil {
			x.t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

func TestCollectionKeepsNamedSources(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	ctx := t.Context()
	corpus := must.Get(storage.ParseKey(strings.Repeat("1", 64)))(t)
	file, _, err := x.Archive.PutSource(ctx, strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Archive.Commit(ctx, &storage.Commit{Key: corpus, Kind: "datasets/import", KindVersion: 1, Attempt: "1"}); err != nil {
		t.Fatal(err)
	}
	must.Do(t, x.Archive.CreateEntry(ctx, "posts", sources.Entry{Name: "posts", Files: []storage.Digest{file}, Corpus: corpus}))
	stored := func() int { return len(x.names("sources/")) + len(x.names("commits/")) }
	if x.collect(); stored() != 2 {
		t.Errorf("%d objects of a named source are left, want 2", stored())
	}
	must.Do(t, x.Archive.DeleteEntry(ctx, "posts"))
	if x.collect(); stored() != 0 {
		t.Errorf("%d objects are left after its name is gone", stored())
	}
}

// keptTraining is a plan of one training whose checkpoints at 50, at 120 and at the end are kept.
func keptTraining(t *testing.T, steps int) *plan.Plan {
	keep := slices.DeleteFunc([]int{50, 120}, func(step int) bool { return step > steps })
	return plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: steps, Keep: keep, Big: true})
}

func TestCollectionKeepsClaimsOfFinishedTraining(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	p := keptTraining(t, 230)
	x.append(x.submit("a", p), runs.Started, runs.Finished)
	x.collect()
	c := p.Cells[0].Chain
	for r := 1; r <= 230; r++ {
		n := must.Get(plan.LookUp(t.Context(), x.Archive, c.Key(r)))(t)
		whole, record := slices.Contains([]int{50, 120, 230}, r), r > 200 || plan.Boundary(r)
		if n.Available() != whole || (n.Commit != nil) != (whole || record) {
			t.Errorf("step %d: available %v, want %v; recorded %v, want %v", r, n.Available(), whole, n.Commit != nil, whole || record)
		}
		if !plan.Boundary(r) {
			continue
		}
		if rows, ok := n.Commit.Blob(tasks.SegmentBlob); !ok || slices.Contains(n.Evicted, rows.Name) {
			t.Errorf("boundary %d has lost its metric rows", r)
		}
	}
	for key, node := range p.Nodes {
		if n, err := plan.LookUp(t.Context(), x.Archive, key); err != nil || !n.Available() {
			t.Errorf("%s is %s, %v: standing nodes of a run stay", node.Label, n.Reason(), err)
		}
	}
	for r := range 230 {
		for j := range c.Width {
			if there, err := x.Archive.HasCommit(t.Context(), c.PartKey(r+1, j)); there || err != nil {
				t.Fatalf("part %d of step %d is left, %v", j, r+1, err)
			}
		}
	}
}

func TestCollectionKeepsLiveRuns(t *testing.T) {
	t.Parallel()
	for _, entries := range [][]runs.Kind{nil, {runs.Started}, {runs.Started, runs.PauseEntry}} {
		x := newFixture(t)
		x.append(x.submit("a", keptTraining(t, 130)), entries...)
		before := x.names("")
		if got := x.collect(); got.Total().Objects != 0 || got.Runs != 1 || !slices.Equal(x.names(""), before) {
			t.Errorf("after %q: %d objects went of %d", entries, got.Total().Objects, len(before))
		}
	}
}

// A killed attempt leaves its partial state, from which the next one resumes. Once the node is committed,
// by another attempt, nothing resumes from it.
func TestCollectionKeepsUnfinishedStateUntilCommit(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	b := plantest.NewBuilder()
	node := b.Node(plantest.Standing, plantest.Params{Salt: "trained", Big: true})
	b.Cell(node, node)
	x.submit("a", b.Done(t))
	commit := must.Get(x.Archive.Committed(t.Context(), node.Key))(t)
	must.Do(t, x.memory.Delete(t.Context(), "commits/"+node.Key.String()))
	must.Get(x.Archive.PutUnfinished(t.Context(), node.Key, "state.pt", []byte("half")))(t)
	stored := func() (partial, blobs int) { return len(x.names("unfinished/")), len(x.names("blobs/")) }
	x.collect()
	if partial, blobs := stored(); partial != 1 || blobs != 1 {
		t.Errorf("before the commit: %d files of partial state and %d blobs are left, want 1 and 1", partial, blobs)
	}
	if _, _, err := x.Archive.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	x.collect()
	if partial, blobs := stored(); partial != 0 || blobs != 1 {
		t.Errorf("after the commit: %d files of partial state and %d blobs are left, want 0 and 1", partial, blobs)
	}
}

func TestCollectionDeletesRemovedRun(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	id := x.submit("a", keptTraining(t, 130))
	x.append(id, runs.Started, runs.Finished, runs.RemoveEntry)
	told, of := 0, 0
	x.Progress = func(deleted, all int) { told, of = deleted, all }
	got := x.collect()
	for _, prefix := range []string{"commits/", "blobs/", "runs/", "logs/", "sources/"} {
		if names := x.names(prefix); len(names) > 0 {
			t.Errorf("left: %s", names)
		}
	}
	if all := got.Total().Objects; got.Runs != 0 || all == 0 || told != all || of != all {
		t.Errorf("collected %+v of %d runs, progress %d of %d", got.Total(), got.Runs, told, of)
	}
	if again := x.collect(); again.Total().Objects != 0 {
		t.Errorf("a second collection found %+v", again.Total())
	}
}

func TestCollectionKeepsSharedNodesUntilLastRemoval(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	short, long := keptTraining(t, 130), keptTraining(t, 190)
	first, second := x.submit("short", short), x.submit("long", long)
	x.append(first, runs.Started, runs.Finished, runs.RemoveEntry)
	x.append(second, runs.Started, runs.Finished)
	x.collect()
	for _, ref := range []plan.Ref{long.Cells[0].Report, long.Cells[0].Model, long.Cells[0].Chain.At(50)} {
		if n, err := plan.LookUp(t.Context(), x.Archive, ref.Key); err != nil || !n.Available() {
			t.Errorf("what the other run needs is %s, %v", n.Reason(), err)
		}
	}
	if n, err := plan.LookUp(t.Context(), x.Archive, short.Cells[0].Model.Key); err != nil || n.Available() {
		t.Errorf("the model that only the removed run kept is %s, %v", n.Reason(), err)
	}
}

func TestPreviewCountsOnlyOldObjects(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	id := x.submit("a", keptTraining(t, 3))
	x.append(id, runs.Started, runs.Finished)
	x.collect()
	must.Get(x.Archive.Now(t.Context()))(t) // a preview asks for it, too, which writes an object
	before := x.names("")
	old := x.Now
	x.Now, x.OlderThan = nil, time.Minute
	if got, err := x.Preview(t.Context(), id); err != nil || got.Total().Objects != 0 || got.Young.Objects == 0 {
		t.Errorf("of young objects would go: %+v, %v", got, err)
	}
	x.Now, x.OlderThan = old, 0
	if got, err := x.Preview(t.Context(), id); err != nil || !got.DryRun || got.Total().Objects == 0 {
		t.Errorf("of old objects would go: %+v, %v", got, err)
	}
	if !slices.Equal(x.names(""), before) {
		t.Errorf("%d objects are left of %d", len(x.names("")), len(before))
	}
}

// A source is the one thing that nothing makes again: a submission may have uploaded
// it and not yet recorded its run.
func TestCollectionKeepsYoungSourcesAtAnyAgeLimit(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	if _, _, err := x.Archive.PutSource(t.Context(), strings.NewReader("uploaded")); err != nil {
		t.Fatal(err)
	}
	x.Now = func() time.Time { return time.Now().Add(MinSourceAge - time.Minute) }
	if x.collect(); len(x.names("sources/")) == 0 {
		t.Error("a source went that was younger than an hour")
	}
	x.Now = func() time.Time { return time.Now().Add(MinSourceAge + time.Minute) }
	if x.collect(); len(x.names("sources/")) > 0 {
		t.Error("a source stays that no run names")
	}
}

func TestOnlyTheLeaderCollects(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	id := x.submit("a", keptTraining(t, 3))
	x.append(id, runs.CancelEntry)
	must.Do(t, x.Archive.DeleteRun(t.Context(), id))
	former, before := x.token, x.names("commits/")
	x.lead()
	if _, err := x.Collect(t.Context(), former); !errors.Is(err, leadership.ErrDeposed) {
		t.Errorf("a leader of yesterday: %v", err)
	}
	if !slices.Equal(x.names("commits/"), before) {
		t.Errorf("it deleted %d commits", len(before)-len(x.names("commits/")))
	}
}

// A batch is computed again if the runs have changed since.
func TestCollectionKeepsNodesOfConcurrentSubmission(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	removed, other := keptTraining(t, 130), keptTraining(t, 5)
	x.append(x.submit("removed", removed), runs.Started, runs.Finished, runs.RemoveEntry)
	x.append(x.submit("other", other), runs.Started, runs.Finished)
	compiled := x.Compile
	x.Compile = func(ctx context.Context, r *runs.Run) (*plan.Plan, error) {
		if x.plans["again"] == nil { // while the other run's needs are marked
			x.submit("again", removed)
		}
		return compiled(ctx, r)
	}
	if got := x.collect(); got.Runs != 2 {
		t.Errorf("the needs of %d runs were heeded, want 2", got.Runs)
	}
	for _, ref := range []plan.Ref{removed.Cells[0].Report, removed.Cells[0].Model} {
		if n, err := plan.LookUp(t.Context(), x.Archive, ref.Key); err != nil || !n.Available() {
			t.Errorf("what the new run needs is %s, %v", n.Reason(), err)
		}
	}
}
