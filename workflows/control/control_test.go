package control_test

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

func TestARunWithoutNewsTellsAnAwayQueueFromAMissingCoordinator(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t)
	conn := must.Get(queue.Open(t.Context(), redis.URL()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	archive := storage.NewArchive(storagetest.NewMemory())
	run, _, err := runs.NewService(archive, nil).Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	must.Do(t, err)
	api := control.New(archive, conn, nil)
	expect := func(want status.WaitReason) {
		t.Helper()
		s := must.Get(api.Status(t.Context(), run.ID))(t)
		if s.Health != status.Stuck || len(s.Waits) != 1 || s.Waits[0].Reason != want {
			t.Errorf("the run is %s and waits for %+v, want %s for %s", s.Health, s.Waits, status.Stuck, want)
		}
	}
	expect(status.WaitCoordinator)
	redis.Kill()
	expect(status.WaitQueue)
}
