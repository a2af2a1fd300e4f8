package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// abandoned is a run that a coordinator began and nobody works on, with its plan.
type abandoned struct {
	t       *testing.T
	asked   func() int // requests for an object so far
	archive *storage.Archive
	service *runs.Service
	run     string
	plan    *plan.Plan
	// began is when the first node was committed, if they tell; made counts them.
	began time.Time
	made  int
}

func abandon(t *testing.T, text string) *abandoned {
	t.Helper()
	gets, heads := &storagetest.Fault{Op: storagetest.Get}, &storagetest.Fault{Op: storagetest.Head}
	own, deeper := &storagetest.Fault{Op: storagetest.List, Name: "runs/*"}, &storagetest.Fault{Op: storagetest.List, Name: "runs/*/*"}
	lists := &storagetest.Fault{Op: storagetest.List, Call: func() { t.Error("more than records of runs was listed") }}
	x := &abandoned{t: t, asked: func() int { return gets.Fired() + heads.Fired() }}
	x.archive = storage.NewArchive(storagetest.WithFaults(storagetest.NewMemory(), gets, heads, own, deeper, lists))
	x.service = runs.NewService(x.archive, nil)
	x.begin(text)
	return x
}

// begin submits a run, which a coordinator begins.
func (x *abandoned) begin(text string) {
	x.t.Helper()
	source := storage.DigestOf([]byte("a source"))
	text = fmt.Sprintf("name: x\ndata: {source: x.jsonl, sha256: %s}\n%s\n", source, text)
	spec := must.Get(experiment.Parse("x.yaml", []byte(text), experiment.Options{}))(x.t)
	x.plan = must.Get(compile.Plan(spec))(x.t)
	run, _, err := x.service.Submit(x.t.Context(), runs.Spec{Name: "x", Digest: spec.Digest(), Experiment: spec.Canonical()}, "somebody", true)
	if err != nil {
		x.t.Fatal(err)
	}
	x.run = run.ID
	x.log(runs.Entry{Kind: runs.Started})
}

func (x *abandoned) log(e runs.Entry) {
	x.t.Helper()
	must.Do(x.t, x.service.Append(x.t.Context(), x.run, e))
}

// commit stores nodes; the blobs of those that are evicted are gone.
func (x *abandoned) commit(evicted bool, keys ...storage.Key) {
	x.t.Helper()
	for _, key := range keys {
		c := &storage.Commit{Key: key, Kind: "test", KindVersion: 1, Attempt: "1"}
		if x.made++; !x.began.IsZero() {
			c.Provenance = storage.Provenance{Started: x.began.Add(time.Duration(x.made) * time.Millisecond), Seconds: 0.5}
		}
		if evicted {
			big := make([]byte, 2*storage.MaxInline)
			c.Blobs = []storage.Blob{{Name: "model", Digest: storage.DigestOf(big), Size: int64(len(big))}}
		}
		if _, _, err := x.archive.Commit(x.t.Context(), c); err != nil {
			x.t.Fatal(err)
		}
	}
}

// reach stores the objects of a training that has come to a round.
func (x *abandoned) reach(cell, round int) {
	x.t.Helper()
	chain := x.plan.Cells[cell].Chain
	for step := 1; step <= round; step++ {
		if plan.Boundary(step) || plan.SegmentEnd(step) > round {
			x.commit(step < round, chain.Key(step))
		}
	}
}

// status is the status from a process without a coordinator, and the number of its
// requests.
func (x *abandoned) status() (*status.Run, int) {
	x.t.Helper()
	before := x.asked()
	s := must.Get(control.New(x.archive, nil, nil).Status(x.t.Context(), x.run))(x.t)
	return s, x.asked() - before
}

const fourCells = `
training: {rounds: 250, cohort: 2}
grid: {axes: {seed: [1, 2, 3, 4]}}
`

func TestStatusWithoutCoordinatorReadsStorage(t *testing.T) {
	t.Parallel()
	x := abandon(t, fourCells)
	x.reach(0, 230)
	x.reach(1, 250)
	x.reach(2, 250)
	x.commit(false, x.plan.Cells[2].Report.Key)
	s, asked := x.status()
	for i, want := range []status.Cell{
		{Phase: runs.Running, Step: 230}, {Phase: runs.Running, Step: 250}, {Phase: runs.Done, Step: 250}, {Phase: runs.Queued},
	} {
		if c := s.Cells[i]; c.Phase != want.Phase || c.Step != want.Step || c.Steps != 250 {
			t.Errorf("cell %d is %s at %d of %d, want %s at %d of 250", i, c.Phase, c.Step, c.Steps, want.Phase, want.Step)
		}
	}
	if !s.FromStorage || s.Health != status.Stuck || s.Waits[0].Reason != status.WaitCoordinator ||
		!strings.HasSuffix(s.Waits[0].Detail, "progress read from storage") {
		t.Errorf("from storage %v, %s, waits %+v", s.FromStorage, s.Health, s.Waits)
	}
	if asked > 4*25 {
		t.Errorf("%d questions for 4 cells, want some twenty for each", asked)
	}
}

// The newest commit that was seen says how old it is.
func TestStatusFromStorageReportsAge(t *testing.T) {
	t.Parallel()
	x := abandon(t, fourCells)
	if s, _ := x.status(); !s.FromStorage || !s.LastProgress.IsZero() || s.AgeSeconds != 0 {
		t.Errorf("where nothing is committed the newest is of %v, %d seconds old", s.LastProgress, s.AgeSeconds)
	}
	x.began = time.Now().Add(-150 * time.Minute)
	x.reach(0, 230)
	newest := x.began.Add(time.Duration(x.made)*time.Millisecond + 500*time.Millisecond)
	if s, _ := x.status(); !s.LastProgress.Equal(newest) || s.AgeSeconds != 2*60*60 {
		t.Errorf("the newest is of %v, %d seconds old; want %v, two hours", s.LastProgress, s.AgeSeconds, newest)
	}
}

func TestStatusFromStorageKeepsRecordedPhases(t *testing.T) {
	t.Parallel()
	x := abandon(t, fourCells)
	x.reach(0, 230)
	x.log(runs.Entry{Kind: runs.NodeFailed, Key: &x.plan.Cells[0].Report.Key, Error: "broken", Cells: []string{x.plan.Cells[0].Name}})
	x.log(runs.Entry{Kind: runs.PauseEntry})
	s, _ := x.status()
	if s.Phase != runs.Paused || !s.FromStorage || len(s.Waits) > 0 {
		t.Errorf("the run is %s, from storage %v, and waits for %+v", s.Phase, s.FromStorage, s.Waits)
	}
	if s.Cells[0].Phase != runs.Failed || s.Cells[1].Phase != runs.Queued {
		t.Errorf("cells %+v", s.Cells[:2])
	}
}

// The open cells of a cancelled run are cancelled, with their progress.
func TestCellsOfACancelledRunAreCancelled(t *testing.T) {
	t.Parallel()
	x := abandon(t, fourCells)
	x.reach(0, 230)
	x.reach(1, 250)
	x.commit(false, x.plan.Cells[1].Report.Key)
	x.log(runs.Entry{Kind: runs.NodeFailed, Key: &x.plan.Cells[3].Report.Key, Error: "broken", Cells: []string{x.plan.Cells[3].Name}})
	x.log(runs.Entry{Kind: runs.CancelEntry})
	s, _ := x.status()
	for i, want := range []status.Cell{{Phase: runs.Cancelled, Step: 230}, {Phase: runs.Done, Step: 250}, {Phase: runs.Cancelled}, {Phase: runs.Failed}} {
		if c := s.Cells[i]; c.Phase != want.Phase || c.Step != want.Step {
			t.Errorf("cell %d is %s at %d, want %s at %d", i, c.Phase, c.Step, want.Phase, want.Step)
		}
	}
	listed := must.Get(control.New(x.archive, nil, nil).List(t.Context()))(t)
	for i, want := range []runs.Phase{runs.Cancelled, runs.Cancelled, runs.Cancelled, runs.Failed} {
		if c := listed[0].Cells[i]; c.Phase != want {
			t.Errorf("listed, cell %d is %s, want %s", i, c.Phase, want)
		}
	}
}

// A list of runs looks at the first cells alone, and says so of the others.
func TestListLooksUpFirstCellsOnly(t *testing.T) {
	t.Parallel()
	x := abandon(t, fourCells)
	for first := 10; first < 60; first += 10 {
		x.begin(fmt.Sprintf("training: {rounds: 250, cohort: 2}\ngrid: {axes: {seed: [%d, %d, %d, %d, %d, %d, %d, %d]}}", first, first+1, first+2, first+3, first+4, first+5, first+6, first+7))
	}
	list := must.Get(control.New(x.archive, nil, nil).List(t.Context()))(t)
	details, unseen := 0, 0
	for _, run := range list {
		details += strings.Count(run.Waits[0].Detail, "progress read from storage")
		unseen += strings.Count(run.Waits[0].Detail, "for 0 of its")
	}
	if len(list) != 6 || details != 6 || unseen == 0 {
		t.Errorf("%d runs, of %d it is said how far they are, of %d for no cell; want 6, 6 and some", len(list), details, unseen)
	}
}

// However large a run is, a status asks little.
func TestStatusFromStorageBoundsRequests(t *testing.T) {
	t.Parallel()
	seeds := make([]string, 100)
	for i := range seeds {
		seeds[i] = fmt.Sprint(i + 1)
	}
	many := abandon(t, "training: {rounds: 8000, cohort: 2}\ngrid: {axes: {seed: ["+strings.Join(seeds, ", ")+"]}}")
	many.reach(0, 7_950)
	many.reach(99, 7_950)
	s, asked := many.status()
	if s.Cells[0].Step != 7_950 || s.Cells[99].Step != 0 || !strings.Contains(s.Waits[0].Detail, "32 of its 100 open cells") {
		t.Errorf("cells at %d and %d; %s", s.Cells[0].Step, s.Cells[99].Step, s.Waits[0].Detail)
	}
	if asked > 1500 {
		t.Errorf("%d questions for 100 cells", asked)
	}

	// All checkpoints have gone, so that the nearest would be sought for long.
	gone := abandon(t, "training: {rounds: 40000, cohort: 2}")
	for step := 100; step <= 40_000; step += 100 {
		gone.commit(true, gone.plan.Cells[0].Chain.Key(step))
	}
	s, asked = gone.status()
	if s.FromStorage || s.Cells[0].Step != 0 || !strings.Contains(s.Waits[0].Detail, "could not be read from storage") {
		t.Errorf("from storage %v, step %d: %s", s.FromStorage, s.Cells[0].Step, s.Waits[0].Detail)
	}
	if asked > 3000 {
		t.Errorf("%d questions for a training without checkpoints", asked)
	}
}
