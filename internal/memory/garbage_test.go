package memory

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"

	"coalmine/internal/must"
)

func TestGCPercentFollowsLiveAndScannedBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		garbage, bound, live, searched int64
		want                           int
	}{
		{32 * mib, 0, 0, 0, 800}, // Go takes 4 MiB for the least
		{32 * mib, 0, 4 * mib, 4 * mib, 800},
		{32 * mib, 0, 5 * mib, 0, 600}, // 640, in steps of 50
		{32 * mib, 0, 20 * mib, 20 * mib, 150},
		{32 * mib, 0, 32 * mib, 0, 100},
		{32 * mib, 0, 2000 * mib, 2000 * mib, 100}, // a large heap of pointers is collected as ever
		{32 * mib, 0, 2000 * mib, 500 * mib, 20},   // 25, in steps of 10
		{32 * mib, 0, 128 * mib, 5 * mib, 20},      // 25: the 32 MiB
		{32 * mib, 0, 2000 * mib, 5 * mib, 10},     // 12: an eighth
		{32 * mib, 64 * mib, 160 * mib, 160 * mib, 40},
		{32 * mib, 64 * mib, 40 * mib, 40 * mib, 100},    // less than the bound
		{32 * mib, 64 * mib, 8 * mib, 8 * mib, 400},      // 32 MiB, as without a bound
		{32 * mib, 64 * mib, 2000 * mib, 2000 * mib, 10}, // 12: an eighth
	} {
		if got := percentFor(c.garbage, c.bound, heap{c.live, c.searched}); got != c.want {
			t.Errorf("%d bytes of garbage beside %d live, %d searched: %d%%, want %d%%", c.garbage, c.live, c.searched, got, c.want)
		}
	}
}

// Variables that make this binary the program whose collections are looked at.
const (
	// allowEnv is how much garbage it allows, in bytes.
	allowEnv = "COALMINE_TEST_ALLOW"
	// keepEnv selects the kind of its liveBytes: numbers or pointers.
	keepEnv = "COALMINE_TEST_KEEP"
)

const mib = 1 << 20

const liveBytes = 8 * mib

func TestMain(m *testing.M) {
	if allowed, err := strconv.ParseInt(os.Getenv(allowEnv), 10, 64); err == nil {
		fmt.Print(goalWith(allowed, os.Getenv(keepEnv)))
		return
	}
	os.Exit(m.Run())
}

// goalWith is the heap at which a program that allows garbage is to collect it, in
// bytes, after some collections.
func goalWith(allowed int64, keep string) uint64 {
	if allowed > 0 {
		Allow(allowed)
	}
	var numbers []int64
	var pointers []*int64
	switch keep {
	case "numbers":
		numbers = make([]int64, liveBytes/8)
	case "pointers":
		pointers = make([]*int64, liveBytes/8)
	}
	const collections = 100 // the pace is set some time after the first
	for range collections {
		runtime.GC()
		runtime.Gosched()
	}
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	runtime.KeepAlive(numbers)
	runtime.KeepAlive(pointers)
	return goal[0].Value.Uint64()
}

// The collector is one for the process, so that each case has one of its own.
func TestGCGoalFollowsAllowance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what        string
		env         []string
		least, most uint64
	}{
		{"nothing is allowed", []string{allowEnv + "=0"}, 0, 16 * mib},
		{"32 MiB are allowed", []string{allowEnv + "=33554432"}, 24 * mib, 48 * mib},
		{"GOGC is set", []string{allowEnv + "=33554432", "GOGC=100"}, 0, 16 * mib},
		{"memory is limited", []string{allowEnv + "=33554432", "GOMEMLIMIT=12MiB"}, 0, 12 * mib},
		{"numbers live", []string{allowEnv + "=1048576", keepEnv + "=numbers"}, liveBytes, liveBytes + 3*mib},
		{"pointers live", []string{allowEnv + "=1048576", keepEnv + "=pointers"}, 7 * liveBytes / 4, 9 * liveBytes / 4},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), "GOGC=", "GOMEMLIMIT="), c.env...)
		out := must.Get(cmd.Output())(t)
		goal := must.Get(strconv.ParseUint(string(out), 10, 64))(t)
		if goal < c.least || goal > c.most {
			t.Errorf("where %s, garbage is collected at %d bytes: want %d to %d", c.what, goal, c.least, c.most)
		}
	}
}

func TestFloatsAreZeroed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 1 << 10, 1<<19 + 1, 3 << 19} {
		table := Floats(n)
		if len(table) != n || slices.ContainsFunc(table, func(v float32) bool { return v != 0 }) {
			t.Errorf("%d floats: %d, or not zeros", n, len(table))
		}
		for i := range table {
			table[i] = 1 // must not fault
		}
	}
}
