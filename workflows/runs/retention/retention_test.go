package retention

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
)

// training is a chain that is trained and tidied behind, step after step.
type training struct {
	t        *testing.T
	memory   *storagetest.Memory
	archive  *storage.Archive
	token    *leadership.Token
	chain    *plan.Chain
	claims   Claims
	frontier int
}

func newTraining(t *testing.T, chain *plan.Chain) *training {
	memory := storagetest.NewMemory()
	x := &training{t: t, memory: memory, archive: storage.NewArchive(memory), chain: chain, claims: Claims{ClaimOf(chain)}}
	x.lead()
	return x
}

// lead begins a new term of leadership.
func (x *training) lead() {
	x.token = must.Get((&leadership.Contest{Archive: x.archive}).Begin(x.t.Context()))(x.t)
}

// large is more than a commit takes inline.
var large = bytes.Repeat([]byte("x"), storage.MaxInline+1)

func (x *training) commit(key storage.Key, blobs ...string) []storage.Blob {
	c := &storage.Commit{Key: key, Kind: "test", KindVersion: 1, Attempt: "1"}
	for _, name := range blobs {
		blob := must.Get(x.archive.PutBlob(x.t.Context(), key, name, large, storage.Durable))(x.t)
		c.Blobs = append(c.Blobs, blob)
	}
	if _, _, err := x.archive.Commit(x.t.Context(), c); err != nil {
		x.t.Fatal(err)
	}
	return c.Blobs
}

// step trains the next step, and returns the nodes to delete then.
func (x *training) step() []Retirement {
	r := x.frontier + 1
	objects := make(map[storage.Key][]storage.Blob)
	for j := range x.chain.Width {
		key := x.chain.PartKey(r, j)
		objects[key] = x.commit(key, tasks.ModelBlob)
	}
	if plan.Boundary(r) {
		x.commit(x.chain.Key(r), tasks.ModelBlob, tasks.SegmentBlob)
	} else {
		x.commit(x.chain.Key(r), tasks.ModelBlob)
	}
	x.frontier = r
	return x.retained().AfterStep(r, objects, r == x.chain.Steps, x.claims)
}

func (x *training) retained() *Chain {
	return &Chain{Shape: x.chain, Frontier: x.frontier, Keeps: func(step int) bool {
		return step == x.frontier || x.claims.Keep(step, x.frontier)
	}}
}

func (x *training) retire(all []Retirement) {
	must.Do(x.t, Delete(x.t.Context(), x.archive, x.token, x.retained().Deletions(all...)))
}

// want are the objects that are to be stored, by the rules of the package comment.
func (x *training) want() []string {
	var names []string
	blob := "/" + storage.DigestOf(large).String()
	for r := 1; r <= x.frontier; r++ {
		kept, key := r == x.frontier || x.claims.Keep(r, x.frontier), x.chain.Key(r).String()
		if kept || plan.Boundary(r) || plan.SegmentEnd(r) > x.frontier {
			names = append(names, "commits/"+key)
		}
		if kept || plan.Boundary(r) { // a boundary keeps its rows, here of the same bytes
			names = append(names, "blobs/"+key+blob)
		}
	}
	slices.Sort(names)
	return names
}

// stored are the objects of nodes in the store.
func (x *training) stored() []string {
	var names []string
	for info, err := range x.memory.List(x.t.Context(), "") {
		if err != nil {
			x.t.Fatal(err)
		}
		if strings.HasPrefix(info.Name, "commits/") || strings.HasPrefix(info.Name, "blobs/") {
			names = append(names, info.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (x *training) check(when string) {
	x.t.Helper()
	got, want := x.stored(), x.want()
	for _, name := range got {
		if !slices.Contains(want, name) {
			x.t.Fatalf("%s, at step %d: %s is left over", when, x.frontier, name)
		}
	}
	if len(got) != len(want) {
		x.t.Fatalf("%s, at step %d: %d objects are stored, want %d", when, x.frontier, len(got), len(want))
	}
}

// randomChain draws a training of at most the given number of steps.
func randomChain(r *rand.Rand, most int) *plan.Chain {
	c := &plan.Chain{
		Recipe: storage.Key{Digest: storage.DigestOf([]byte(fmt.Sprint(r.Uint64())))},
		Steps:  1 + r.IntN(most), Width: r.IntN(3), Every: r.IntN(40), KeepLast: r.IntN(4),
	}
	for range r.IntN(4) {
		c.Keep = append(c.Keep, 1+r.IntN(c.Steps))
	}
	c.Keep = slices.Compact(slices.Sorted(slices.Values(append(c.Keep, c.Steps))))
	return c
}

func TestOnlyKeptObjectsRemainAfterEachStep(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		x := newTraining(t, randomChain(rand.New(rand.NewPCG(seed, 1)), 330))
		for x.frontier < x.chain.Steps {
			x.retire(x.step())
			if x.frontier%7 == 0 || x.frontier == x.chain.Steps {
				x.check(fmt.Sprintf("seed %d", seed))
			}
		}
	}
}

// A leader that dies has not deleted the nodes that its last few steps retired;
// the next one finds them, without looking at more steps.
func TestSuccessorFindsNodesLeftByLeader(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 2))
		x := newTraining(t, randomChain(r, 330))
		for x.frontier < x.chain.Steps {
			lag := 1 + r.IntN(12) // steps before the leader's death whose deletions it has not come to
			for range r.IntN(80) {
				if x.frontier < x.chain.Steps-lag {
					x.retire(x.step())
				}
			}
			for range min(lag, x.chain.Steps-x.frontier) {
				x.step()
			}
			x.lead()
			found, err := plan.NewSurveyor(x.archive, x.chain, x.claims.StepsKept).Survey(t.Context(), x.chain.Steps, nil)
			if err != nil || found.Frontier != x.frontier {
				t.Fatalf("seed %d: found %+v, %v, want the frontier %d", seed, found, err, x.frontier)
			}
			asked := &storagetest.Fault{Op: storagetest.Head, Name: "commits/*"}
			residue := Residue{Archive: storage.NewArchive(storagetest.WithFaults(x.archive.Store(), asked)), Chain: x.chain, Claims: x.claims, Found: found}
			left := must.Get(residue.Find(t.Context()))(t)
			x.retire(left)
			x.check(fmt.Sprintf("seed %d", seed))
			if most := 5*lag + 20; asked.Fired() > most {
				t.Errorf("seed %d: %d records were asked for after a lag of %d steps, want at most %d", seed, asked.Fired(), lag, most)
			}
		}
	}
}

func TestAFormerLeaderDeletesNothing(t *testing.T) {
	t.Parallel()
	x := newTraining(t, &plan.Chain{Recipe: storage.Key{Digest: storage.DigestOf([]byte("x"))}, Steps: 3, Width: 2, Keep: []int{3}})
	former := x.token
	retired := append(x.step(), x.step()...)
	x.lead()
	before := x.stored()
	batch := x.retained().Deletions(retired...)
	if err := Delete(t.Context(), x.archive, former, batch); !errors.Is(err, leadership.ErrDeposed) {
		t.Errorf("deleting as a former leader: %v, want %v", err, leadership.ErrDeposed)
	}
	if !slices.Equal(x.stored(), before) {
		t.Error("something was deleted under an old epoch")
	}
}

func TestAbandonedPassRetiresItsLastStep(t *testing.T) {
	t.Parallel()
	c := Chain{Shape: &plan.Chain{Width: 2}, Frontier: 250}
	for _, x := range []struct {
		step  int
		begun bool
		want  []Retirement
	}{
		{250, false, nil},
		{250, true, []Retirement{{What: Parts, Step: 251}}},
		{120, true, []Retirement{{What: Parts, Step: 121}, {What: WholeStep, Step: 120}, {What: Records, Step: 120}}},
		{220, false, []Retirement{{What: WholeStep, Step: 220}}},
		{0, true, []Retirement{{What: Parts, Step: 1}}},
		{-1, false, nil},
	} {
		got := c.AfterPass(x.step, x.begun)
		same := func(a, b Retirement) bool { return a.What == b.What && a.Step == b.Step }
		if !slices.EqualFunc(got, x.want, same) {
			t.Errorf("a pass given up at %d, begun %v: %+v, want %+v", x.step, x.begun, got, x.want)
		}
	}
}

func TestCommitsOfLateAttemptsAreRetiredAgain(t *testing.T) {
	t.Parallel()
	shape := &plan.Chain{Recipe: storage.Key{Digest: storage.DigestOf([]byte("x"))}, Width: 2}
	var recent Recent
	for r := 1; r <= 5; r++ {
		recent.Remember(shape, r)
	}
	for key, want := range map[storage.Key][]Retirement{
		shape.PartKey(5, 1): {{What: Parts, Step: 5}},
		shape.PartKey(4, 0): {{What: Parts, Step: 4}},
		shape.Key(4):        {{What: WholeStep, Step: 4}},
		shape.Key(5):        nil, // the frontier
		shape.PartKey(3, 0): nil, // no attempt is that late
	} {
		if got := recent.Late(key); len(got) != len(want) || len(got) == 1 && (got[0].What != want[0].What || got[0].Step != want[0].Step) {
			t.Errorf("late: %+v, want %+v", got, want)
		}
	}
}

func TestClaimKeepsListedSteps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := ClaimOf(randomChain(r, 200))
		if r.IntN(2) == 0 {
			c = c.pinned()
		}
		frontier := r.IntN(220)
		kept := c.StepsKept(frontier)
		for step := 1; step <= frontier; step++ {
			if c.Keeps(step, frontier) != slices.Contains(kept, step) {
				t.Fatalf("seed %d, frontier %d: step %d is kept: %v, the list is %v", seed, frontier, step, c.Keeps(step, frontier), kept)
			}
		}
	}
}

func TestAPinnedCellKeepsItsWholeWindow(t *testing.T) {
	t.Parallel()
	recipe := storage.Key{Digest: storage.DigestOf([]byte("x"))}
	chain := &plan.Chain{Recipe: recipe, Steps: 60, Every: 10, KeepLast: 1, Keep: []int{60}}
	p := &plan.Plan{Chains: map[storage.Key]*plan.Chain{recipe: chain}, Cells: []plan.Cell{{Name: "c01", Chain: chain}}}
	for _, x := range []struct {
		pinned []string
		want   []int
	}{{nil, []int{60}}, {[]string{"c01"}, []int{10, 20, 30, 40, 50, 60}}, {[]string{"c02"}, []int{60}}} {
		got := ClaimsOf(&runs.State{PinnedCells: x.pinned}, p)[recipe].StepsKept(60)
		if got = slices.Compact(slices.Sorted(slices.Values(got))); !slices.Equal(got, x.want) {
			t.Errorf("with %v pinned, %v are kept, want %v", x.pinned, got, x.want)
		}
	}
}

func TestLedgerHoldsClaimsOfExistingRuns(t *testing.T) {
	t.Parallel()
	a, b := storage.Key{Digest: storage.DigestOf([]byte("a"))}, storage.Key{Digest: storage.DigestOf([]byte("b"))}
	var l Ledger
	l.Record("first", map[storage.Key]Claim{a: {steps: 10}, b: {steps: 20}})
	l.Record("second", map[storage.Key]Claim{a: {steps: 30}})
	if len(l.On(a)) != 2 || l.On(a).Limit() != 30 || l.On(b).Limit() != 20 {
		t.Errorf("claims on a %+v, on b %+v", l.On(a), l.On(b))
	}
	l.Record("second", map[storage.Key]Claim{a: {steps: 5}})
	l.Remove("first")
	if l.Chains() != 1 || l.On(a).Limit() != 5 || len(l.On(b)) > 0 {
		t.Errorf("after one run has gone: claims on a %+v, on b %+v", l.On(a), l.On(b))
	}
}

// Enter and Strike of runs in any order equal a table by run and chain.
func TestALedgerListsClaimsInTheOrderOfRuns(t *testing.T) {
	t.Parallel()
	const chains = 4
	var recipes [chains]storage.Key
	for i := range recipes {
		recipes[i] = storage.Key{Digest: storage.DigestOf([]byte{byte(i)})}
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		var l Ledger
		var table [chains][6]int // the steps of each run's claim, 0 without one
		for range 40 {
			run, struck := r.IntN(len(table[0])), r.IntN(2) == 0
			name, claims := fmt.Sprint("run", run), make(map[storage.Key]Claim)
			if struck {
				l.Remove(name)
			}
			for i := range recipes {
				switch {
				case r.IntN(2) == 0:
					table[i][run] = 1 + r.IntN(100)
					claims[recipes[i]] = Claim{steps: table[i][run]}
				case struck:
					table[i][run] = 0
				}
			}
			l.Record(name, claims)
		}
		for i, recipe := range recipes {
			var got []int
			for _, c := range l.On(recipe) {
				got = append(got, c.steps)
			}
			want := slices.DeleteFunc(slices.Clone(table[i][:]), func(steps int) bool { return steps == 0 })
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: the claims on chain %d go to steps %v, want %v", seed, i, got, want)
			}
		}
	}
}
