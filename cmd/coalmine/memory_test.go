package main

import (
	"path/filepath"
	"testing"
	"time"
)

func TestTheMemoryFlagReadsSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"2GiB": 2 << 30, "512MiB": 512 << 20, "1.5 GB": 1_500_000_000, "none": 0} {
		var m memoryFlag
		if err := m.UnmarshalText([]byte(text)); err != nil || m.limit(1) != want {
			t.Errorf("--memory %s is %d (%v), want %d", text, m.limit(1), err, want)
		}
	}
	for _, text := range []string{"", "0", "-1GiB", "2", "lots", "63MiB", "99EiB"} {
		var m memoryFlag
		if err := m.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("--memory %q is taken as %d", text, m.limit(1))
		}
	}
}

func TestAWorkerTakesItsShareOfTheMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what                 string
		slots, cores         int
		group, machine, want int64
	}{
		{"all cores of a machine", 4, 4, 0, 8000, 7200},
		{"one slot of a machine with four cores", 1, 4, 0, 8000, 1800},
		{"more slots than cores", 9, 4, 0, 8000, 7200},
		{"one slot in a container", 1, 4, 1000, 8000, 900},
		{"a container whose limit is beyond the machine", 4, 4, 9000, 8000, 7200},
		{"a container on a system that does not tell its memory", 1, 4, 1000, 0, 900},
		{"a system that tells nothing", 1, 4, 0, 0, 0},
	} {
		if got := memoryFor(c.slots, c.cores, c.group, c.machine); got != c.want {
			t.Errorf("%s: %d of %d bytes, want %d", c.what, got, c.machine, c.want)
		}
	}
}

func TestTheMemoryOfTheMachineIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meminfo")
	if got := machineMemory(path); got != 0 {
		t.Errorf("%d bytes where the system tells nothing", got)
	}
	for text, want := range map[string]int64{"MemTotal:       24676404 kB\nMemFree: 5 kB\n": 24676404 << 10, "nothing": 0} {
		writeFile(t, path, text)
		if got := machineMemory(path); got != want {
			t.Errorf("%d bytes, want %d of %q", got, want, text)
		}
	}
}

func TestAgeParsesDaysAndDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "0d": 0, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "0s": 0, "36500d": 36500 * 24 * time.Hour,
	} {
		var got age
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v, %v: want %v", text, time.Duration(got), err, want)
		}
		var again age
		if err := again.Set(got.String()); err != nil || again != got {
			t.Errorf("%s is printed as %s: %v", text, &got, err)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "-1d", "-3h", "40000d", "99999999999999999999d", "1w", "30"} {
		if got := age(-1); got.Set(text) == nil || got != -1 {
			t.Errorf("%q is read as %v", text, time.Duration(got))
		}
	}
}
