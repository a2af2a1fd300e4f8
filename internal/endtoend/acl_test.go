package endtoend_test

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// TestClusterNeedsOnlyDocumentedRedisRights runs a small cluster as that user: submit,
// pause, resume, drain, and all looks. Redis lists refused commands by user.
func TestClusterNeedsOnlyDocumentedRedisRights(t *testing.T) {
	t.Parallel()
	x, server := newTeam(t)
	x.redis = "redis://coalmine:s3cret@" + server.Addr() + "/3"
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = admin.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must.Do(t, admin.Do(ctx, testserver.MinRights(t, "s3cret")...).Err())
	leader := x.serve()
	id := x.submit()
	printed(t, x.coalmine("pause", id))
	printed(t, x.coalmine("resume", id))
	drained := x.start("ready for tasks", "worker", "--slots", "1")
	printed(t, x.coalmine("status", id, "--json"))
	host := must.Get(os.Hostname())(t)
	printed(t, x.coalmine("drain", host))
	if code := drained.wait(); code != 0 {
		t.Errorf("the drained worker exits with %d", code)
	}
	start(t, x.coalmine("worker", "--slots", "2"))
	x.ends(id)
	leader.signal(syscall.SIGTERM)
	if code := leader.wait(); code != 0 {
		t.Errorf("the coordinator exits with %d", code)
	}
	printed(t, x.coalmine("gc"))
	refused, err := admin.Do(ctx, "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis refused: %v, %v", refused, err)
	}
}
