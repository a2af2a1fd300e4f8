// These files measure the time and memory of training an attack on recorded updates: the real task,
// with updates generated shard by shard, so that no store has to hold them; and the share of
// intervals in results that contain the truth.

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"coalmine/bench/cluster"
	"coalmine/models/attacks"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
	"coalmine/tasks/updates"
)

// attackOptions select the measurements.
type attackOptions struct {
	// Attack to train.
	Attack attacks.Kind
	// Updates of shadow devices, each of Values numbers, of the given number of Users.
	Updates, Values, Users int
	// Epochs to train, and the MiB of updates to hold in memory.
	Epochs, Memory int
}

// attackResult of a measurement.
type attackResult struct {
	Attack  attacks.Kind `json:"attack"`
	Updates int          `json:"updates"`
	Values  int          `json:"values"`
	Epochs  int          `json:"epochs"`
	// Seconds of the whole task, with reading and scoring, and of the processor; Heap is the
	// largest live heap, in MB.
	Seconds   float64 `json:"seconds"`
	Processor float64 `json:"processor_seconds"`
	Heap      float64 `json:"heap_mb"`
	ReadGB    float64 `json:"read_gb"`
}

// Print writes a table.
func (r *attackResult) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "attack\tupdates\tvalues\tepochs\tread GB\tseconds\tprocessor s\tlive heap MB\t")
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.0f\t\n", r.Attack, r.Updates, r.Values, r.Epochs, r.ReadGB, r.Seconds, r.Processor, r.Heap)
	_ = t.Flush()
}

func runAttack(ctx context.Context, o attackOptions) (*attackResult, error) {
	if o.Users < 2 || o.Updates < o.Users || o.Values < 1 {
		return nil, fmt.Errorf("%d updates of %d users with %d values; expected at least two users, an update of each, and a value", o.Updates, o.Users, o.Values)
	}
	source, err := newSource(o)
	if err != nil {
		return nil, err
	}
	all := deanonymization.Rounds{From: 1, To: source.rounds}
	params := deanonymization.Params{
		Seed: 1, Attack: o.Attack, Learn: all, Try: deanonymization.Rounds{From: 1, To: 1},
		TrainingFields: deanonymization.TrainingFields{Epochs: o.Epochs, Batch: 32, Memory: o.Memory},
	}
	spec, err := tasks.NewSpec(deanonymization.Reidentify, params, observed.Inputs([]storage.Key{{Digest: storage.DigestOf(nil)}}, storage.Key{Digest: storage.DigestOf([]byte{1})})...)
	if err != nil {
		return nil, err
	}
	before, start := cluster.UsageOf(os.Getpid()), time.Now()
	err = deanonymization.Reidentify.Run(ctx, tasks.NewTask(spec, source, nowhere{}, nil, nil))
	return &attackResult{
		Attack: o.Attack, Updates: source.rounds * o.Users, Values: o.Values, Epochs: o.Epochs,
		Seconds: time.Since(start).Seconds(), Processor: (cluster.UsageOf(os.Getpid()).CPU - before.CPU).Seconds(),
		Heap: float64(source.heap.Load()) / 1e6, ReadGB: float64(source.read.Load()) / 1e9,
	}, err
}

// source generates a gather node with a round in each shard, and the devices.
type source struct {
	attackOptions
	rounds     int
	layout     updates.Layout
	template   []byte // one shard
	header     int    // bytes before the first update
	heap, read atomic.Int64
}

func newSource(o attackOptions) (*source, error) {
	s := &source{attackOptions: o, rounds: (o.Updates + o.Users - 1) / o.Users, layout: updates.Layout{Layers: []updates.Layer{{Name: "layer", Values: o.Values}}}}
	e, err := updates.NewEncoder(s.layout)
	if err != nil {
		return nil, err
	}
	s.header = len(e.Bytes())
	rng, values := rand.New(rand.NewPCG(1, 0)), make([]float32, o.Values)
	for user := range o.Users {
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		if err := e.Add(updates.Update{Round: 1, Device: 2*user + 1, Values: values}); err != nil {
			return nil, err
		}
	}
	s.template = e.Bytes()
	return s, nil
}

// Commit implements tasks.Source.
func (s *source) Commit(context.Context, storage.Key) (*storage.Commit, error) {
	metrics, err := json.Marshal(updates.Gathered{Layout: s.layout, Rounds: s.rounds, Updates: s.rounds * s.Users, Shards: slices.Repeat([]int{s.Users}, s.rounds)})
	c := &storage.Commit{Metrics: metrics}
	for i := range s.rounds {
		c.Blobs = append(c.Blobs, storage.Blob{Name: updates.ShardBlob(i), Size: int64(len(s.template))})
	}
	return c, err
}

// Blob implements tasks.Source. The shard of a round is the template with the number of the
// round; in the first round anonymous devices replace the shadows.
func (s *source) Blob(_ context.Context, _ storage.Key, name string) ([]byte, error) {
	if name == devices.DevicesBlob {
		return s.devices()
	}
	return s.shard(name, 0, int64(len(s.template)))
}

// BlobRange implements tasks.Source: shards are read in parts if memory does not hold many.
func (s *source) BlobRange(_ context.Context, _ storage.Key, name string, offset, length int64) ([]byte, error) {
	return s.shard(name, offset, length)
}

// shard generates a part of a shard.
func (s *source) shard(name string, offset, length int64) ([]byte, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.heap.Store(max(s.heap.Load(), int64(m.HeapAlloc)))
	var shard int
	if _, err := fmt.Sscanf(name, "updates-%d", &shard); err != nil {
		return nil, err
	}
	data := append([]byte(nil), s.template[offset:offset+length]...)
	s.read.Add(length)
	size := 8 + 4*s.Values
	for user := range s.Users {
		from := s.header + user*size - int(offset)
		if from < 0 || from+size > len(data) {
			continue // in another part
		}
		at := data[from:]
		binary.LittleEndian.PutUint32(at, uint32(shard+1))
		if shard == 0 {
			binary.LittleEndian.PutUint32(at[4:], uint32(2*user))
		}
		// This makes every round different.
		binary.LittleEndian.PutUint32(at[8+4*(shard%s.Values):], math.Float32bits(3))
	}
	return data, nil
}

func (s *source) devices() ([]byte, error) {
	var list []devices.Device
	for user := range s.Users {
		list = append(list, devices.Device{User: user, Set: devices.Seen}, devices.Device{User: user, Shadow: true, Set: devices.Seen})
	}
	return json.Marshal(list)
}

var errUnused = errors.New("no task of this benchmark reads that")

func (s *source) Imported(context.Context, storage.Digest) (io.ReadCloser, error) {
	return nil, errUnused
}

type nowhere struct{}

func (nowhere) Put(context.Context, string, []byte, storage.Durability) error { return nil }
