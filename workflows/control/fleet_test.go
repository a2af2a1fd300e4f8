package control_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// A queue without any run knows its live workers; the leader knows their tasks.
func TestWorkersAreListedWithoutRuns(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t)
	conn := must.Get(queue.Open(t.Context(), redis.URL()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	archive := storage.NewArchive(storagetest.NewMemory())
	api := control.New(archive, conn, nil)
	ask := func() *status.Fleet {
		t.Helper()
		return must.Get(api.Workers(t.Context()))(t)
	}
	causes := func(f *status.Fleet) (all []status.WaitReason) {
		for _, w := range f.Waits {
			all = append(all, w.Reason)
		}
		return all
	}
	if f := ask(); len(f.Workers) > 0 || len(f.Waits) != 1 || f.Waits[0].Reason != status.WaitWorker {
		t.Errorf("where nobody is alive: %+v", f)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = conn.Serve(ctx, queue.ConsumerConfig{
			Worker: queue.Worker{
				ID: "w1", Host: "h", Classes: []string{"compute", "gpu"}, Slots: 3, ClassSlots: map[string]int{"gpu": 1},
				Devices: []queue.Device{{ID: "GPU-a", Name: "NVIDIA H100"}},
			},
			Handler: func(context.Context, queue.Message) []byte { return nil },
			Memory:  func() queue.Memory { return queue.Memory{Used: 5, Limit: 9} },
			Work:    func() queue.Work { return queue.Work{Ended: 4, Tokens: 100} },
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	f := ask()
	for len(f.Workers) == 0 && t.Context().Err() == nil {
		f = ask()
	}
	if w := f.Workers[0]; w.ID != "w1" || w.Slots != 3 || w.MemoryBytes != 5 || w.MemoryLimitBytes != 9 || w.Attempts != 4 || w.Tokens != 100 || len(w.Tasks) > 0 || len(w.Devices) != 1 || w.Devices[0].Name != "NVIDIA H100" {
		t.Errorf("without a run the worker is %+v", w)
	}
	if q := f.Queues; len(q) != 2 || q[0].Class != "compute" || q[0].Slots != 3 || q[1].Slots != 1 || len(f.Waits) > 0 {
		t.Errorf("without a run: queues %+v, waits %+v", q, f.Waits)
	}

	run, _, err := runs.NewService(archive, nil).Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	must.Do(t, err)
	if got := causes(ask()); len(got) != 1 || got[0] != status.WaitCoordinator {
		t.Errorf("a run of which no coordinator tells: %v", got)
	}
	task := status.Attempt{Label: "round 4", Attempt: 1, Worker: "w1"}
	told := must.Get(json.Marshal(status.Run{
		Run: run.ID, Phase: run.State.Phase, Running: []status.Attempt{task, {Label: "lost", Worker: "w9"}},
		Workers: []status.Worker{{ID: "w1", Takeovers: 2}}, Queues: []status.Queue{{Class: "compute", Slots: 3, Ready: 7, Queued: 2}},
	}))(t)
	must.Do(t, conn.Broker().Publish(t.Context(), status.PublishedName(run.ID), told, time.Minute))
	f = ask()
	if w := f.Workers[0]; len(w.Tasks) != 1 || w.Tasks[0].Run != run.ID || !reflect.DeepEqual(w.Tasks[0].Attempt, task) || w.Takeovers != 2 {
		t.Errorf("the worker is at %+v, with %d takeovers", w.Tasks, w.Takeovers)
	}
	if q := f.Queues; len(q) != 2 || q[0].Slots != 3 || q[0].Ready != 7 || q[0].Queued != 2 || len(f.Waits) > 0 {
		t.Errorf("queues %+v, waits %+v", q, f.Waits)
	}

	redis.Kill()
	if got := causes(ask()); len(got) != 1 || got[0] != status.WaitQueue {
		t.Errorf("a queue that is away: %v", got)
	}
}
