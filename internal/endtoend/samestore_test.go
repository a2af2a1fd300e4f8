package endtoend_test

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
)

// A worker with a mistyped store is the first to take a task, hands it back and
// leaves. Then the leader dies, and the next one finishes the run with a right worker.
func TestAWorkerWithAnotherStoreDoesARunNoHarm(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := newWorkspace(t)
	redis := testserver.StartRedis(t, "--appendonly", "no")
	store, mistyped := t.TempDir(), t.TempDir()
	part := func(store string, args ...string) command {
		c := w.coalmine(args...)
		c.env = []string{"COALMINE_REDIS_URL=" + redis.URL(), "COALMINE_STORE_URL=" + store}
		return c
	}
	serve := func(store string) *process {
		p := start(t, part(store, "serve", "--listen", "127.0.0.1:0"))
		p.await("it serves", func() bool { return strings.Contains(p.stderr.String(), "serving ") })
		return p
	}
	leader := serve(store)
	id := strings.TrimSpace(printed(t, part(store, "submit", "experiment.yaml")))

	stray := start(t, part(mistyped, "worker", "--slots", "2"))
	if code := stray.wait(); code != 2 {
		t.Errorf("the worker with another store exits with %d", code)
	}
	for _, words := range []string{store, mistyped, redis.Addr(), "give both the same --store"} {
		if said := stray.stderr.String(); !strings.Contains(said, words) {
			t.Errorf("it does not say %q:\n%s", words, said)
		}
	}
	if len(nodes(mistyped+"/commits")) > 0 {
		t.Error("it has committed into its own store")
	}

	submits := start(t, part(mistyped, "submit", "experiment.yaml"))
	if code, said := submits.wait(), submits.stderr.String(); code != 2 || !strings.Contains(said, "give both the same --store") || len(nodes(mistyped+"/runs")) > 0 {
		t.Errorf("submit to another store exits with %d: %s", code, said)
	}

	leader.kill()
	serve(store)
	start(t, part(store, "worker", "--slots", "2"))
	printed(t, part(store, "watch", id))
	opened := must.Get(dir.Open(store))(t)
	got := &outcome{printed(t, part(store, "results", id, "--format", "json")), lastingCommits(t, storage.NewArchive(opened))}
	want.equals(t, got)
}
