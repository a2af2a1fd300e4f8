package plan

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

func TestNodeIsAvailableIfCommitAndBlobsAreReadable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	memory := storagetest.NewMemory()
	archive := storage.NewArchive(memory)
	key := func(name string) storage.Key { return storage.Key{Digest: storage.DigestOf([]byte(name))} }
	commit := func(name string) *storage.Commit {
		blob := must.Get(archive.PutBlob(ctx, key(name), "model", []byte(strings.Repeat("x", 2*storage.MaxInline)), storage.Durable))(t)
		c := &storage.Commit{Key: key(name), Kind: "test", KindVersion: 1, Attempt: "1", Blobs: []storage.Blob{blob}}
		if _, _, err := archive.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	commit("cached")
	must.Do(t, archive.DeleteBlobs(ctx, commit("evicted")))
	must.Do(t, memory.Create(ctx, "commits/"+key("torn").String(), []byte(`{"sha256`)))
	for name, why := range map[string]string{
		"cached": "cached", "evicted": "evicted: model", "torn": "its commit is torn", "missing": "no cached result",
	} {
		n, err := LookUp(ctx, archive, key(name))
		if err != nil || n.Reason() != why || n.Available() != (name == "cached") {
			t.Errorf("%s: available %v, %q, %v", name, n.Available(), n.Reason(), err)
		}
	}
}

// records are the steps of a chain that have a record, and those among them whose
// checkpoints can be read.
type records struct {
	chain       *Chain
	steps       map[storage.Key]int
	checkpoints map[int]bool
	heads       int
	looks       atomic.Int64
}

func newRecords() *records {
	chain := &Chain{Recipe: storage.Key{Digest: storage.DigestOf([]byte("recipe"))}}
	return &records{chain: chain, steps: make(map[storage.Key]int), checkpoints: make(map[int]bool)}
}

// reach records the objects of a training that has reached a frontier: the
// boundaries, the steps of the open segment, and the checkpoints that are kept.
func (x *records) reach(frontier int, kept []int) {
	for r := 1; r <= frontier; r++ {
		if Boundary(r) || SegmentEnd(r) > frontier || slices.Contains(kept, r) {
			x.steps[x.chain.Key(r)] = r
		}
	}
	for _, r := range append(slices.Clone(kept), frontier) {
		x.checkpoints[r] = true
	}
}

func (x *records) surveyor(kept []int) Surveyor {
	return Surveyor{
		Chain: x.chain,
		Kept: func(frontier int) []int {
			return slices.DeleteFunc(slices.Clone(kept), func(r int) bool { return r > frontier })
		},
		Has: func(_ context.Context, key storage.Key) (bool, error) {
			x.heads++
			return x.steps[key] > 0, nil
		},
		LookUp: func(_ context.Context, key storage.Key) (Stored, error) {
			x.looks.Add(1)
			if x.checkpoints[x.steps[key]] {
				return Stored{Commit: &storage.Commit{}}, nil
			}
			return Stored{}, nil
		},
	}
}

// A survey asks for about as many records as a binary search, for a training of
// any length.
func TestSurveyReadsFewRecords(t *testing.T) {
	t.Parallel()
	const steps, frontier = 200_000, 154_321
	x := newRecords()
	x.reach(frontier, nil)
	got, err := x.surveyor([]int{steps}).Survey(t.Context(), steps, []int{steps})
	if err != nil || got.Frontier != frontier || !slices.Equal(got.Checkpoints, []int{frontier}) {
		t.Errorf("survey %+v, %v, want the frontier %d", got, err, frontier)
	}
	if x.heads > 19 || x.looks.Load() > 1 {
		t.Errorf("%d HEADs and %d reads, want a binary search", x.heads, x.looks.Load())
	}
}

func TestSurveyFindsFrontierAndNearestCheckpoints(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + r.IntN(500)
		frontier := r.IntN(limit + 1)
		draw := func(n int) (steps []int) {
			for range r.IntN(n) {
				steps = append(steps, 1+r.IntN(limit))
			}
			return ascending(steps)
		}
		kept, goals := draw(8), draw(5)
		x := newRecords()
		stored := slices.DeleteFunc(slices.Clone(kept), func(step int) bool { return step > frontier })
		x.reach(frontier, stored)
		got, err := x.surveyor(kept).Survey(t.Context(), limit, goals)
		if err != nil || got.Frontier != frontier {
			t.Fatalf("seed %d: frontier %d, %v, want %d", seed, got.Frontier, err, frontier)
		}
		var want []int
		for _, goal := range append(goals, frontier) {
			for step := min(goal, frontier); step > 0; step-- {
				if x.checkpoints[step] {
					want = append(want, step)
					break
				}
			}
		}
		if want = ascending(want); !slices.Equal(got.Checkpoints, want) {
			t.Errorf("seed %d: frontier %d, kept %v, goals %v: checkpoints %v, want %v", seed, frontier, kept, goals, got.Checkpoints, want)
		}
	}
}

func TestSurveyEndsAtFirstError(t *testing.T) {
	t.Parallel()
	x := newRecords()
	x.reach(250, nil)
	s := x.surveyor(nil)
	away := errors.New("503 slow down")
	asked := 0
	s.Has = func(context.Context, storage.Key) (bool, error) {
		asked++
		return false, away
	}
	if _, err := s.Survey(t.Context(), 300, []int{300}); !errors.Is(err, away) || asked != 1 || x.looks.Load() > 0 {
		t.Errorf("%v after %d questions for records and %d for nodes, want %v after the first", err, asked, x.looks.Load(), away)
	}
}

// Checkpoints that a training with recorded rounds has in store are asked for at once, each once:
// here none is answered before the allowed number of them is asked for.
func TestSurveyLooksUpCheckpointsConcurrently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const steps = 10 * lookUpsAtOnce
		x, goals := newRecords(), []int{}
		for step := 1; step <= steps; step++ {
			goals = append(goals, step)
		}
		x.reach(steps, goals)
		s := x.surveyor(goals)
		lookUp, all := s.LookUp, make(chan struct{})
		var asked atomic.Int64
		s.LookUp = func(ctx context.Context, key storage.Key) (Stored, error) {
			if asked.Add(1) == lookUpsAtOnce {
				close(all)
			}
			<-all
			return lookUp(ctx, key)
		}
		got, err := s.Survey(t.Context(), steps, goals)
		if err != nil || !slices.Equal(got.Checkpoints, goals) || x.looks.Load() != steps {
			t.Errorf("survey %+v, %v with %d look-ups", got, err, x.looks.Load())
		}
	})
}

// A longer run of the same recipe has closed the segment, and a shorter one replays steps of it.
func TestLastStepIsWithinChain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	archive := storage.NewArchive(storagetest.NewMemory())
	chain := &Chain{Recipe: storage.Key{Digest: storage.DigestOf([]byte("recipe"))}, Steps: 150}
	record := func(steps ...int) {
		for _, step := range steps {
			c := &storage.Commit{Key: chain.Key(step), Kind: "test", KindVersion: 1, Attempt: "1"}
			if _, _, err := archive.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(last int) {
		t.Helper()
		if got := must.Get(LastStep(ctx, archive, chain))(t); got != last {
			t.Errorf("the last step is %d, want %d", got, last)
		}
	}
	want(0)
	record(100, 200)
	want(100)
	record(101, 102, 103)
	want(103)
	record(150)
	want(150)
}
