package garbage

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
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

// churnEnv says how much garbage to allow, and makes this binary the program that
// TestASmallHeapIsCollectedLess starts.
const churnEnv = "COALMINE_TEST_CHURN"

func TestMain(m *testing.M) {
	if allowed, err := strconv.ParseInt(os.Getenv(churnEnv), 10, 64); err == nil {
		churn(allowed)
		return
	}
	os.Exit(m.Run())
}

var sink []byte

// churn makes 512 MiB of garbage and prints how often it was collected.
func churn(allowed int64) {
	if allowed > 0 {
		Allow(allowed)
	}
	for range 512 << 20 / 4096 {
		sink = make([]byte, 4096)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	os.Stdout.WriteString(strconv.Itoa(int(m.NumGC)))
}

// The collector is one for the process, so that each case has one of its own.
func TestASmallHeapIsCollectedLess(t *testing.T) {
	t.Parallel()
	collections := func(env ...string) int {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), "GOGC=", "GOMEMLIMIT="), env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const allow = churnEnv + "=33554432"
	usual, allowed := collections(churnEnv+"=0"), collections(allow)
	if usual < 3*allowed {
		t.Errorf("%d collections where 32 MiB of garbage are allowed, %d where not", allowed, usual)
	}
	if n := collections(allow, "GOGC=100"); n < 2*allowed {
		t.Errorf("%d collections although GOGC is set, %d without", n, allowed)
	}
	if n := collections(allow, "GOMEMLIMIT=12MiB"); n < 2*allowed {
		t.Errorf("%d collections in spite of a limit of memory, %d without", n, allowed)
	}
}
