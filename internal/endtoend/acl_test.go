package endtoend_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
)

// TestAClusterNeedsNoMoreRightsInRedisThanDocumented runs a small cluster as that user: submit,
// pause, resume, drain, and all looks. Redis lists refused commands by user.
func TestAClusterNeedsNoMoreRightsInRedisThanDocumented(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := newWorkspace(t)
	server := testserver.StartRedis(t, "--appendonly", "no")
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = admin.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must.Do(t, admin.Do(ctx, testserver.MinRights(t, "s3cret")...).Err())
	store := t.TempDir()
	part := func(args ...string) command {
		c := w.coalmine(args...)
		c.env = []string{"COALMINE_REDIS_URL=redis://coalmine:s3cret@" + server.Addr() + "/3", "COALMINE_STORE_URL=" + store}
		return c
	}
	leader := start(t, part("serve", "--listen", "127.0.0.1:0"))
	leader.await("it serves", func() bool { return strings.Contains(leader.stderr.String(), "serving ") })
	id := strings.TrimSpace(printed(t, part("submit", "experiment.yaml")))
	printed(t, part("pause", id))
	printed(t, part("resume", id))
	drained := start(t, part("worker", "--slots", "1"))
	drained.await("it is ready", func() bool { return strings.Contains(drained.stderr.String(), "ready for tasks") })
	printed(t, part("status", id, "--json"))
	host := must.Get(os.Hostname())(t)
	printed(t, part("drain", host))
	if code := drained.wait(); code != 0 {
		t.Errorf("the drained worker exits with %d", code)
	}
	start(t, part("worker", "--slots", "2"))
	printed(t, part("watch", id))
	leader.signal(syscall.SIGTERM)
	if code := leader.wait(); code != 0 {
		t.Errorf("the coordinator exits with %d", code)
	}
	printed(t, part("gc"))
	opened := must.Get(dir.Open(store))(t)
	got := &outcome{printed(t, part("results", id, "--format", "json")), lastingCommits(t, storage.NewArchive(opened))}
	want.equals(t, got)
	refused, err := admin.Do(ctx, "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis refused: %v, %v", refused, err)
	}
}
