package garbage

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
)

func TestThePercentageFollowsWhatLives(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		garbage, live int64
		want          int
	}{
		{32 * mib, 0, 800}, // Go takes 4 MiB for the least
		{32 * mib, 4 * mib, 800},
		{32 * mib, 5 * mib, 600}, // 640, in steps of 50
		{32 * mib, 20 * mib, 150},
		{32 * mib, 32 * mib, 100},
		{32 * mib, 2000 * mib, 100}, // a large heap is collected as ever
	} {
		if got := percentFor(c.garbage, c.live); got != c.want {
			t.Errorf("%d bytes of garbage beside %d live: %d%%, want %d%%", c.garbage, c.live, got, c.want)
		}
	}
}

// allowEnv says how much garbage to allow, and makes this binary the program that
// TestASmallHeapMayGrow starts.
const allowEnv = "COALMINE_TEST_ALLOW"

func TestMain(m *testing.M) {
	if allowed, err := strconv.ParseInt(os.Getenv(allowEnv), 10, 64); err == nil {
		fmt.Print(goalWith(allowed))
		return
	}
	os.Exit(m.Run())
}

// goalWith is the largest heap at which a program that allows garbage is to collect
// it, in bytes, over some collections.
func goalWith(allowed int64) (largest uint64) {
	if allowed > 0 {
		Allow(allowed)
	}
	const collections = 100 // the pace is set some time after the first
	for range collections {
		runtime.GC()
		runtime.Gosched()
		goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(goal)
		largest = max(largest, goal[0].Value.Uint64())
	}
	return largest
}

// The collector is one for the process, so that each case has one of its own.
func TestASmallHeapMayGrow(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		what        string
		env         []string
		least, most uint64
	}{
		{"nothing is allowed", []string{allowEnv + "=0"}, 0, 16 * mib},
		{"32 MiB are allowed", []string{allowEnv + "=33554432"}, 24 * mib, 48 * mib},
		{"GOGC is set", []string{allowEnv + "=33554432", "GOGC=100"}, 0, 16 * mib},
		{"memory is limited", []string{allowEnv + "=33554432", "GOMEMLIMIT=12MiB"}, 0, 12 * mib},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), "GOGC=", "GOMEMLIMIT="), c.env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		goal, err := strconv.ParseUint(string(out), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if goal < c.least || goal > c.most {
			t.Errorf("where %s, garbage is collected at %d bytes: want %d to %d", c.what, goal, c.least, c.most)
		}
	}
}
