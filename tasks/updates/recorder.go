package updates

import (
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
)

// Recording selects the recorded parts of the devices' updates.
type Recording struct {
	// Every is the number of rounds from one recorded round to the next; Rounds,
	// ascending, lists them instead.
	Every  int   `json:"every,omitempty"`
	Rounds []int `json:"rounds,omitempty"`
	// Layers are trained tensors of the model, in the order of the vectors.
	Layers []string `json:"layers"`
	// Precision is the number format of stored values; "" is Float32.
	Precision Precision `json:"precision,omitempty"`
	// Project is the number of values that longer layers are projected to; 0 projects none.
	Project int `json:"project,omitempty"`
}

// Has reports whether a round, counted from 1, is recorded. nil records none.
func (r *Recording) Has(round int) bool {
	switch {
	case r == nil:
		return false
	case r.Every > 0:
		return round%r.Every == 0
	}
	_, listed := slices.BinarySearch(r.Rounds, round)
	return listed
}

// RoundsOf lists the recorded rounds of a training of the given number of rounds, ascending.
func (r *Recording) RoundsOf(rounds int) []int {
	switch {
	case r == nil:
		return nil
	case r.Every > 0:
		list := make([]int, rounds/r.Every)
		for i := range list {
			list[i] = (i + 1) * r.Every
		}
		return list
	}
	i, _ := slices.BinarySearch(r.Rounds, rounds+1)
	return r.Rounds[:i:i]
}

// LayersOf returns the layers that a network's devices can send: its trained tensors.
func LayersOf(n models.Network) []Layer {
	var layers []Layer
	for _, t := range models.TrainedTensors(n) {
		layers = append(layers, Layer{Name: t.Name, Values: t.Size()})
	}
	return layers
}

// Layout returns the layout of the recorded vectors of a network.
func (r *Recording) Layout(n models.Network) (Layout, error) {
	layers, err := Select(LayersOf(n), r.Layers)
	if err != nil {
		return Layout{}, err
	}
	for i, layer := range layers {
		if r.Project > 0 && layer.Values > r.Project {
			layers[i].Values, layers[i].Of = r.Project, layer.Values
		}
	}
	return Layout{Layers: layers, Precision: r.Precision}, nil
}

// MaxTaskBytes is the largest size of the records of a task, which it holds in memory.
const MaxTaskBytes = 1 << 30

// Recorder records the updates of some devices.
type Recorder struct {
	encoder *Encoder
	seed    uint64
	tensors []recorded
	// projected has room for a layer's projection.
	projected []float32
}

// recorded is a layer with its tensor, and the tensor's number in the model.
type recorded struct {
	Layer
	models.Tensor
	number int
}

// NewRecorder returns an empty recorder with room for the updates of the given number of devices.
// seed is the experiment's seed, which determines the projection.
func (r *Recording) NewRecorder(n models.Network, seed uint64, devices int) (*Recorder, error) {
	layout, err := r.Layout(n)
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("recording updates: %w", err))
	}
	e, err := NewEncoder(layout)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	if size := float64(devices) * float64(layout.UpdateBytes()); size > MaxTaskBytes {
		return nil, tasks.Permanent(fmt.Errorf("recording updates: %d values of each of %d devices are %.1f GiB in a task; expected at most 1 GiB: record fewer layers, project them, or have more chunks", layout.Values(), devices, size/(1<<30)))
	}
	e.Reserve(devices)
	x := &Recorder{encoder: e, seed: seed, projected: make([]float32, r.Project)}
	all := n.Tensors()
	for _, layer := range layout.Layers {
		i := slices.IndexFunc(all, func(t models.Tensor) bool { return t.Name == layer.Name })
		x.tensors = append(x.tensors, recorded{layer, all[i], i})
	}
	return x, nil
}

// Add records the update that a device sends in a round, laid out as the model's trained
// parameters. Devices must come in order.
func (x *Recorder) Add(round, device int, update []float32) {
	x.encoder.begin(round, device)
	for _, r := range x.tensors {
		values := r.View(update)
		if r.Of > 0 {
			Project(x.seed, r.number, values, x.projected[:r.Layer.Values])
			values = x.projected[:r.Layer.Values]
		}
		x.encoder.append(values)
	}
}

// Bytes returns the shard so far.
func (x *Recorder) Bytes() []byte { return x.encoder.Bytes() }
