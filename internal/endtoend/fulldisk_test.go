//go:build linux

package endtoend_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// Collecting makes room on a disk on which nothing can be written any more.
func TestCollectionMakesRoomOnAFullDisk(t *testing.T) {
	t.Parallel()
	finished := finishedWorkspace(t)
	dir := t.TempDir()
	if !mountStore(t, dir) {
		t.Skip("this user may not mount a file system")
	}
	must.Do(t, os.CopyFS(dir, os.DirFS(finished.dir)))
	w := workspace{t, dir}
	printed(t, w.coalmine("rm", "tiny"))
	ballast := must.Get(ballastIn(dir))(t)
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
	must.Do(t, os.Remove(ballast))
	printed(t, w.coalmine("run", "experiment.yaml"))
	undisturbed(t).equals(t, w.outcome())
}

// A collector in an S3 store without room must be able to open it and to lead.
func TestAFullS3StoreIsOpenedAndLed(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	server.Kill()
	if !mountStore(t, server.Dir) {
		t.Skip("this user may not mount a file system")
	}
	must.Do(t, os.Mkdir(filepath.Join(server.Dir, server.Bucket), 0o755))
	server.Restart()
	must.Get(ballastIn(server.Dir))(t)
	store := storagetest.OpenS3(t, server.URL("store"), server.AccessKey, server.SecretKey)
	archive := storage.NewArchive(store)
	if err := archive.CreateRun(t.Context(), "r", []byte("text")); !errors.Is(err, storage.ErrFull) {
		t.Errorf("there is room: %v", err)
	}
	for want := range 3 {
		if epoch, _, err := archive.NextEpoch(t.Context(), storage.Epoch{Holder: "me"}); err != nil || epoch != want+1 {
			t.Errorf("epoch %d, %v: want %d", epoch, err, want+1)
		}
	}
}
