package main

import (
	"os"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

const unfinishedFile = `
name: small
data: {source: %s, vocabulary: {size: 40}, users: {words: 60}}
model: {embedding: 4, units: 4}
training: {algorithm: sgd, cohort: 8, rounds: 2, client: {learning_rate: 1}}
audit: {}
`

// A table of pending cells, and the end of a cancelled run, say how the run stands and goes on.
func TestCommandsReportHowToContinueRun(t *testing.T) {
	t.Parallel()
	file, home := smallFiles(t, unfinishedFile, string(taskstest.Text(300)))
	must.Do(t, os.Mkdir(home, 0o700))
	code, out, messages := coalmine(t, "submit", file, "--home", home)
	run := strings.TrimSpace(out)
	if code != exitDone || !strings.Contains(messages, "no process owns this home; to start it: coalmine run --continue "+run) {
		t.Errorf("submit: exit status %d\n%s%s", code, out, messages)
	}
	refuses(t, "'5' in -5; write -- before a negative number (coalmine priority --help lists the flags)", "priority", run, "-5", "--home", home)
	if code, out, messages := coalmine(t, "results", "--home", home); code != exitDone || !strings.Contains(out, "pending") || !strings.Contains(messages, run+" is queued: no process works on it yet") {
		t.Errorf("results: exit status %d\n%s%s", code, out, messages)
	}
	outputOf(t, home, "cancel", run)
	refuses(t, "is cancelled; resume it first (coalmine resume "+run+")", "run", "--continue", run, "--home", home)
	if code, _, messages := coalmine(t, "watch", run, "--home", home); code != exitCellFailed || !strings.Contains(messages, run+" was cancelled; its results so far are kept, and coalmine resume "+run+" continues it\n") {
		t.Errorf("watch: exit status %d\n%s", code, messages)
	}
	if removed := outputOf(t, home, "rm", run); !strings.Contains(removed, "in objects younger than its --older") {
		t.Errorf("rm prints %s", removed)
	}
	if code, out, messages := coalmine(t, "gc", "--home", home); code != exitDone || !strings.Contains(out, "not needed, younger than --older") || !strings.Contains(messages, "if nothing runs, --older 0s deletes them now") {
		t.Errorf("gc: exit status %d\n%s%s", code, out, messages)
	}
}

// A command that only waits does not keep another command from the home.
func TestWatchOfAnIdleHomeLeavesItToOthers(t *testing.T) {
	t.Parallel()
	file, home := smallFiles(t, unfinishedFile, string(taskstest.Text(300)))
	must.Do(t, os.Mkdir(home, 0o700))
	run := strings.TrimSpace(prints(t, "submit", file, "--home", home))
	watch := begin(t, "watch", run, "--home", home)
	watch.says(t, run+" is queued: no process works on it yet; start coalmine serve")
	prints(t, "pause", run, "--home", home)
	prints(t, "cancel", run, "--home", home)
	watch.says(t, run+" was cancelled")
	if code := <-watch.status; code != exitCellFailed {
		t.Errorf("exit status %d of the watch of a cancelled run", code)
	}
}

// A watch outlives the process that works on the run.
func TestWatchGoesOnAfterTheOwnerOfAHome(t *testing.T) {
	t.Parallel()
	long := strings.Replace(unfinishedFile, "rounds: 2,", "rounds: 20000,", 1)
	file, home := smallFiles(t, long, string(taskstest.Text(300)))
	owner := begin(t, "run", file, "--home", home)
	run := strings.TrimPrefix(owner.says(t, "run "), "run ")
	watch := begin(t, "watch", run, "--home", home)
	watch.says(t, "run "+run)
	owner.end()
	owner.says(t, "interrupted")
	watch.says(t, "has ended")
	watch.says(t, "no process works on it")
	prints(t, "cancel", run, "--home", home)
	watch.says(t, run+" was cancelled")
}

func TestCompareRejectsSameRun(t *testing.T) {
	t.Parallel()
	home := smallRun(t, unfinishedFile)
	run := strings.Fields(strings.Split(outputOf(t, home, "status"), "\n")[1])[0]
	refuses(t, `"small" and "latest" are both `+run+"; compare with another run", "compare", "small", "latest", "--home", home)
	refuses(t, `"small/c01" and "latest/c01" are both `+run+"/c01", "compare", "small/c01", "latest/c01", "--home", home)
}
