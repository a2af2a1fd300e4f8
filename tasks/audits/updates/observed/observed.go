// Package observed reads the recorded updates of a federation's devices, of which some are the
// adversary's own: shadow devices. The audits of updates share it:
//
//	deanonymization  attacks learn from shadow devices, and name the users of anonymous ones
//	profiles         the same attacks find the users who fit a hand-made profile
//	attributes       networks infer an attribute of users
//	linking          similarities of updates tell which are of one device
//	matching         a network tells pairs of updates of one user
//	crossmodal       a network tells pairs of an update and a vector of one user
//	updatewords      parameters that change name the words of a device
//
// Package pairs has the pairs of linking, matching and crossmodal, and the training of networks on
// them. Package deanonymization has the attacks of profiles, too.
package observed

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/devices"
	"coalmine/tasks/updates"
)

// DevicesInput is the node devices/split, where users are divided into devices; without
// one every device is a user of its own, and anonymous.
const DevicesInput = "devices"

// RecordedInput is the name under which a task finds gather node i, counted from 0.
func RecordedInput(i int) string { return fmt.Sprintf("recorded-%d", i) }

// Inputs names the gather nodes, in the order of rounds, and the devices where the key is
// not zero.
func Inputs(recorded []storage.Key, split storage.Key) []tasks.Input {
	var inputs []tasks.Input
	for i, key := range recorded {
		inputs = append(inputs, tasks.Input{Name: RecordedInput(i), Key: key})
	}
	if split != (storage.Key{}) {
		inputs = append(inputs, tasks.Input{Name: DevicesInput, Key: split})
	}
	return inputs
}

// View selects a part of the recorded updates. It is a part of parameters.
type View struct {
	// Layers are names as of updates.Select; none: all that were recorded.
	Layers []string `json:"layers,omitempty"`
	// Raw updates have the length they were sent with; others the length 1, over the
	// layers that are looked at, which an update of nothing but zeros has not.
	Raw bool `json:"raw,omitempty"`
}

// ViewFields are the fields of an audit's block that choose a View.
type ViewFields struct {
	// Layers of training.record that are looked at, such as [dense.kernel], by their names or
	// by those of their units. By default all that are recorded.
	Layers []string `json:"layers,omitempty"`
	// Normalize gives every update the length 1, over the layers that are looked at.
	Normalize bool `json:"normalize" default:"true" source:"Orekondy et al. 2018, section 6"`
}

// View returns the view, with its layers in the order in which they are recorded.
func (f *ViewFields) View(s *audits.Setting) View {
	layers := f.Layers
	if s.Recorded != nil {
		layers = s.Recorded.Layout.InOrder(layers)
	}
	return View{Layers: layers, Raw: !f.Normalize}
}

// Reader reads the updates of a task's inputs through a View. It belongs to one goroutine.
type Reader struct {
	view    View
	task    *tasks.Task
	inputs  []string
	spans   []updates.Span
	devices []devices.Device // nil where nobody was divided
	values  []float32
}

// Open opens the recorded updates of a task. A layer that was not recorded is an error that
// lists those that were.
func (v View) Open(ctx context.Context, t *tasks.Task) (*Reader, error) {
	r := &Reader{view: v, task: t}
	for i := 0; t.Has(RecordedInput(i)); i++ {
		r.inputs = append(r.inputs, RecordedInput(i))
	}
	if len(r.inputs) == 0 {
		return nil, tasks.Permanent(fmt.Errorf("%s has no input %q; expected the recorded updates of a training", t.Kind, RecordedInput(0)))
	}
	layout, err := updates.ReadLayout(ctx, t, r.inputs[0])
	if err != nil {
		return nil, err
	}
	if r.spans, err = layout.Spans(v.Layers...); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("recorded updates: %w", err))
	}
	r.values = make([]float32, r.Values())
	if t.Has(DevicesInput) {
		r.devices, err = devices.Read(ctx, t, DevicesInput)
	}
	return r, err
}

// Values is the length of the vectors.
func (r *Reader) Values() int {
	n := 0
	for _, s := range r.spans {
		n += s.To - s.From
	}
	return n
}

// Device is that of a number. One that nobody was divided into is its user's only one.
func (r *Reader) Device(number int) (devices.Device, error) {
	if r.devices == nil {
		return devices.Device{User: number, Set: devices.Seen}, nil
	}
	if number >= len(r.devices) {
		return devices.Device{}, tasks.Permanent(fmt.Errorf("a recorded update is of device %d, of %d devices: %w", number, len(r.devices), storage.ErrCorrupt))
	}
	return r.devices[number], nil
}

// Observation is an update and who has sent it.
type Observation struct {
	Round  int
	Number int // of the device
	devices.Device
	// Values are those of the view. The next observation overwrites them.
	Values []float32
}

// Each calls do with all updates, in the order of rounds and then of devices. An update
// with a value that is not finite is a permanent error.
func (r *Reader) Each(ctx context.Context, do func(*Observation) error) error {
	refs, err := r.Shards(ctx)
	if err != nil {
		return err
	}
	return r.EachOf(ctx, refs, do)
}

// Shards lists the shards of the updates, for EachOf.
func (r *Reader) Shards(ctx context.Context) ([]updates.Ref, error) {
	return updates.Refs(ctx, r.task, r.inputs)
}

// EachOf is Each for some shards alone, in their order.
func (r *Reader) EachOf(ctx context.Context, shards []updates.Ref, do func(*Observation) error) error {
	for _, shard := range shards {
		err := shard.Each(ctx, r.task, func(u updates.Update) error {
			device, err := r.Device(u.Device)
			if err != nil {
				return err
			}
			if err := r.take(u); err != nil {
				return err
			}
			return do(&Observation{Round: u.Round, Number: u.Device, Device: device, Values: r.values})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// take copies the layers of the view out of an update.
func (r *Reader) take(u updates.Update) error {
	at := 0
	for _, s := range r.spans {
		at += copy(r.values[at:], u.Values[s.From:s.To])
	}
	norm := math.Sqrt(kernels.SquaredNorm(r.values))
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return tasks.Permanent(fmt.Errorf("the update of device %d in round %d is not finite: the training has diverged; lower its learning rates", u.Device, u.Round))
	}
	if !r.view.Raw && norm > 0 {
		kernels.Scale(float32(1/norm), r.values)
	}
	return nil
}

// Devices are all devices, by their numbers; nil where nobody was divided.
func (r *Reader) Devices() []devices.Device { return r.devices }
