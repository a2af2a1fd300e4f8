package devices

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
)

// Private and prior examples have nothing in common, have the sizes that were asked for, and
// come from their user, canaries with them.
func TestDevicesShareNoExample(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := randomParams(rng)
		b := newBench(t, randomSizes(rng, p.Needed())...)
		list, all := b.divided(p)
		taken := map[int][]string{}
		for number, d := range list {
			got, n := of(all, number), len(of(b.users, d.User))
			want := n - rounded(p.Share, n)
			if d.Shadow && p.Count > 0 {
				want = p.Count
			} else if d.Shadow {
				want = n - want
			}
			if len(got) != want {
				t.Errorf("seed %d: device %+v of a user with %d examples has %d, want %d", seed, d, n, len(got), want)
			}
			taken[d.User] = append(taken[d.User], got...)
		}
		for user, examples := range taken {
			left := sorted(of(b.users, user))
			for _, x := range examples {
				at, there := slices.BinarySearch(left, x)
				if !there {
					t.Fatalf("seed %d: devices of user %d have %s once too often", seed, user, x)
				}
				left = slices.Delete(left, at, at+1)
			}
		}
	}
}

func TestUsersAreDividedIntoSets(t *testing.T) {
	t.Parallel()
	sizes := slices.Repeat([]Owned{{Examples: 4}}, 12)
	p := SplitParams{Seed: 3, Prior: Random, Share: 0.5, Unseen: 0.25, HeldOut: 1. / 3}
	w := must.Get(p.Divide(sizes))(t)
	users := map[Set][]int{}
	for number, d := range w.Devices {
		if d.Shadow {
			if before := w.Devices[number-1]; before.Shadow || before.User != d.User {
				t.Errorf("the shadow device %d of user %d stands after %+v", number, d.User, before)
			}
			continue
		}
		users[d.Set] = append(users[d.Set], d.User)
	}
	if len(users[Seen]) != 5 || len(users[Unseen]) != 3 || len(users[HeldOut]) != 4 || len(w.Devices) != 5*2+3+4*2 {
		t.Errorf("12 users are divided into %v, with %d devices", users, len(w.Devices))
	}
	p.Unseen = 0.5
	other := must.Get(p.Divide(sizes))(t)
	var heldOut []int
	for _, d := range other.Devices {
		if d.Set == HeldOut && !d.Shadow {
			heldOut = append(heldOut, d.User)
		}
	}
	if !slices.Equal(heldOut, users[HeldOut]) {
		t.Errorf("with more unseen users %v are held out, before %v", heldOut, users[HeldOut])
	}
}

func TestAChronologicalPriorComesFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, 9, 6)
	_, all := b.divided(SplitParams{Prior: Chronological, Share: 0.5, Count: 2})
	first, second := of(b.users, 0), of(b.users, 1)
	for device, want := range [][]string{first[5:], first[:2], second[3:], second[:2]} {
		if got := of(all, device); !slices.Equal(got, want) {
			t.Errorf("device %d has %v, want %v", device, got, want)
		}
	}
}

// Cells that differ in the number of prior examples train the same anonymous devices, and a
// larger prior has a smaller one.
func TestPriorsOfDifferentSizesArePaired(t *testing.T) {
	t.Parallel()
	p := SplitParams{Seed: 5, Prior: Random, Share: 0.5}
	all, reserved := p.examples(7, 40)
	p.Count = 3
	private, few := p.examples(7, 40)
	p.Count = 11
	_, more := p.examples(7, 40)
	if !slices.Equal(private, all) || len(few) != 3 || len(more) != 11 {
		t.Fatalf("private examples %v and %v, priors %v and %v", all, private, few, more)
	}
	for i, larger := range [][]int{more, reserved} {
		smaller := [][]int{few, more}[i]
		if slices.ContainsFunc(smaller, func(x int) bool { return !slices.Contains(larger, x) }) {
			t.Errorf("the prior %v is not in %v", smaller, larger)
		}
	}
}

// The control keeps the sizes of devices and all examples, canaries included, and mixes them
// over users.
func TestTheControlShufflesTheExamplesOfAllDevices(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20, 30, 14)
	p := SplitParams{Seed: 2, Prior: Random, Share: 0.5}
	list, all := b.divided(p)
	p.IID = true
	controls, mixed := b.divided(p)
	if !slices.Equal(list, controls) {
		t.Errorf("devices %v, in the control %v", list, controls)
	}
	var before, after []string
	kept := 0
	for device := range list {
		was, is := of(all, device), of(mixed, device)
		if len(was) != len(is) {
			t.Errorf("device %d has %d examples, in the control %d", device, len(was), len(is))
		}
		for _, x := range is {
			if slices.Contains(was, x) {
				kept++
			}
		}
		before, after = append(before, was...), append(after, is...)
	}
	if !slices.Equal(sorted(before), sorted(after)) {
		t.Error("the control has other examples")
	}
	// About 12 of 64 examples stay by chance; 32 do with a probability below 1e-9.
	if kept > 32 {
		t.Errorf("%d of %d examples are where they were", kept, len(before))
	}
}

func TestUsersWithTooFewExamplesAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20, 3, 16, 7)
	p := SplitParams{Prior: Random, Share: 0.5, Count: 4}
	_, err := b.split(p)
	few, ok := errors.AsType[*TooFewError](err)
	if !ok || !tasks.IsPermanent(err) || !slices.Equal(few.Users, []int{1}) || few.Needed != 7 {
		t.Fatalf("the error is %v", err)
	}
	if !strings.Contains(err.Error(), "1 of 4 users") || !strings.Contains(err.Error(), "user 1 has 3") || !strings.Contains(err.Error(), "at_least: 7") {
		t.Errorf("the error is %v", err)
	}
	p.AtLeast = 16
	if list, _ := b.divided(p); len(list) != 4 || list[0].User != 0 || list[2].User != 2 {
		t.Errorf("users of at least 16 examples have devices %v", list)
	}
	p.AtLeast = 21
	if _, err := b.split(p); err == nil || !strings.Contains(err.Error(), "none of 4 users has at least 21 examples") {
		t.Errorf("nobody is left, and the error is %v", err)
	}
}

// Needed is the least number of examples that can be divided.
func TestNeededIsTheLeastThatCanBeDivided(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.001, 0.1, 0.25, 1. / 3, 0.5, 0.75, 0.999} {
		for _, count := range []int{0, 1, 2, 16, 64} {
			p := SplitParams{Prior: Random, Share: share, Count: count}
			divisible := func(n int) bool {
				return rounded(share, n) >= max(1, count) && n-rounded(share, n) >= 1
			}
			least := 1
			for !divisible(least) {
				least++
			}
			if got := p.Needed(); got != least {
				t.Errorf("a prior of %d out of a share of %g takes %d examples, want %d", count, share, got, least)
			}
		}
	}
}

func TestSplitRejectsBadParameters(t *testing.T) {
	t.Parallel()
	b := newBench(t, 9, 9)
	for want, change := range map[string]func(*SplitParams){
		"prior":                func(p *SplitParams) { p.Prior = "profile" },
		"share of 0":           func(p *SplitParams) { p.Share = 0 },
		"share of 1":           func(p *SplitParams) { p.Share = 1 },
		"-1 prior":             func(p *SplitParams) { p.Count = -1 },
		"shares of 0.6 unseen": func(p *SplitParams) { p.Unseen, p.HeldOut = 0.6, 0.5 },
	} {
		p := SplitParams{Prior: Random, Share: 0.5}
		change(&p)
		if _, err := b.split(p); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", want, err)
		}
	}
}

func TestReadRejectsBadDeviceLists(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	for _, blob := range []string{"", "{}", `[{"user":-1,"set":"seen"}]`, `[{"user":0,"set":"known"}]`, `[{"user":0,"shadow":true,"set":"unseen"}]`} {
		node := g.Put("devices", map[string][]byte{DevicesBlob: []byte(blob)})
		if list, err := Read(t.Context(), g.Task(taskstest.In("d", node)), "d"); err == nil {
			t.Errorf("%s is read as %v", blob, list)
		}
	}
}

func TestGoldenSplit(t *testing.T) {
	t.Parallel()
	b := newBench(t, 11, 8, 15, 9)
	var nodes []*taskstest.Node
	for _, p := range []SplitParams{
		{Seed: 1, Prior: Random, Share: 0.5},
		{Seed: 1, Prior: Chronological, Share: 0.25, AtLeast: 9, Unseen: 1. / 3, HeldOut: 1. / 3},
		{Seed: 1, Prior: Random, Share: 0.5, Count: 2, IID: true},
	} {
		nodes = append(nodes, b.Run(Split, p, b.data()...))
	}
	taskstest.Golden(t, nodes...)
}
