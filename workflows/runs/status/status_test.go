package status

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/runs"
)

// Other programs read the output of status --json: this test fails when a field is
// renamed.
func TestStatusJSONMatchesGoldenFile(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0).UTC()
	key := storage.Key{Digest: storage.DigestOf([]byte("a node"))}
	left := 90.5
	s := Run{
		Run: "quickstart-1a2b3c4d", Name: "quickstart", Phase: runs.Running, Error: "no plan",
		Submitted: at, Started: at, Finished: at,
		Cells: []Cell{{Cell: "c01", Label: "iid", Phase: runs.Running, Step: 3, Steps: 100, StepRounds: 1, Now: "round 4"}},
		Nodes: Counts{Total: 6, Done: 1, Running: 2, Ready: 3, Waiting: 4, Failed: 5},
		Running: []Attempt{{
			Key: key, Label: "round 4, part 1 of 8", Kind: "training/clients", Attempt: 2, Worker: "w1", Seconds: 1.5, Done: 3, Total: 10,
		}},
		Failures: []Failure{{Key: key, Failure: runs.Failure{
			Label: "audit", Error: "NaN", Attempts: 5, Cells: []string{"c01"}, Time: at,
			Deaths: []runs.Death{{Worker: "w2", Attempt: 1, MemoryBytes: 5, MemoryLimitBytes: 6}},
		}}},
		TokensPerSecond: 1234.5, RateUnit: "examples", SecondsLeft: &left,
		Workers:      []Worker{{ID: "w1", Host: "h", Slots: 2, Running: 1, Draining: true, Build: "v1", CannotHelp: "it is older", MemoryBytes: 7, MemoryLimitBytes: 8, Attempts: 9, Takeovers: 1, Tokens: 100, TokensPerSecond: 12.5, CacheHits: 30, CacheMisses: 10}},
		Queues:       []Queue{{Class: "compute", Slots: 2, Ready: 3, Queued: 2, Running: 1, Retrying: 4, Parked: 5}},
		Health:       Slow,
		LastProgress: at,
		Waits: []Wait{{
			Reason: WaitRetry, Since: at, Detail: "again at noon", Tasks: 1, Key: &key, Attempt: 3, Error: "reset", Worker: "w1",
		}},
		Reasons:  []string{"again at noon"},
		Priority: 2, Pinned: true, PinnedCells: []string{"c01"}, Note: "too noisy", Tags: []string{"paper"},
	}
	if rate := s.Rate(); rate != "1234 examples/s" {
		t.Errorf("the rate is %q", rate)
	}
	got := must.Get(json.MarshalIndent(s, "", "  "))(t)
	const golden = "testdata/status.json"
	if *rewrite {
		must.Do(t, os.WriteFile(golden, append(got, '\n'), 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if string(got)+"\n" != string(want) {
		t.Errorf("the JSON is\n%s\nwant that of %s", got, golden)
	}
}

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/status.json")

func TestHealthFollowsWaitReasons(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		waits  []WaitReason
		atWork bool
		want   Health
	}{
		{nil, true, Working},
		{nil, false, Working},
		{[]WaitReason{WaitPaused}, false, Paused},
		{[]WaitReason{WaitCoordinator}, false, Stuck},
		{[]WaitReason{WaitQueue}, false, Stuck},
		{[]WaitReason{WaitStore}, true, Stuck},
		{[]WaitReason{WaitSpace, WaitRetry}, true, Stuck},
		{[]WaitReason{WaitWorker}, false, Stuck},
		{[]WaitReason{WaitKind}, false, Stuck},
		{[]WaitReason{WaitKind}, true, Slow}, // other tasks of the run are at work
		{[]WaitReason{WaitKey, WaitRetry}, true, Slow},
		{[]WaitReason{WaitRetry}, false, Slow},
		{[]WaitReason{WaitSlot}, false, Slow},
		{[]WaitReason{WaitTidying}, false, Slow},
	} {
		var waits []Wait
		for _, reason := range x.waits {
			waits = append(waits, Wait{Reason: reason})
		}
		if got := HealthOf(waits, x.atWork); got != x.want {
			t.Errorf("waiting for %v, at work %v: %s, want %s", x.waits, x.atWork, got, x.want)
		}
	}
}
