// Package observedtest makes recorded updates for tests of audits.
package observedtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

// Inputs returns gather nodes, one for each list of updates, and a node of the devices if there are any.
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

// Names returns the inputs of observed.ReadNames for a number of users, u00, u01 and so on.
func Names(g *taskstest.Graph, users int) []taskstest.Edge {
	var text strings.Builder
	for i := range users * 4 {
		fmt.Fprintf(&text, `{"user":"u%02d","text":"a b c d"}`+"\n", i%users)
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text.String()))}})
	parts := g.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: 4}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, parts))
	pop := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	return []taskstest.Edge{taskstest.In(datasets.CorpusInput, corpus), taskstest.In(population.PartsInput, parts), taskstest.In(population.Input, pop)}
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

// must panics on an error, which is a fault of the test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Values is the length of a Federation's updates. Their Layout has one layer.
const Values = 40

// Layout is the layout of a Federation's updates.
var Layout = updates.Layout{Layers: []updates.Layer{{Name: "a", Values: Values}}}

// Federation makes updates as sums of a vector of their round, a vector of their user in a quarter of the
// values, and noise of standard deviation 1.
type Federation struct {
	Users, Rounds int
	// Cohort is the number of devices of a round.
	Cohort int
	// Own is the standard deviation of the vectors of users.
	Own float64
	// Common is the standard deviation of the vectors of rounds.
	Common float64
	// Unseen and HeldOut are the numbers of users in these sets, the last ones. The others are seen.
	Unseen, HeldOut int
}

// Make returns the devices, and the updates in the order of rounds and devices.
func (f Federation) Make() (split []devices.Device, list []updates.Update) {
	rng := rand.New(rand.NewPCG(9, 2))
	normals := func(n int, scale float64) []float32 {
		v := make([]float32, Values)
		for i := range n {
			v[i] = float32(scale * rng.NormFloat64())
		}
		return v
	}
	var own [][]float32
	for user := range f.Users {
		split = append(split, f.devicesOf(user)...)
		own = append(own, normals(Values/4, f.Own))
	}
	for round := 1; round <= f.Rounds; round++ {
		common := normals(Values, f.Common)
		members := rng.Perm(len(split))[:f.Cohort]
		slices.Sort(members)
		for _, device := range members {
			u := updates.Update{Round: round, Device: device, Values: normals(Values, 1)}
			for i := range u.Values {
				u.Values[i] += common[i] + own[split[device].User][i]
			}
			list = append(list, u)
		}
	}
	return split, list
}

// devicesOf returns the anonymous device of a user and, for a known user, the shadow device.
func (f Federation) devicesOf(user int) []devices.Device {
	anonymous := devices.Device{User: user, Set: devices.Seen}
	switch left := f.Users - user; {
	case left <= f.HeldOut:
		anonymous.Set = devices.HeldOut
	case left <= f.HeldOut+f.Unseen:
		anonymous.Set = devices.Unseen
		return []devices.Device{anonymous}
	}
	shadow := anonymous
	shadow.Shadow = true
	return []devices.Device{anonymous, shadow}
}
