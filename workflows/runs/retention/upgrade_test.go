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
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

// record records a plan of a run, as a coordinator does.
func (x *fixture) record(id string, p *plan.Plan) {
	x.t.Helper()
	var w plan.RecordWriter
	must.Do(x.t, w.Add(p))
	r, err := w.Record()
	if err == nil {
		err = r.Keep(x.t.Context(), x.Archive, id)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// finish ends a run all of whose cells are done.
func (x *fixture) finish(id string, p *plan.Plan) {
	x.t.Helper()
	outcomes := make(map[string]runs.Phase)
	for _, c := range p.Cells {
		outcomes[c.Name] = runs.Done
	}
	x.append(id, runs.Started)
	must.Do(x.t, x.service.Append(x.t.Context(), id, runs.Entry{Kind: runs.Finished, Outcomes: outcomes}))
}

// garbage stores objects that no run needs: a training, a source and the log of an
// attempt.
func (x *fixture) garbage() {
	x.t.Helper()
	plantest.Store(x.t, x.Archive, otherKeys(x.t, 7))
	if _, _, err := x.Archive.PutSource(x.t.Context(), strings.NewReader("garbage")); err != nil {
		x.t.Fatal(err)
	}
	must.Do(x.t, x.Archive.PutTaskLog(x.t.Context(), "gone", storage.Key{}, "1", []byte("text")))
}

// otherKeys is a training with none of the keys of training.
func otherKeys(t *testing.T, steps int) *plan.Plan {
	return plantest.Federated(t, plantest.ChainOptions{Salt: "other keys", Width: 2, Steps: steps, Big: true})
}

// wantHeld expects one run to be held, with a reason, and only the log of the removed run to be deleted.
func (x *fixture) wantHeld(id, reason string, before []string) {
	x.t.Helper()
	got := x.collect()
	if len(got.Held) != 1 || got.Held[0].Run != id || !strings.Contains(got.Held[0].Reason, reason) {
		x.t.Errorf("held are %v, want %s with %q", got.Held, id, reason)
	}
	want := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return strings.HasPrefix(name, "logs/gone/") })
	if left := x.names(""); !slices.Equal(left, want) || len(want) == len(before) {
		x.t.Errorf("%d objects are left of %d, want %d", len(left), len(before), len(want))
	}
}

func TestFinishedRunKeepsOutcomeUnderOtherKeys(t *testing.T) {
	t.Parallel()
	for name, compile := range map[string]func(context.Context, *runs.Run) (*plan.Plan, error){
		"other keys": func(context.Context, *runs.Run) (*plan.Plan, error) { return otherKeys(t, 30), nil },
		"no plan": func(context.Context, *runs.Run) (*plan.Plan, error) {
			return nil, tasks.Permanent(errors.New("no such kind"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, same := newFixture(t), newFixture(t)
			for _, y := range []*fixture{x, same} {
				p := keptTraining(t, 30)
				id := y.submit("a", p)
				p.Sources = []storage.Digest{storage.DigestOf([]byte("a"))}
				y.record(id, p)
				y.finish(id, p)
				y.garbage()
			}
			x.Compile = compile
			x.Sources = func(*runs.Run) ([]storage.Digest, error) { return nil, errors.New("no such field") }
			if got, want := x.collect(), same.collect(); got.Total() != want.Total() || len(got.Held) > 0 || want.Total().Objects == 0 {
				t.Errorf("collected %+v, held %v; under the build that computed the run it is %+v", got.Total(), got.Held, want.Total())
			}
			if got, want := x.names("commits/"), same.names("commits/"); !slices.Equal(got, want) {
				t.Errorf("%d commits are left, under the build that computed the run %d", len(got), len(want))
			}
			if got := len(x.names("sources/")); got != 1 {
				t.Errorf("%d sources are left, want that of the run", got)
			}
		})
	}
}

// A run that went on under two builds has two plans, and the nodes of both stay.
func TestCollectionKeepsNodesOfEarlierPlans(t *testing.T) {
	t.Parallel()
	for _, finished := range []bool{true, false} {
		x := newFixture(t)
		first, second := keptTraining(t, 30), otherKeys(t, 20)
		id := x.submit("a", first)
		plantest.Store(t, x.Archive, second)
		x.record(id, first)
		x.record(id, second)
		x.append(id, runs.Started)
		if finished {
			x.append(id, runs.Finished)
		}
		x.collect()
		for _, p := range []*plan.Plan{first, second} {
			for _, ref := range []plan.Ref{p.Cells[0].Report, p.Cells[0].Model} {
				if there, err := x.Archive.HasCommit(t.Context(), ref.Key); err != nil || !there {
					t.Errorf("finished %v: a target of a recorded plan is gone (%v)", finished, err)
				}
			}
		}
		parts := func(p *plan.Plan) bool {
			there, err := x.Archive.HasCommit(t.Context(), p.Cells[0].Chain.PartKey(3, 0))
			return there && err == nil
		}
		if parts(first) || parts(second) == finished {
			t.Errorf("finished %v: parts of rounds of the first plan are left %v, of the second %v", finished, parts(first), parts(second))
		}
	}
}

func TestRunWithUnknownNeedsKeepsAllNodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(x *fixture, id string)
		reason string
	}{
		"a plan that is not recorded and cannot be made": {func(x *fixture, _ string) {
			x.Compile = func(context.Context, *runs.Run) (*plan.Plan, error) {
				return nil, tasks.Permanent(errors.New("no such kind"))
			}
		}, "no such kind"},
		"keys that are not recorded, of another build": {func(x *fixture, _ string) {
			p := otherKeys(x.t, 30)
			x.Compile = func(context.Context, *runs.Run) (*plan.Plan, error) { return p, nil }
		}, "is not in the store under the key that this build computes"},
		"such keys, for which another run has made a report since": {func(x *fixture, _ string) {
			p := otherKeys(x.t, 30)
			x.Compile = func(context.Context, *runs.Run) (*plan.Plan, error) { return p, nil }
			later := &storage.Commit{
				Key: p.Cells[0].Report.Key, Kind: "report", KindVersion: 1, Attempt: "later",
				Provenance: storage.Provenance{Started: time.Now().Add(time.Hour)},
			}
			if _, _, err := x.Archive.Commit(x.t.Context(), later); err != nil {
				x.t.Fatal(err)
			}
		}, "is not in the store under the key that this build computes"},
		"a record of a newer build": {func(x *fixture, id string) {
			put(x, "runs/"+id+"/spec", `{"format":1000,"build":"9.9","name":"a"}`)
		}, "written by coalmine 9.9 in format 1000"},
		"a record that is gone": {func(x *fixture, id string) {
			must.Do(x.t, x.memory.Delete(x.t.Context(), "runs/"+id+"/spec"))
		}, "spec is gone, although the run was not removed"},
		"a damaged record": {func(x *fixture, id string) { put(x, "runs/"+id+"/spec", `{"na`) }, "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFixture(t)
			p := keptTraining(t, 30)
			id := x.submit("a", p)
			x.finish(id, p)
			x.garbage()
			c.damage(x, id)
			before := x.names("")
			x.wantHeld(id, c.reason, before)
			if got, err := x.Preview(t.Context()); err != nil || len(got.Held) != 1 {
				t.Errorf("a preview holds %+v, %v", got, err)
			}
			if got, err := x.Preview(t.Context(), id); err != nil || len(got.Held) != 0 || got.Total().Objects < len(before)/2 {
				t.Errorf("without the run would go %+v, %v", got, err)
			}
		})
	}
}

func put(x *fixture, name, text string) {
	x.t.Helper()
	must.Do(x.t, x.memory.Put(x.t.Context(), name, strings.NewReader(text), storage.Durable))
}

// The plan of a run is recorded apart from the run, so that the needs of a run are known whose
// record is not readable.
func TestUnreadableRunKeepsNodesOfRecordedPlans(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	p := keptTraining(t, 30)
	id := x.submit("a", p)
	p.Sources = []storage.Digest{storage.DigestOf([]byte("a"))}
	x.record(id, p)
	x.finish(id, p)
	x.garbage()
	put(x, "runs/"+id+"/spec", `{"format":1000,"build":"9.9"}`)
	if got := x.collect(); len(got.Held) > 0 || got.Runs != 1 || got.Total().Objects == 0 {
		t.Errorf("collected %+v, held %v", got.Total(), got.Held)
	}
	for _, ref := range []plan.Ref{p.Cells[0].Report, p.Cells[0].Model} {
		if there, err := x.Archive.HasCommit(t.Context(), ref.Key); err != nil || !there {
			t.Errorf("a target of the run is gone (%v)", err)
		}
	}
	if got := len(x.names("sources/")); got != 1 {
		t.Errorf("%d sources are left, want that of the run", got)
	}
}

// A run that was rejected before it ever started had no plan, and needs nothing.
func TestRejectedRunHoldsNodesOnlyIfStarted(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{false, true} {
		x := newFixture(t)
		id := x.submit("a", keptTraining(t, 3))
		x.Compile = func(context.Context, *runs.Run) (*plan.Plan, error) {
			return nil, tasks.Permanent(errors.New("no such kind"))
		}
		if started {
			x.append(id, runs.Started)
		}
		must.Do(t, x.service.Append(t.Context(), id, runs.Entry{Kind: runs.Rejected, Error: "no such kind"}))
		if got := x.collect(); (len(got.Held) > 0) != started || (len(x.names("commits/")) > 0) != started {
			t.Errorf("started %v: held %v, %d commits are left", started, got.Held, len(x.names("commits/")))
		}
	}
}

// Of a training that a live and a finished run share everything stays, in either order.
func TestTrainingWithOneLiveRunIsKept(t *testing.T) {
	t.Parallel()
	for _, live := range []string{"a", "b"} {
		x := newFixture(t)
		p := keptTraining(t, 30)
		for _, name := range []string{"a", "b"} {
			id := x.submit(name, p)
			x.append(id, runs.Started)
			if name != live {
				x.append(id, runs.Finished)
			}
		}
		before := x.names("")
		if got := x.collect(); got.Total().Objects != 0 || !slices.Equal(x.names(""), before) {
			t.Errorf("%s is live: %d objects went of %d", live, got.Total().Objects, len(before))
		}
	}
}
