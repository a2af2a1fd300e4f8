package updates_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"coalmine/tasks"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

var small = updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 2}, {Name: "b", Values: 1}}}

// rounds gives the shards of rounds as their joins put them: in round r, chunk j has j
// devices.
func rounds(t *testing.T, g *taskstest.Graph, layout updates.Layout, numbers []int, chunks int) (edges []taskstest.Edge, all []updates.Update) {
	t.Helper()
	for _, round := range numbers {
		blobs := map[string][]byte{}
		for j := range chunks {
			e, err := updates.NewEncoder(layout)
			if err != nil {
				t.Fatal(err)
			}
			for i := range j {
				u := updates.Update{Round: round, Device: 10*j + i, Values: make([]float32, layout.Values())}
				u.Values[0], u.Values[1] = float32(round), float32(-j)
				if err := e.Add(u); err != nil {
					t.Fatal(err)
				}
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
	err := each(t.Context(), task, inputs, func(u updates.Update) error {
		u.Values = slices.Clone(u.Values)
		all = append(all, u)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil || got.Rounds != 3 || got.Updates != 9 || got.Shards != 1 || got.Bytes < 9*20 {
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

func TestLargeUpdatesFillManyShards(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	layout := updates.Layout{Layers: []updates.Layer{{Name: "a", Values: updates.ShardBytes / 12}}}
	edges, all := rounds(t, g, layout, []int{1}, 5)
	node := g.Run(updates.Gather, updates.GatherParams{Chunks: 5}, edges...)
	var got updates.Gathered
	node.DecodeMetrics(&got)
	if got.Shards != 4 || got.Updates != len(all) {
		t.Errorf("%d updates in %d shards, want %d of a third of a shard in 4", got.Updates, got.Shards, len(all))
	}
	for i := range got.Shards {
		if n := len(node.Blob(updates.ShardBlob(i))); n >= updates.ShardBytes+layout.UpdateBytes() {
			t.Errorf("shard %d has %d bytes", i, n)
		}
	}
	n := 0
	task := g.Task(taskstest.In("all", node))
	if err := each(t.Context(), task, []string{"all"}, func(u updates.Update) error {
		if want := all[n]; u.Device != want.Device || !slices.Equal(u.Values, want.Values) {
			return fmt.Errorf("update %d is another than was put", n)
		}
		n++
		return nil
	}); err != nil || n != len(all) {
		t.Errorf("read %d of %d updates: %v", n, len(all), err)
	}
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

func TestRoundsOfOtherLayoutsAreNotGathered(t *testing.T) {
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
