package control_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"coalmine/internal/build"
	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/attempts"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/status"
)

func TestStuckRunReportsMissingQueueOrCoordinator(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t)
	conn := must.Get(queue.Open(t.Context(), redis.URL()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	archive := storage.NewArchive(storagetest.NewMemory())
	run, _, err := runs.NewService(archive, nil).Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	must.Do(t, err)
	api := control.New(archive, conn, nil)
	expect := func(want status.WaitReason, detail string) {
		t.Helper()
		s := must.Get(api.Status(t.Context(), run.ID))(t)
		if s.Health != status.Stuck || len(s.Waits) != 1 || s.Waits[0].Reason != want || !strings.HasPrefix(s.Waits[0].Detail, detail) {
			t.Errorf("the run is %s and waits for %+v, want %s for %s: %s", s.Health, s.Waits, status.Stuck, want, detail)
		}
	}
	expect(status.WaitCoordinator, "no process works on it yet")
	must.Do(t, leadership.Announce(t.Context(), conn.Broker(), attempts.Leader{Holder: "other"}, time.Now()))
	expect(status.WaitCoordinator, "the leading coordinator other has not read it yet")
	older := must.Get(json.Marshal(attempts.Leader{Holder: "other"}))(t)
	must.Do(t, conn.Broker().Publish(t.Context(), "leader", older, time.Minute))
	expect(status.WaitCoordinator, "the leading coordinator other (an older build) does not report the run, whose record was written by coalmine "+build.Read().String()+" in format ")
	redis.Kill()
	expect(status.WaitQueue, "the queue does not answer")
}

// A log that was deleted says no more that its run is cancelled: a watch must not wait for that. While there is
// nothing new, it does not read the experiment.
func TestAWatchOfARemovedRunEnds(t *testing.T) {
	t.Parallel()
	store := storagetest.WithFaults(storagetest.NewMemory())
	archive := storage.NewArchive(store)
	run, _, err := runs.NewService(archive, nil).Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	must.Do(t, err)
	statuses := must.Get(control.New(archive, nil, nil).Watch(t.Context(), run.ID))(t)
	reads := &storagetest.Fault{Op: storagetest.Get, Name: "runs/*/spec"}
	store.Add(reads)
	for range 2 {
		if s := <-statuses; s.Phase != runs.Queued || reads.Fired() > 0 {
			t.Errorf("the run is %s, want %s; its record was read %d times, want 0", s.Phase, runs.Queued, reads.Fired())
		}
	}
	must.Do(t, archive.DeleteRun(t.Context(), run.ID))
	for s := range statuses {
		if s.Phase.Finished() {
			t.Errorf("a removed run is %s", s.Phase)
		}
	}
}
