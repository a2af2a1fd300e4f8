package experiment

import (
	"fmt"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

// Record keeps the updates that the devices of a training send to the server: each device's in each
// recorded round, after clip, noise and compression, for audits that read them. A device is a user of the cohort.
type Record struct {
	// Rounds between recorded rounds, by default 1.
	Every int `json:"every,omitzero" range:"[1,1000000000]" unit:"rounds"`
	// Recorded rounds, in place of every: one number or a list of at most 10,000.
	Rounds []int `json:"rounds,omitempty" range:"[1,1000000000]" unit:"rounds" also:"at"`
	// Recorded layers, in this order: tensors such as cell.input, or units such as cell. One or a list.
	// Absent: all.
	Layers []string `json:"layers,omitempty" also:"tensors"`
	// Precision of the stored values.
	Precision updates.Precision `json:"precision" default:"float32"`
	// Values to which longer layers are projected, by a seeded sparse matrix of signs that preserves inner
	// products in expectation.
	Project int `json:"project,omitzero" range:"[4,1000000]" unit:"values" also:"projection dimensions" source:"Kane and Nelson 2014, figure 1"`
}

// Compress is the compression of a client's update. At least one field is given; if both are, the
// kept elements are rounded.
type Compress struct {
	// Share of the elements kept: the largest magnitudes over all tensors. Others become 0.
	Keep numbers.Probability `json:"keep,omitzero" range:"(0,1)" also:"top_k topk" source:"Aji and Heafield 2017, section 3"`
	// Bits of a kept element: every tensor has 2^bits - 1 levels between plus and minus its largest
	// magnitude, and unbiased random rounding takes one of the two nearest.
	Bits int `json:"bits,omitzero" range:"[2,16]" unit:"bits" also:"quantize" source:"Alistarh et al. 2017, section 3.1"`
}

// Config returns the compression for tasks, or nil without one.
func (c *Compress) Config() *training.Compression {
	if c == nil {
		return nil
	}
	return &training.Compression{Keep: c.Keep.Float64(), Bits: c.Bits}
}

// complete sets the default of Every, and sorts Rounds.
func (r *Record) complete() {
	if r == nil {
		return
	}
	if r.Every == 0 && len(r.Rounds) == 0 {
		r.Every = 1
	}
	r.Rounds = slices.Compact(slices.Sorted(slices.Values(r.Rounds)))
}

// maxRecorded is the maximum number of recorded rounds. Each adds an edge to a plan.
const maxRecorded = 10_000

// Recording returns the recording of updates, with all recorded layers listed, and its layout. It returns
// nil without a recording. With training.client_command, whose program alone knows the network, it returns
// the layers as in the file, and a layout without layers.
func (e *Experiment) Recording() (*updates.Recording, updates.Layout, error) {
	r := e.Training.Record
	if r == nil {
		return nil, updates.Layout{}, nil
	}
	recording := &updates.Recording{Every: r.Every, Rounds: r.Rounds, Layers: r.Layers, Project: r.Project}
	if r.Precision != updates.Float32 {
		recording.Precision = r.Precision
	}
	if e.ClientProgram() != nil {
		return recording, updates.Layout{Precision: recording.Precision}, nil
	}
	network, err := checkpoints.NewNetwork(e.Model.Config(&e.Data))
	if err != nil {
		return nil, updates.Layout{}, err
	}
	layout, err := recording.Layout(network)
	if err != nil {
		return nil, layout, err
	}
	recording.Layers = nil
	for _, layer := range layout.Layers {
		recording.Layers = append(recording.Layers, layer.Name)
	}
	return recording, layout, nil
}

// recorded returns the recording as audits see it, or nil.
func (e *Experiment) recorded() *audits.Recorded {
	recording, layout, err := e.Recording()
	if err != nil || recording == nil {
		return nil // Parse reports the error
	}
	return &audits.Recorded{Recording: *recording, Layout: layout}
}

// updates checks the compression, noise and recording of clients' updates.
func (c *checker) updates() {
	if c.Training.Central() {
		c.noiseByDevices()
		return
	}
	c.compression()
	c.clientNoise()
	c.noiseByDevices()
	c.recording()
}

func (c *checker) compression() {
	if x := c.Training.Client.Compress; x != nil && x.Keep.IsZero() && x.Bits == 0 {
		const path = "training.client.compress"
		c.fail([]string{path, path + ".keep", path + ".bits"}, "has no effect; expected %s.keep, %s.bits or both", path, path)
	}
}

// clientNoise rejects client noise if the guarantee needs bounded updates. Under add-or-remove, the noise
// of a client reveals whether it took part; after compression, a noisy update is unbounded.
func (c *checker) clientNoise() {
	const noise, compress = "training.client.noise", "training.client.compress"
	p := c.Training.Privacy
	if c.Training.Client.Noise == 0 || p == nil || p.NoiseMultiplier == 0 {
		return
	}
	if scheme, err := privacy.FindScheme(c.Training.Sampling); err == nil && scheme.Neighbouring != privacy.ReplaceOne {
		c.fail([]string{noise, "training.sampling", "training.privacy.noise_multiplier"},
			"needs cohorts of fixed size: with training.sampling %s a device's noise reveals that it takes part, which the epsilon of training.privacy.noise_multiplier does not cover; set training.sampling to %s, or one of the two noises to 0", c.Training.Sampling, privacy.FixedSize)
	}
	if c.Training.Client.Compress != nil {
		c.fail([]string{noise, compress, "training.privacy.noise_multiplier"},
			"is added before compression, so training.privacy.clip, on which the epsilon of training.privacy.noise_multiplier depends, does not bound the result; remove %s, or set one of the two noises to 0", compress)
	}
}

// Shared returns the noise multiplier if devices add the noise of a round, and otherwise 0.
func (p *Privacy) Shared() float64 {
	if p == nil || p.NoiseBy != privacy.ByDevices {
		return 0
	}
	return p.NoiseMultiplier
}

// deviceNoise returns the standard deviation of the noise that a device adds to each element of its update.
func (t *Training) deviceNoise() float64 {
	if z := t.Privacy.Shared(); z > 0 {
		return privacy.NoiseShare(z, t.Privacy.Clip, t.Cohort)
	}
	return t.Client.Noise
}

// noiseByDevices rejects settings in which the noise of devices does not add up to that of the server.
func (c *checker) noiseByDevices() {
	const path = "training.privacy.noise_by"
	t := &c.Training
	if t.Privacy == nil || t.Privacy.NoiseBy != privacy.ByDevices {
		return
	}
	refuse := func(wrong bool, other, why string) {
		if wrong {
			c.fail([]string{path, other}, "is devices, and %s; expected server, or remove %s", why, other)
		}
	}
	if t.Central() {
		c.fail([]string{path, "training.algorithm"}, "is devices, which training.algorithm: sgd does not have; expected server, or fedavg")
		return
	}
	if t.Sampling != privacy.FixedSize {
		c.fail([]string{path, "training.sampling"}, "is devices, each of which adds its share for a cohort of known size; with training.sampling: %s the total noise would differ from that of epsilon; expected server, or training.sampling: %s", t.Sampling, privacy.FixedSize)
	}
	refuse(t.Privacy.Adaptive != nil, "training.privacy.adaptive", "their noise is proportional to a round's clip norm, which would follow a count that needs noise of its own")
	refuse(t.Privacy.Mechanism != nil, "training.privacy.mechanism", "only the party that added the noise of earlier rounds can cancel it")
	refuse(t.Client.Noise > 0, "training.client.noise", "that would be additional noise, which epsilon does not count")
	refuse(t.Client.Compress != nil, "training.client.compress", "compression changes their noise, so that epsilon would not hold")
}

func (c *checker) recording() {
	const path = "training.record"
	r := c.Training.Record
	if r == nil {
		return
	}
	if r.Every > 0 && len(r.Rounds) > 0 {
		c.fail([]string{path + ".rounds", path + ".every"}, "given together with %s.every; give one of them (in a grid, null removes the other)", path)
	}
	if c.Model.Config(&c.Data).Validate() != nil {
		return // reported
	}
	_, layout, err := c.Recording()
	if err != nil {
		c.fail([]string{path + ".layers", "model"}, "does not fit the model: %v", err)
		return
	}
	c.recordedBytes(layout)
}

// recordedBytes limits the bytes that a task records.
func (c *checker) recordedBytes(layout updates.Layout) {
	t := &c.Training
	if t.Chunks < 1 || t.Cohort < 1 {
		return // reported
	}
	devices := (t.Cohort + t.Chunks - 1) / t.Chunks
	if size := float64(devices) * float64(layout.UpdateBytes()); size > updates.MaxTaskBytes {
		c.fail([]string{"training.record", "training.cohort", "training.chunks"},
			"stores %d values for each of the %d devices of a chunk, %.1f GiB per task; expected at most 1 GiB: record fewer layers, project them (training.record.project), or raise training.chunks", layout.Values(), devices, size/(1<<30))
	}
}

// misses returns the field that does not fit a training of this many rounds, and the problem, or "".
func (r *Record) misses(rounds int) (path, problem string) {
	recording := updates.Recording{Every: r.Every, Rounds: r.Rounds}
	count := 0
	if r.Every > 0 {
		count = rounds / r.Every
	} else {
		count = len(recording.RoundsOf(rounds))
	}
	switch last := len(r.Rounds) - 1; {
	case r.Every > rounds:
		return "training.record.every", fmt.Sprintf("is %d; expected at most the %s of the training", r.Every, readable.Count(rounds, "round"))
	case last >= 0 && r.Rounds[last] > rounds:
		return "training.record.rounds", fmt.Sprintf("has round %d; expected at most the %d of the training", r.Rounds[last], rounds)
	case count > maxRecorded:
		return "training.record.every", fmt.Sprintf("records %s; expected at most %d: record fewer", readable.Count(count, "round"), maxRecorded)
	}
	return "", ""
}
