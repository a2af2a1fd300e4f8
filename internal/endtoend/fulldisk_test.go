//go:build linux

package endtoend_test

import (
	"os"
	"strings"
	"testing"
)

// Collecting makes room on a disk on which nothing can be written any more.
func TestCollectionMakesRoomOnAFullDisk(t *testing.T) {
	t.Parallel()
	finished := finishedWorkspace(t)
	dir := t.TempDir()
	if !mountStore(t, dir) {
		t.Skip("this user may not mount a file system")
	}
	if err := os.CopyFS(dir, os.DirFS(finished.dir)); err != nil {
		t.Fatal(err)
	}
	w := workspace{t, dir}
	must(t, w.coalmine("rm", "tiny"))
	ballast, err := ballastIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := run(t, w.coalmine("run", "experiment.yaml")); r.code != 2 || !strings.Contains(r.stderr, "no space left") {
		t.Fatalf("a run on a full disk: exit status %d, %s", r.code, r.stderr)
	}
	survey, _ := w.collect("--dry-run", "--older", "0s")
	if survey.Total().Objects == 0 {
		t.Fatal("there is nothing to collect")
	}
	c, r := w.collect("--older", "0s")
	if r.code != 0 || c.Total() != survey.Total() {
		t.Fatalf("deleted %+v of %+v: exit status %d, %s", c.Total(), survey.Total(), r.code, r.stderr)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	must(t, w.coalmine("run", "experiment.yaml"))
	undisturbed(t).equals(t, w.outcome())
}
