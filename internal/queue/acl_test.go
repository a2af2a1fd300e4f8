package queue

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// TestQueueNeedsEachDocumentedRight uses the whole queue as the user of the document.
// Redis refuses a command without its right, in scripts too, so a right is needed if its command
// was called, and none is missing if Redis has refused nothing.
func TestQueueNeedsEachDocumentedRight(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := bypass(t, server.Addr())
	rights := testserver.MinRights(t, "s3cret")
	must.Do(t, admin.Do(testContext(t), rights...).Err())
	must.Do(t, admin.ConfigResetStat(testContext(t)).Err())
	called := func(command string) bool {
		return strings.Contains(admin.Info(testContext(t), "commandstats").Val(), "cmdstat_"+command+":")
	}
	useAll(t, mustOpen(t, "redis://coalmine:s3cret@"+server.Addr()+"/3"), called)

	refused, err := admin.Do(testContext(t), "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis refused %v, %v", refused, err)
	}
	for _, right := range rights {
		command, ok := strings.CutPrefix(right.(string), "+")
		if ok && !called(command) {
			t.Errorf("nothing calls %s: remove the right from docs/operations.md", command)
		}
	}
}

// useAll does with the queue all that coordinators, workers and other commands do.
func useAll(t *testing.T, conn *Conn, called func(command string) bool) {
	t.Helper()
	ctx, b := testContext(t), conn.Broker()
	mustAll := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := b.Lease(ctx, "leader", "a", time.Minute)
	mustAll(err, b.Publish(ctx, "status", []byte("fine"), time.Minute), b.Nudge(ctx))
	_, err = b.Published(ctx, "status")
	mustAll(err, b.Release(ctx, "leader", "a"))

	enqueue(t, b, "withdrawn")
	if known, err := b.Known(ctx, []string{"withdrawn"}); err != nil || !known["withdrawn"] {
		t.Fatalf("known: %v, %v", known, err)
	}
	_, err = b.Withdraw(ctx, "withdrawn")
	mustAll(err)

	g := newGate()
	var once sync.Once
	worker := serve(t, conn, "w", func(ctx context.Context, m Message) []byte {
		if m.ID == "stopped" {
			return g.handle(ctx, m)
		}
		once.Do(func() { panic("a handler's own fault") })
		return m.Payload
	})
	enqueue(t, b, "archived")
	must.Await(t, "the message is archived", func() bool {
		state, err := b.state(queueName("compute"), "archived")
		return err == nil && state == asynq.TaskStateArchived
	})
	enqueue(t, b, "archived", "stopped")
	g.awaitEntry(t)
	awaitEach(t, b, "archived")
	mustAll(b.Stop(ctx, "stopped"))
	awaitEach(t, b, "stopped")
	_, err = b.Reports(ctx, 0)
	mustAll(err)
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := b.Reports(ended, time.Minute); err == nil {
		t.Fatal("reports after the end")
	}
	must.Await(t, "the worker lives", func() bool {
		workers, err := b.Workers(ctx)
		return err == nil && len(workers) == 1
	})
	must.Await(t, "asynq checks its idle subscription", func() bool { return called("ping") })
	mustAll(b.Drain(ctx, "w"))
	<-worker.done
}
