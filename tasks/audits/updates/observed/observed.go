// Package observed reads the recorded updates of a federation's devices, some of which are the
// adversary's own: shadow devices. The audits of updates share it:
//
//	deanonymization  attacks learn from shadow devices, and name the users of anonymous ones
//	profiles         the same attacks find users that fit a hand-made profile
//	attributes       networks infer an attribute of users
//	linking          similarities of updates find those of one device
//	matching         a network recognizes pairs of updates of one user
//	crossmodal       a network recognizes pairs of an update and a vector of one user
//	updatewords      changed parameters name the words of a device
//
// Package pairs draws and ranks the pairs of linking, matching and crossmodal, and trains networks
// on them.
package observed

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/devices"
	"coalmine/tasks/updates"
)

// Describe completes the description of an audit of the updates of a whole training.
func Describe[F, O any, P interface {
	*F
	audits.Fields
}](d audits.Description) audits.Description {
	d.AtEnd, d.Pairs = true, audits.EverySecret
	return audits.Describe[F, O, P](d)
}

// DevicesInput is devices/split, if users are divided. Otherwise every device is an anonymous user.
const DevicesInput = "devices"

// RecordedInput names gather node i, from 0.
func RecordedInput(i int) string { return fmt.Sprintf("recorded-%d", i) }

// Inputs returns the gather nodes as inputs, in the order of rounds, and the devices if their key is not
// zero.
func Inputs(recorded []storage.Key, split storage.Key) []tasks.Input {
	inputs := lists.Make(len(recorded), func(i int) tasks.Input { return tasks.Input{Name: RecordedInput(i), Key: recorded[i]} })
	if split != (storage.Key{}) {
		inputs = append(inputs, tasks.Input{Name: DevicesInput, Key: split})
	}
	return inputs
}

// View selects a part of the recorded updates, in the parameters of tasks.
type View struct {
	// Layers are layers as of updates.Select; empty for all recorded layers.
	Layers []string `json:"layers,omitempty"`
	// Raw updates keep their recorded length. Others are scaled to length 1 over these layers, unless they
	// are 0.
	Raw bool `json:"raw,omitempty"`
}

// ViewFields choose a View in an audit's block.
type ViewFields struct {
	// Layers of training.record, by tensor or unit. Absent: all.
	Layers []string `json:"layers,omitempty"`
	// Scales updates to length 1, over these layers.
	Normalize bool `json:"normalize" default:"true" source:"Orekondy et al. 2018, section 6"`
}

// View returns the view with the layers in the order of the recording.
func (f *ViewFields) View(s *audits.Setting) View {
	layers := f.Layers
	if s.Recorded != nil {
		layers = s.Recorded.Layout.InOrder(layers)
	}
	return View{Layers: layers, Raw: !f.Normalize}
}

// Reader reads the updates of a task's inputs through a View, in one goroutine.
type Reader struct {
	view    View
	task    *tasks.Task
	inputs  []string
	spans   []updates.Span
	devices []devices.Device // nil without data.devices
	values  []float32
}

// Open opens the recorded updates of a task.
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

func (r *Reader) Values() int {
	n := 0
	for _, s := range r.spans {
		n += s.To - s.From
	}
	return n
}

// Device returns a device by its number. Without devices, it is its user's only one.
func (r *Reader) Device(number int) (devices.Device, error) {
	if r.devices == nil {
		return devices.Device{User: number, Set: devices.Seen}, nil
	}
	if number >= len(r.devices) {
		return devices.Device{}, tasks.Permanent(fmt.Errorf("a recorded update is of device %d, of %d devices: %w", number, len(r.devices), storage.ErrCorrupt))
	}
	return r.devices[number], nil
}

// Observation is an update with its device.
type Observation struct {
	Round  int
	Number int // of the device
	devices.Device
	// Values are the values of the view. They are valid until the next observation.
	Values []float32
}

// Each calls do with all updates, in the order of rounds and devices. A value that is not finite is a
// permanent error.
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

// EachOf is Each for some shards, in their order.
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

func (r *Reader) take(u updates.Update) error {
	at := 0
	for _, s := range r.spans {
		at += copy(r.values[at:], u.Values[s.From:s.To])
	}
	norm := math.Sqrt(kernels.SquaredNorm(r.values))
	if !numbers.IsFinite(norm) {
		return tasks.Permanent(fmt.Errorf("the update of device %d in round %d is not finite: the training has diverged; lower its learning rates", u.Device, u.Round))
	}
	if !r.view.Raw {
		scale(r.values, norm)
	}
	return nil
}

// Normalize scales a vector to length 1, unless it is 0.
func Normalize(x []float32) { scale(x, math.Sqrt(kernels.SquaredNorm(x))) }

func scale(x []float32, norm float64) {
	if norm > 0 {
		kernels.Scale(float32(1/norm), x)
	}
}

// Devices returns the devices in the order of their numbers; nil without data.devices.
func (r *Reader) Devices() []devices.Device { return r.devices }

// CheckRecorded reports a training that does not record the layers of the audit at a path.
func CheckRecorded(s *audits.Setting, path string, layers []string, fail audits.Fail) {
	if !s.Records {
		fail([]string{path, "training.record"}, "reads the updates that devices send, and training.record is absent; expected training.record: {}, or some of its layers")
		return
	}
	if s.Recorded == nil || s.Program != nil {
		return // already reported, or checked when the layers are known
	}
	if _, err := s.Recorded.Layout.Spans(layers...); err != nil {
		fail([]string{path + ".layers", "training.record.layers"}, "names layers that training.record does not keep: %v", err)
	}
}

// CheckOwned reports users that are not the source's, for an audit at a path that uses their names.
func CheckOwned(s *audits.Setting, path string, fail audits.Fail) {
	fail.If(!s.Owned, []string{path, "data.partition", "data.sanitize", "data.disagreement"}, "asks which of the source's users a user is, and cannot tell; expected data.partition: by-user, and neither data.sanitize nor data.disagreement")
}

// Missed returns the probability that a device sends no update in the given number of recorded rounds; 0 if
// rounds are not independent.
func Missed(s *audits.Setting, d *audits.Data, rounds int) float64 {
	if s.Training.Sampling == privacy.Shuffled || d.Users == 0 {
		return 0
	}
	return math.Pow(1-min(1, float64(s.Training.Cohort)/float64(d.Users)), float64(rounds))
}

// CheckDevices reports users that are not divided into devices.
func CheckDevices(s *audits.Setting, path string, fail audits.Fail) {
	fail.If(s.Devices == nil, []string{path, "data.devices"}, "learns from the updates of shadow devices, and data.devices is absent; expected data.devices: {}, which gives every user one")
}
