package endtoend_test

import (
	"os"
	"regexp"
	"syscall"
	"testing"
)

// A worker that stands still counts as dead, one whose Redis is away waits for it, and both are
// reported; so are its readiness and its finished work.
func TestWorkerReportsLossesAndFinishedWork(t *testing.T) {
	t.Parallel()
	x, redis := newTeam(t)
	x.serve()
	x.submit()

	worker := x.start("ready for tasks", "worker", "--slots", "1", "--allow-commands")
	worker.says("commands of experiments run here")
	worker.await("it works", x.progressed(10))

	worker.signal(syscall.SIGSTOP)
	worker.await("it counts as dead", func() bool { return !succeeds(t, x.coalmine("health")) })
	worker.signal(syscall.SIGCONT)
	worker.says("the worker has counted as dead")

	redis.Signal(syscall.SIGSTOP)
	worker.says("the queue does not answer")
	redis.Signal(syscall.SIGCONT)
	worker.says("the queue answers again")
	worker.await("it works again", x.progressed(10))

	worker.signal(os.Interrupt)
	if code := worker.wait(); code != 0 {
		t.Errorf("exit status %d\n%s", code, worker.stderr.String())
	}
	worker.says("ending: no more tasks are taken")
	if !regexp.MustCompile(`worker ended.* because="it was interrupted" done=[1-9][0-9]* failed=0`).MatchString(worker.stderr.String()) {
		t.Errorf("it does not say what it has done:\n%s", worker.stderr.String())
	}
}
