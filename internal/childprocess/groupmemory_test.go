package childprocess

import (
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/must"
)

func TestSmallestCgroupLimitCounts(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	membership := filepath.Join(mount, "self")
	write := func(path, text string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	expect := func(want int64) {
		t.Helper()
		if got := groupMemory(mount, membership); got.Limit != want {
			t.Errorf("limit %d, want %d", got.Limit, want)
		}
	}
	expect(0) // no control groups at all
	write(membership, "1:name=systemd:/other\n0::/pods/worker\n")
	expect(0)
	write(filepath.Join(mount, "pods/worker/memory.max"), "max\n")
	expect(0)
	write(filepath.Join(mount, "pods/memory.max"), "3000\n")
	expect(3000)
	write(filepath.Join(mount, "pods/worker/memory.max"), "2000\n")
	expect(2000)
	write(filepath.Join(mount, "memory.max"), "1000\n") // the root as a container sees it
	expect(1000)
	write(filepath.Join(mount, "memory.stat"), "anon 300\nfile 5000\nshmem 20\nslab_unreclaimable 1\n")
	if got, want := groupMemory(mount, membership), (GroupMemory{Used: 321, Limit: 1000}); got != want {
		t.Errorf("memory %+v, want %+v", got, want)
	}
}
