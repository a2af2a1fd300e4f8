package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/storage"
	"coalmine/tasks"
)

func keyOf(text string) storage.Key { return storage.Key{Digest: storage.DigestOf([]byte(text))} }

// plainKey is the hash chain as Key documents it, without memory.
func plainKey(c *Chain, r int) storage.Key {
	h := tasks.NewHasher("chain")
	h.Key(c.Recipe)
	return c.walk(h.Sum(), 0, r)
}

func TestKeysMatchHashChainInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &Chain{Recipe: keyOf(rapid.String().Draw(t, "recipe"))}
		for _, r := range rapid.SliceOfN(rapid.IntRange(0, 450), 1, 12).Draw(t, "steps") {
			if got := c.Key(r); got != plainKey(c, r) {
				t.Fatalf("key of step %d is %s, want %s", r, got, plainKey(c, r))
			}
		}
	})
}

// The number of steps, audits and retention are no part of a chain's identity.
func TestLongerChainExtendsShorterOne(t *testing.T) {
	t.Parallel()
	part := Template{Kind: tasks.Kind{Name: "part", Version: 1}, Params: json.RawMessage(`{}`)}
	short := &Chain{Recipe: Recipe(keyOf("origin"), 4, 1, part, part), Steps: 100}
	long := &Chain{Recipe: Recipe(keyOf("origin"), 4, 1, part, part), Steps: 900, Keep: []int{50}, Every: 10}
	if short.Key(100) != long.Key(100) {
		t.Error("step 100 has another key in the longer chain")
	}
	wider := &Chain{Recipe: Recipe(keyOf("origin"), 5, 1, part, part)}
	if wider.Key(1) == short.Key(1) {
		t.Error("the number of parts does not change the key")
	}
}

func TestSegmentsEndAtTheirBoundary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, end int
		boundary  bool
	}{{1, 100, false}, {99, 100, false}, {100, 100, true}, {101, 200, false}} {
		if SegmentEnd(c.step) != c.end || Boundary(c.step) != c.boundary {
			t.Errorf("step %d ends in %d, boundary %v", c.step, SegmentEnd(c.step), Boundary(c.step))
		}
	}
	if Boundary(0) {
		t.Error("the origin is no boundary")
	}
}

func TestLastingStepsOfChain(t *testing.T) {
	t.Parallel()
	got := (&Chain{Steps: 203, Keep: []int{7, 203}, Every: 80, KeepLast: 1}).LastingSteps()
	if want := []int{7, 80, 100, 160, 200, 201, 202, 203}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNeededNodesFollowTheirInputs(t *testing.T) {
	t.Parallel()
	a, b, c, d := keyOf("a"), keyOf("b"), keyOf("c"), keyOf("d")
	chain := &Chain{Recipe: keyOf("r"), Origin: Ref{Key: a}, Steps: 5, Join: Template{Needs: []Ref{{Key: b}}}}
	node := func(key storage.Key, needs ...Ref) *Node { return &Node{Spec: tasks.Spec{Key: key}, Needs: needs} }
	p := Plan{Nodes: map[storage.Key]*Node{
		a: node(a), b: node(b, Ref{Key: a}), c: node(c, chain.At(2), Ref{Key: b}), d: node(d, Ref{Key: c}),
	}}
	nodes, chains := p.Needed(Ref{Key: c}, chain.At(5))
	var order []storage.Key
	for _, n := range nodes {
		order = append(order, n.Key)
	}
	if want := []storage.Key{a, b, c}; !slices.Equal(order, want) || !slices.Equal(chains, []*Chain{chain}) {
		t.Errorf("nodes %v and %d chains, want %v and the one", order, len(chains), want)
	}
}

func TestJoinsReadThePreviousStepAndAllParts(t *testing.T) {
	t.Parallel()
	shared := Ref{Key: keyOf("data")}
	template := Template{Inputs: []tasks.Input{{Name: "data", Key: shared.Key}}, Needs: []Ref{shared}}
	c := &Chain{Recipe: keyOf("r"), Origin: Ref{Key: keyOf("origin")}, Steps: 3, Width: 2, Part: template, Join: Template{}}
	part := c.PartSpec(1, 1)
	if part.Inputs[0] != (tasks.Input{Name: tasks.PreviousInput, Key: c.Origin.Key}) || part.Inputs[1].Key != shared.Key || part.Part != 1 || part.Step != 1 {
		t.Errorf("part of the first step %+v", part)
	}
	join := c.JoinSpec(2)
	want := []storage.Key{c.Key(1), c.PartKey(2, 0), c.PartKey(2, 1)}
	for i, in := range join.Inputs {
		if in.Key != want[i] {
			t.Errorf("input %d of the join is %s, want %s", i, in.Key, want[i])
		}
	}
}

func TestCheckReportsEveryMistake(t *testing.T) {
	t.Parallel()
	a, b := keyOf("a"), keyOf("b")
	node := func(key storage.Key, needs ...Ref) *Node {
		n := &Node{Spec: tasks.Spec{Key: key}, Needs: needs}
		for _, need := range needs {
			n.Inputs = append(n.Inputs, tasks.Input{Name: "in", Key: need.Key})
		}
		return n
	}
	chain := &Chain{Recipe: keyOf("c"), Origin: Ref{Key: a}, Steps: 5}
	good := Plan{
		Nodes:  map[storage.Key]*Node{a: node(a), b: node(b, Ref{Key: a}, chain.At(5))},
		Chains: map[storage.Key]*Chain{chain.Recipe: chain},
		Cells:  []Cell{{Name: "c01", Report: Ref{Key: b}, Model: chain.At(5)}},
	}
	if err := good.Check(); err != nil {
		t.Errorf("a good plan: %v", err)
	}
	for name, c := range map[string]struct {
		plan Plan
		want string
	}{
		"a cell's report elsewhere": {Plan{Nodes: good.Nodes, Chains: good.Chains, Cells: []Cell{{Name: "x", Report: Ref{Key: keyOf("?")}, Model: chain.At(5)}}}, "does not contain"},
		"two cells of one name":     {Plan{Nodes: good.Nodes, Chains: good.Chains, Cells: append(good.Cells, good.Cells...)}, "two cells are named"},
		"a step beyond the chain":   {Plan{Nodes: map[storage.Key]*Node{a: node(a), b: node(b, chain.At(6))}, Chains: good.Chains}, "step 6 of a chain of 5"},
		"a cycle":                   {Plan{Nodes: map[storage.Key]*Node{a: node(a, Ref{Key: b}), b: node(b, Ref{Key: a})}}, "depends on itself"},
		"another key":               {Plan{Nodes: map[storage.Key]*Node{a: node(b)}}, "indexed by another key"},
		"no steps":                  {Plan{Nodes: map[storage.Key]*Node{a: node(a)}, Chains: map[storage.Key]*Chain{a: {Recipe: a, Origin: Ref{Key: a}}}}, "has 0 steps"},
	} {
		if err := c.plan.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestLengthCountsWholeStepsAndTail(t *testing.T) {
	t.Parallel()
	chain := &Chain{Recipe: keyOf("r"), Steps: 60, StepRounds: 100}
	node := Ref{Key: keyOf("tail")}
	for _, c := range []struct {
		what   string
		cell   Cell
		rounds int
		done   []int // at the steps 0, 3, 4 and 60 of the chain
	}{
		{"rounds", Cell{Chain: &Chain{StepRounds: 1}, Model: Ref{Step: 4}}, 4, []int{0, 3, 4, 4}},
		{"whole tasks", Cell{Chain: chain, Model: chain.At(4)}, 400, []int{0, 300, 400, 400}},
		{"with a tail", Cell{Chain: chain, Model: node, Tail: Tail{After: 4, Rounds: 99}}, 499, []int{0, 300, 400, 400}},
		{"nothing but a tail", Cell{Model: node, Tail: Tail{Rounds: 99}}, 99, []int{0, 0, 0, 0}},
		{"a choice after whole tasks", Cell{Chain: chain, Model: node, Tail: Tail{After: 4}}, 400, []int{0, 300, 400, 400}},
		{"no training", Cell{}, 0, []int{0, 0, 0, 0}},
	} {
		if got := c.cell.Rounds(); got != c.rounds {
			t.Errorf("%s: %d rounds, want %d", c.what, got, c.rounds)
		}
		for i, step := range []int{0, 3, 4, 60} {
			if got := c.cell.RoundsDone(step, false); got != c.done[i] {
				t.Errorf("%s: %d rounds are done at step %d, want %d", c.what, got, step, c.done[i])
			}
		}
		if got := c.cell.RoundsDone(0, true); got != c.rounds {
			t.Errorf("%s: %d rounds are done when the model is there, want %d", c.what, got, c.rounds)
		}
	}
}
