package endtoend_test

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"coalmine/internal/testserver"
)

// A worker that stands still counts as dead, one whose Redis is away waits for it, and both are
// reported; so are its readiness and its finished work.
func TestAWorkerSaysWhatItLosesAndWhatItHasDone(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	redis := testserver.StartRedis(t, "--appendonly", "no")
	store := t.TempDir()
	part := func(args ...string) command {
		c := w.coalmine(args...)
		c.env = []string{"COALMINE_REDIS_URL=" + redis.URL(), "COALMINE_STORE_URL=" + store}
		return c
	}
	says := func(p *process, words string) {
		t.Helper()
		p.await("it says "+words, func() bool { return strings.Contains(p.stderr.String(), words) })
	}
	says(start(t, part("serve", "--listen", "127.0.0.1:0")), "serving ")
	printed(t, part("submit", "experiment.yaml"))
	more := func(n int) func() bool { return progressed(store+"/commits", n) }

	worker := start(t, part("worker", "--slots", "1", "--allow-commands"))
	says(worker, "ready for tasks")
	says(worker, "commands of experiments run here")
	worker.await("it works", more(10))

	worker.signal(syscall.SIGSTOP)
	worker.await("it counts as dead", func() bool { return !succeeds(t, part("health")) })
	worker.signal(syscall.SIGCONT)
	says(worker, "the worker has counted as dead")

	redis.Signal(syscall.SIGSTOP)
	says(worker, "the queue does not answer")
	redis.Signal(syscall.SIGCONT)
	says(worker, "the queue answers again")
	worker.await("it works again", more(10))

	worker.signal(os.Interrupt)
	if code := worker.wait(); code != 0 {
		t.Errorf("exit status %d\n%s", code, worker.stderr.String())
	}
	says(worker, "ending: no more tasks are taken")
	if !regexp.MustCompile(`worker ended.* because="it was interrupted" done=[1-9][0-9]* failed=0`).MatchString(worker.stderr.String()) {
		t.Errorf("it does not say what it has done:\n%s", worker.stderr.String())
	}
}
