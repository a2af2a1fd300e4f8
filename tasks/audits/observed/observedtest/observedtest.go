// Package observedtest gives tests of audits recorded updates that they made themselves.
package observedtest

import (
	"encoding/json"
	"fmt"

	"coalmine/tasks/audits/observed"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

// Inputs are gather nodes with the given updates, a node for each list, and the devices
// where there are any.
func Inputs(g *taskstest.Graph, layout updates.Layout, split []devices.Device, nodes ...[]updates.Update) []taskstest.Edge {
	var edges []taskstest.Edge
	for i, list := range nodes {
		round := g.Put(fmt.Sprint("round ", i), map[string][]byte{updates.ShardBlob(0): shard(layout, list)})
		node := g.Run(updates.Gather, updates.GatherParams{Chunks: 1}, taskstest.In(updates.RoundInput(i+1), round))
		edges = append(edges, taskstest.In(observed.RecordedInput(i), node))
	}
	if split != nil {
		edges = append(edges, taskstest.In(observed.DevicesInput, g.Put("devices", map[string][]byte{devices.DevicesBlob: must(json.Marshal(split))})))
	}
	return edges
}

func shard(layout updates.Layout, list []updates.Update) []byte {
	e := must(updates.NewEncoder(layout))
	for _, u := range list {
		if err := e.Add(u); err != nil {
			panic(err)
		}
	}
	return e.Bytes()
}

// must panics where a test is wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
