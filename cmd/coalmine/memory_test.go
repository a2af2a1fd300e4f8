package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheMemoryFlagReadsSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"2GiB": 2 << 30, "512MiB": 512 << 20, "1.5 GB": 1_500_000_000, "none": 0} {
		var m memoryFlag
		if err := m.UnmarshalText([]byte(text)); err != nil || m.limit() != want {
			t.Errorf("--memory %s is %d (%v), want %d", text, m.limit(), err, want)
		}
	}
	for _, text := range []string{"", "0", "-1GiB", "2", "lots", "63MiB", "99EiB"} {
		var m memoryFlag
		if err := m.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("--memory %q is taken as %d", text, m.limit())
		}
	}
}

func TestTheLeastLimitOfAllControlGroupsCounts(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	membership := filepath.Join(mount, "self")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want int64) {
		t.Helper()
		if got := controlGroupMemory(mount, membership); got != want {
			t.Errorf("limit %d, want %d", got, want)
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
}
