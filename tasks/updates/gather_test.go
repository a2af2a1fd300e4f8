package updates_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

var small = updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 2}, {Name: "b", Values: 1}}}

// rounds gives the shards of rounds as their joins put them: in round r, chunk j has j devices.
func rounds(t *testing.T, g *taskstest.Graph, layout updates.Layout, numbers []int, chunks int) (edges []taskstest.Edge, all []updates.Update) {
	t.Helper()
	for _, round := range numbers {
		blobs := map[string][]byte{}
		for j := range chunks {
			e := must.Get(updates.NewEncoder(layout))(t)
			for i := range j {
				u := updates.Update{Round: round, Device: 10*j + i, Values: make([]float32, layout.Values())}
				u.Values[0], u.Values[1] = float32(round), float32(-j)
				must.Do(t, e.Add(u))
				all = append(all, u)
			}
			blobs[updates.ShardBlob(j)] = e.Bytes()
		}
		name := updates.RoundInput(round)
		edges = append(edges, taskstest.In(name, g.Put(name, blobs)))
	}
	return edges, all
}

// each goes through all updates of the gather nodes under the names inputs.
func each(ctx context.Context, task *tasks.Task, inputs []string, do func(updates.Update) error) error {
	refs, err := updates.Refs(ctx, task, inputs)
	if err != nil {
		return err
	}
	for _, r := range refs {
		if err := r.Each(ctx, task, do); err != nil {
			return err
		}
	}
	return nil
}

func read(t *testing.T, task *tasks.Task, inputs ...string) (all []updates.Update) {
	t.Helper()
	must.Do(t, each(t.Context(), task, inputs, func(u updates.Update) error {
		u.Values = slices.Clone(u.Values)
		all = append(all, u)
		return nil
	}))
	return all
}

func TestGatheredUpdatesAreReadInTheOrderOfRoundsAndDevices(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	first, all := rounds(t, g, small, []int{1, 2, 5}, 3)
	second, more := rounds(t, g, small, []int{101}, 3)
	task := g.Task(
		taskstest.In("one", g.Run(updates.Gather, updates.GatherParams{Chunks: 3}, first...)),
		taskstest.In("two", g.Run(updates.Gather, updates.GatherParams{Chunks: 3}, second...)),
	)
	if got := read(t, task, "one", "two"); !reflect.DeepEqual(got, append(all, more...)) {
		t.Errorf("read %v, put %v", got, append(all, more...))
	}
	if layout, err := updates.ReadLayout(t.Context(), task, "one"); err != nil || !reflect.DeepEqual(layout, small) {
		t.Errorf("layout %v (%v), want %v", layout, err, small)
	}
	got, err := updates.ReadGathered(t.Context(), task, "one")
	if err != nil || got.Rounds != 3 || got.Updates != 9 || !slices.Equal(got.Shards, []int{9}) || got.Bytes < 9*20 {
		t.Errorf("gathered %+v (%v), want 3 rounds with 9 updates in one shard", got, err)
	}
}

func TestRoundsWithoutDevicesAreGathered(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	edges, _ := rounds(t, g, small, []int{1, 2}, 1) // its only chunk has none
	task := g.Task(taskstest.In("none", g.Run(updates.Gather, updates.GatherParams{Chunks: 1}, edges...)))
	if got := read(t, task, "none"); got != nil {
		t.Errorf("read %v", got)
	}
	if layout, err := updates.ReadLayout(t.Context(), task, "none"); err != nil || !reflect.DeepEqual(layout, small) {
		t.Errorf("layout %v (%v), want %v", layout, err, small)
	}
}

func TestGatherMergesSmallShardsAndKeepsLargeOnes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	// Chunk j of a round has j updates of nearly 1.5 MB.
	layout := updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 350_000}}}
	edges, all := rounds(t, g, layout, []int{1, 2}, 5)
	node := g.Run(updates.Gather, updates.GatherParams{Chunks: 5}, edges...)
	var got updates.Gathered
	node.DecodeMetrics(&got)
	// One and two updates together, three, and four; then another round.
	if want := []int{3, 3, 4, 3, 3, 4}; !slices.Equal(got.Shards, want) || got.Updates != len(all) {
		t.Errorf("%d updates in shards of %v, want %d in %v", got.Updates, got.Shards, len(all), want)
	}
	bytes := 0
	for i := range got.Shards {
		bytes += len(node.Blob(updates.ShardBlob(i)))
	}
	if got.Bytes != int64(bytes) {
		t.Errorf("%d bytes are counted, want %d", got.Bytes, bytes)
	}
	wantAll(t, g.Task(taskstest.In("all", node)), all)
}

// wantAll compares the updates read from the input "all", and checks that a reader holds few
// of them in memory.
func wantAll(t *testing.T, task *tasks.Task, all []updates.Update) {
	t.Helper()
	refs := must.Get(updates.Refs(t.Context(), task, []string{"all"}))(t)
	n, bytes := 0, 0
	for _, r := range refs {
		bytes = 0
		must.Do(t, r.Each(t.Context(), task, func(u updates.Update) error {
			if want := all[n]; u.Round != want.Round || u.Device != want.Device || !slices.Equal(u.Values, want.Values) {
				return fmt.Errorf("update %d is another than was put", n)
			}
			n++
			bytes += 8 + 4*len(u.Values)
			return nil
		}))
		if bytes >= updates.ShardBytes+8+4*len(all[0].Values) {
			t.Errorf("%d bytes are in memory at once", bytes)
		}
	}
	if n != len(all) {
		t.Errorf("read %d of %d updates", n, len(all))
	}
}

func TestLargeShardsAreReadInParts(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	layout := updates.Layout{Layers: []updates.Layer{{Name: "a", Values: updates.ShardBytes / 12}}}
	edges, all := rounds(t, g, layout, []int{1}, 9)
	node := g.Run(updates.Gather, updates.GatherParams{Chunks: 9}, edges...)
	wantAll(t, g.Task(taskstest.In("all", node)), all)
}

func TestSmallShardsFillLargerOnes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	layout := updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 500_000}}}
	var numbers []int
	for i := range 12 {
		numbers = append(numbers, i+1)
	}
	edges, all := rounds(t, g, layout, numbers, 2)
	node := g.Run(updates.Gather, updates.GatherParams{Chunks: 2}, edges...)
	var got updates.Gathered
	node.DecodeMetrics(&got)
	if want := []int{9, 3}; !slices.Equal(got.Shards, want) {
		t.Errorf("shards of %v updates, want %v", got.Shards, want)
	}
	wantAll(t, g.Task(taskstest.In("all", node)), all)
}

func TestReadingUpdatesEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	edges, _ := rounds(t, g, small, []int{1}, 3)
	task := g.Task(taskstest.In("all", g.Run(updates.Gather, updates.GatherParams{Chunks: 3}, edges...)))
	enough, n := errors.New("enough"), 0
	err := each(t.Context(), task, []string{"all"}, func(updates.Update) error { n++; return enough })
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("after %d updates: %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := each(ctx, task, []string{"all"}, func(updates.Update) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("when it was stopped: %v", err)
	}
}

func TestGatherRejectsMixedLayouts(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	edges, _ := rounds(t, g, small, []int{1}, 2)
	half := small
	half.Precision = updates.Float16
	others, _ := rounds(t, g, half, []int{2}, 2)
	if _, err := g.Try(updates.Gather, updates.GatherParams{Chunks: 2}, append(edges, others...)...); err == nil {
		t.Error("rounds of two layouts were gathered")
	}
}

func TestGoldenGather(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	edges, _ := rounds(t, g, small, []int{1, 2}, 3)
	taskstest.Golden(t, g.Run(updates.Gather, updates.GatherParams{Chunks: 3}, edges...))
}

// The order in which an audit lists layers changes nothing: they are read in that of the model.
func TestLayersFollowModelOrder(t *testing.T) {
	t.Parallel()
	layout := updates.Layout{Layers: []updates.Layer{{Name: "embedding"}, {Name: "cell.input"}, {Name: "cell.bias"}, {Name: "output.bias"}}}
	want := []string{"cell", "output.bias", "none"}
	for _, names := range [][]string{{"cell", "output.bias", "none"}, {"none", "output.bias", "cell"}, {"output.bias", "none", "cell"}} {
		if got := layout.InOrder(names); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", names, got, want)
		}
	}
	if got := new(updates.Layout).InOrder([]string{"b", "a"}); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("a layout without layers gives %q", got)
	}
}
