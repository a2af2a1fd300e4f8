package control_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/workflows/control"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// quietQueue has no workers and no news. Any other call panics.
type quietQueue struct{ coordinator.Queue }

func (quietQueue) Reports(ctx context.Context, _ time.Duration) ([]queue.Report, error) {
	<-ctx.Done()
	return nil, nil
}
func (quietQueue) Workers(context.Context) ([]queue.Worker, error) { return nil, nil }
func (quietQueue) Publish(context.Context, string, []byte, time.Duration) error {
	return nil
}

// ended records a run that was cancelled so long ago.
func ended(t *testing.T, service *runs.Service, name string, ago time.Duration) string {
	t.Helper()
	ctx := t.Context()
	sum := storage.DigestOf([]byte("a source"))
	spec := must.Get(experiment.Parse("test.yaml", []byte("name: "+name+"\ndata: {source: x.jsonl, sha256: "+sum.String()+"}\ntraining: {rounds: 10, cohort: 2}\n"), experiment.Options{}))(t)
	run, _, err := service.Submit(ctx, runs.Spec{Name: name, Digest: spec.Digest(), Experiment: spec.Canonical()}, "somebody", true)
	must.Do(t, err)
	must.Do(t, service.Append(ctx, run.ID, runs.Entry{Kind: runs.CancelEntry, Time: time.Now().Add(-ago)}))
	return run.ID
}

// holds reports whether the archive has an object of a kind.
func holds(t *testing.T, archive *storage.Archive, kind storage.ObjectKind) bool {
	t.Helper()
	for _, err := range archive.Objects(t.Context(), kind) {
		must.Do(t, err)
		return true
	}
	return false
}

// counted is the sum of a metric over its labels.
func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families := must.Get(registry.Gather())(t)
	sum := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// At midnight, and only where its coordinator leads, a process removes the runs
// that have been kept long enough, and objects that no run needs.
func TestHousekeepingRetiresRunsAndCollectsAtMidnight(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		archive := storage.NewArchive(storagetest.NewMemory())
		service := runs.NewService(archive, nil)
		old, young, pinned := ended(t, service, "old", 31*day), ended(t, service, "young", 29*day), ended(t, service, "pinned", 40*day)
		must.Do(t, service.Append(ctx, pinned, runs.Entry{Kind: runs.PinEntry, Pinned: true}))
		orphan := storage.Key{Digest: storage.DigestOf([]byte("orphan"))}
		must.Get(archive.PutBlob(ctx, orphan, "model", bytes.Repeat([]byte{1}, 1<<20), storage.Durable))(t)
		leader := must.Get(coordinator.New(coordinator.Config{
			Archive: archive, Queue: quietQueue{},
			Compile: func(context.Context, *runs.Run) (plan.Parts, error) {
				return nil, tasks.Permanent(errors.New("no plan"))
			},
		}))(t)
		api := control.New(archive, nil, leader)
		registry := prometheus.NewRegistry()
		var work sync.WaitGroup
		work.Go(func() {
			if err := api.KeepHouse(ctx, control.Housekeeping{Every: day, Retain: 30 * day, Metrics: registry}); err != nil {
				t.Error(err)
			}
		})
		expect := func(when string, wantRuns []string, wantBlob bool, collections float64) {
			t.Helper()
			if got, err := service.IDs(ctx); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(wantRuns))) {
				t.Errorf("%s there are %q, %v: want %q", when, got, err, wantRuns)
			}
			if got := holds(t, archive, storage.BlobObject); got != wantBlob {
				t.Errorf("%s the orphan is there: %v, want %v", when, got, wantBlob)
			}
			if got := counted(t, registry, "coalmine_collections_total"); got != collections {
				t.Errorf("%s %g collections are counted, want %g", when, got, collections)
			}
		}
		time.Sleep(day + time.Minute) // the bubble's clock begins at midnight
		synctest.Wait()
		expect("standing by,", []string{old, young, pinned}, true, 0)
		work.Go(func() { _ = leader.Lead(ctx) })
		time.Sleep(day - 2*time.Minute)
		synctest.Wait()
		expect("before midnight,", []string{old, young, pinned}, true, 0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		expect("after midnight,", []string{pinned}, false, 1)
		if got := counted(t, registry, "coalmine_retired_runs_total"); got != 2 {
			t.Errorf("%g runs are counted, want 2", got)
		}
		stop()
		work.Wait()
	})
}

// behindStore stamps objects by a clock that is behind by a time.
type behindStore struct {
	storage.Store
	behind time.Duration
}

func (s behindStore) Head(ctx context.Context, name string) (storage.Info, error) {
	info, err := s.Store.Head(ctx, name)
	info.Modified = info.Modified.Add(-s.behind)
	return info, err
}

// A leader whose clock has jumped ahead by a month must not remove the runs of this week.
func TestRunRetirementFollowsStoreClock(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		archive := storage.NewArchive(behindStore{storagetest.NewMemory(), 31 * day})
		service := runs.NewService(archive, nil)
		ended(t, service, "old", 62*day)
		young := ended(t, service, "young", 36*day) // five days ago by the clock of the store
		api := control.New(archive, nil, nil)
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() {
			if err := api.KeepHouse(ctx, control.Housekeeping{Every: day, Retain: 30 * day}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(day + time.Minute)
		synctest.Wait()
		if got, err := service.IDs(ctx); err != nil || !slices.Equal(got, []string{young}) {
			t.Errorf("left are %q, %v, want %q", got, err, young)
		}
		stop()
		work.Wait()
	})
}
