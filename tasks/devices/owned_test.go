package devices

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// newGroupedBench makes users with groups of the given sizes, interleaved in the source.
func newGroupedBench(t *testing.T, users ...[]int) *bench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	var lines strings.Builder
	for user, groups := range users {
		for i := range slices.Max(append(groups, 0)) {
			for group, n := range groups {
				if i < n {
					fmt.Fprintf(&lines, `{"user":"u%d","text":"%d of %d of %[1]d","group":"album %[3]d"}`+"\n", user, i, group)
				}
			}
		}
	}
	b.parts = b.encodedAs(source.Reading{Level: text.ByteLevel, Grouped: true}, lines.String())
	balanced := b.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, b.parts))
	b.population = b.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, b.parts), taskstest.In(population.BalancedInput, balanced))
	b.users = b.read(b.population, b.parts)
	return b
}

// albumOf is the album that a text says it is of: 1 of "3 of 1 of 0".
func albumOf(text string) string { return strings.Fields(text)[2] }

// textOf is the text of tokens of bytes.
func textOf(tokens string) string {
	var content []byte
	for _, word := range strings.Fields(strings.Trim(tokens, "[]")) {
		var token int
		if _, err := fmt.Sscan(word, &token); err == nil && token >= text.FirstWord {
			content = append(content, byte(token-text.FirstWord))
		}
	}
	return string(content)
}

// No group is on both devices, both have some, and together all but those that the adversary
// does not know.
func TestDevicesShareNoGroup(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 4))
		users := randomGroups(rng)
		p := SplitParams{Seed: seed, Prior: Groups, Share: []float64{0.5, 0.2, 0.9}[rng.IntN(3)], Count: rng.IntN(2), HeldOut: 0.3}
		b := newGroupedBench(t, users...)
		list, all := b.divided(p)
		albums := map[string]bool{} // of shadow devices or not
		sizes := map[int]int{}
		for _, r := range all {
			d, album := list[r.user], fmt.Sprint(list[r.user].User, " ", albumOf(textOf(r.tokens)))
			if shadow, there := albums[album]; there && shadow != d.Shadow {
				t.Errorf("seed %d: the album %s is on both devices", seed, album)
			}
			albums[album] = d.Shadow
			sizes[r.user]++
		}
		for number, d := range list {
			if want := p.sizeOf(d, users[d.User]); sizes[number] != want {
				t.Errorf("seed %d: device %+v of groups %v has %d examples, want %d", seed, d, users[d.User], sizes[number], want)
			}
		}
	}
}

// sizeOf is how many examples a device of a user with such groups has.
func (p *SplitParams) sizeOf(d Device, groups []int) int {
	n := 0
	for _, size := range groups {
		n += size
	}
	reserved := p.reserved(d.User, Owned{n, groups})
	switch {
	case !d.Shadow:
		return n - reserved
	case p.Count > 0:
		return p.Count
	}
	return reserved
}

func randomGroups(rng *rand.Rand) [][]int {
	users := make([][]int, 3+rng.IntN(5))
	for user := range users {
		for range 2 + rng.IntN(4) {
			users[user] = append(users[user], 1+rng.IntN(6))
		}
	}
	return users
}

// Of the groups in the order in which they are drawn, no other number of the first ones comes
// nearer to the share that was asked for.
func TestReservedGroupsComeNearestToTheShare(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := SplitParams{Seed: seed, Prior: Groups, Share: rng.Float64()}
		for user, groups := range randomGroups(rng) {
			o := Owned{Groups: groups}
			for _, n := range groups {
				o.Examples += n
			}
			order, kept, examples := p.reservedGroups(user, o)
			if kept < 1 || kept >= len(groups) {
				t.Fatalf("%d of %d groups are reserved", kept, len(groups))
			}
			sum, best := 0, math.Inf(1)
			for _, g := range order[:len(order)-1] {
				sum += groups[g]
				best = min(best, math.Abs(float64(sum)-p.Share*float64(o.Examples)))
			}
			if away := math.Abs(float64(examples) - p.Share*float64(o.Examples)); away > best+1e-9 {
				t.Errorf("%d of %d examples are reserved for a share of %g, and %g would be nearer", examples, o.Examples, p.Share, best)
			}
		}
	}
}

// Cells that differ in the number of prior examples train the same anonymous devices, and a
// larger prior has a smaller one.
func TestPriorsOfGroupsArePaired(t *testing.T) {
	t.Parallel()
	groups := []uint32{3, 0, 0, 1, 3, 3, 1, 0, 2, 2, 2, 1, 0, 3}
	p := SplitParams{Seed: 6, Prior: Groups, Share: 0.5}
	all, reserved := p.byGroup(2, groups)
	var before []int
	for p.Count = 1; p.Count <= len(reserved); p.Count++ {
		private, prior := p.byGroup(2, groups)
		if !slices.Equal(private, all) || len(prior) != p.Count {
			t.Errorf("with %d examples the private ones are %v, in all %v; the prior is %v", p.Count, private, all, prior)
		}
		if slices.ContainsFunc(before, func(x int) bool { return !slices.Contains(prior, x) }) {
			t.Errorf("the prior %v is not in %v", before, prior)
		}
		before = prior
	}
	if len(before) == 0 || !slices.Equal(before, reserved) {
		t.Errorf("the largest prior is %v, want %v", before, reserved)
	}
}

func TestUsersWithTooFewGroupsAreNamed(t *testing.T) {
	t.Parallel()
	b := newGroupedBench(t, []int{3, 4}, []int{5}, []int{2, 2, 2}, []int{1, 1})
	p := SplitParams{Prior: Groups, Share: 0.5}
	_, err := b.split(p)
	few, ok := errors.AsType[*TooFewError](err)
	if !ok || !tasks.IsPermanent(err) || !slices.Equal(few.Users, []int{1}) {
		t.Fatalf("the error is %v", err)
	}
	for _, want := range []string{"1 of 4 users", "user 1 has 1 group of 5", "two groups", "at_least_groups: 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	p.Count = 2
	if _, err := b.split(p); err == nil || !strings.Contains(err.Error(), "2 of 4 users") || !strings.Contains(err.Error(), "user 3 has 2 groups of 2") {
		t.Errorf("with a prior of 2: %v", err)
	}
	p.Count, p.AtLeastGroups = 0, 2
	if list, _ := b.divided(p); len(list) != 6 || list[2].User != 2 {
		t.Errorf("users of at least two groups have devices %v", list)
	}
	p.AtLeastGroups = 4
	if _, err := b.split(p); err == nil || !strings.Contains(err.Error(), "at least 4 groups") {
		t.Errorf("nobody is left, and the error is %v", err)
	}
}

// Groups of a population without groups are refused by an error that says so.
func TestSplitByGroupsRejectsPopulationWithoutGroups(t *testing.T) {
	t.Parallel()
	b := newBench(t, 9, 9)
	_, err := b.split(SplitParams{Prior: Groups, Share: 0.5})
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "was read without groups") {
		t.Errorf("the error is %v", err)
	}
	_, err = b.split(SplitParams{Prior: Random, Share: 0.5, AtLeastGroups: 2})
	must.Say(t, err, "at least 2 groups, and the prior is random")
}

// The bytes of a world that is divided by groups do not change.
func TestGoldenSplitOfGroups(t *testing.T) {
	t.Parallel()
	b := newGroupedBench(t, []int{3, 4, 1}, []int{5, 2}, []int{2, 2, 2, 3, 1})
	var digests []byte
	for _, p := range []SplitParams{
		{Seed: 1, Prior: Groups, Share: 0.5},
		{Seed: 1, Prior: Groups, Share: 0.4, Count: 1, HeldOut: 0.3},
	} {
		digests = fmt.Appendln(digests, b.Run(Split, p, b.data()...).Digest())
	}
	taskstest.File(t, "testdata/groups.txt", digests)
}

// profiled adds two profiles, of three examples and of one, to a node of devices.
func (b *bench) profiled(divided *taskstest.Node) *taskstest.Node {
	b.t.Helper()
	lines := `{"user":"weapons","text":"sabre"}
{"user":"guitars","text":"lute"}
{"user":"weapons","text":"bow"}
{"user":"weapons","text":"pike"}
`
	corpus := b.Run(datasets.Import, datasets.ImportParams{
		Sources: []storage.Digest{b.Import([]byte(lines))}, Reading: source.Reading{Level: text.ByteLevel},
	})
	encoded := b.Run(datasets.Encode, datasets.EncodeParams{Level: text.ByteLevel}, taskstest.In(datasets.CorpusInput, corpus))
	return b.Run(Profiles, struct{}{}, taskstest.In(population.Input, divided),
		taskstest.In(ProfilesInput, encoded), taskstest.In(datasets.CorpusInput, corpus))
}

// The devices that are there keep their numbers and examples, canaries with them; profiles have
// devices after them.
func TestProfileDevicesFollowExistingDevices(t *testing.T) {
	t.Parallel()
	b := newBench(t, 12, 9, 17)
	divided := must.Get(b.split(SplitParams{Seed: 1, Prior: Random, Share: 0.5, Unseen: 0.3}))(t)
	node := b.profiled(divided)
	list, before := b.devices(node), b.devices(divided)
	want := append(slices.Clone(before), Device{User: 3, Shadow: true, Set: Profile}, Device{User: 4, Shadow: true, Set: Profile})
	if !slices.Equal(list, want) {
		t.Errorf("the devices are %+v, want %+v", list, want)
	}
	is, was := b.read(node, node), b.read(divided, divided)
	for device := range before {
		if !slices.Equal(of(is, device), of(was, device)) {
			t.Errorf("device %d has %v, before %v", device, of(is, device), of(was, device))
		}
	}
	if first, second := of(is, len(before)), of(is, len(before)+1); len(first) != 3 || len(second) != 1 {
		t.Errorf("the profiles have %v and %v", first, second)
	}
	names, err := ReadProfiles(t.Context(), b.Task(taskstest.In("d", node)), "d")
	if err != nil || !slices.Equal(names, []string{"weapons", "guitars"}) {
		t.Errorf("the profiles are %v, %v", names, err)
	}
	s, err := readWorld(b, node)
	then, _ := readWorld(b, divided)
	then.Devices, then.Profiles, then.ProfileExamples = len(list), 2, 4
	if err != nil || s != then {
		t.Errorf("the summary is %+v, %v, want %+v", s, err, then)
	}
}

func TestGoldenProfiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, 14, 9)
	taskstest.Golden(t, b.profiled(b.Run(Split, SplitParams{Seed: 1, Prior: Random, Share: 0.5}, b.data()...)))
}
