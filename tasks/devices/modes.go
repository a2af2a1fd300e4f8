package devices

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Modes divides the examples of a background into topics by k-means over their features (Orekondy
// et al. 2018, section 7.1, mm-aug). For the features see NewFeatures.
//
// Means are found on a sample of the examples, and all examples are then assigned to the nearest
// mean. A mode may stay empty.
//
// Params: ModesParams. Input BackgroundInput: datasets/encode, of which it reads the training
// part. Blob:
//
//	modes   the mode of each record, as uint16, little-endian, in the order of the records
var Modes = tasks.Kind{Name: "devices/modes", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runModes)}

// ModesBlob is described at Modes.
const ModesBlob = "modes"

// ModesParams are the parameters of Modes.
type ModesParams struct {
	Seed uint64 `json:"seed"`
	// Modes is the number of modes, 2 to MaxModes, and at most the number of records.
	Modes int `json:"modes"`
	// Level is the level of the background.
	Level text.Level `json:"level,omitzero"`
	// Labels is the number of labels before the pixels of an image; 0 means 1.
	Labels int `json:"labels,omitempty"`
}

// MaxModes bounds ModesParams.Modes.
const MaxModes = 1 << 16

// Bounds of the sample used to find the means.
const (
	samplesPerMode  = 50
	sampledFeatures = 16 << 20 // in total
)

func runModes(ctx context.Context, t *tasks.Task, p *ModesParams) error {
	background, err := population.OpenPart(ctx, t, BackgroundInput, population.Train)
	if err != nil {
		return err
	}
	if n := background.Records(); p.Modes < 2 || p.Modes > MaxModes || p.Modes > n {
		return tasks.Permanent(fmt.Errorf("%d modes of a background of %d examples; expected 2 to %d, and no more than examples: lower data.devices.defence.modes", p.Modes, n, MaxModes))
	}
	set, err := NewFeatures(ctx, p.layout(), background)
	if err != nil {
		return err
	}
	sample, err := p.sample(ctx, set, background)
	if err != nil {
		return err
	}
	means, err := cluster(ctx, sample, p.Modes, seeds.Stream(p.Seed, seeds.BackgroundModes, 1))
	if err != nil {
		return err
	}
	return p.writeModes(ctx, t, set, background, means)
}

// layout returns the layout of the examples of a background. It treats labels of texts as words.
func (p *ModesParams) layout() FeatureLayout {
	if p.Level.Scheme().Images {
		return FeatureLayout{Images: true, Labels: max(1, p.Labels)}
	}
	return FeatureLayout{}
}

// contentOf returns the part of an example that features are made of.
func (p *ModesParams) contentOf(sentence []int32) []int32 {
	_, content := p.layout().Divide(FeatureWords(sentence))
	return content
}

// sample returns the features of some records, drawn without replacement.
func (p *ModesParams) sample(ctx context.Context, f FeatureSet, background *population.Population) ([][]float32, error) {
	n := min(background.Records(), samplesPerMode*p.Modes, max(p.Modes, sampledFeatures/f.Dimension()))
	sample := make([][]float32, n)
	for i, record := range seeds.Stream(p.Seed, seeds.BackgroundModes).Perm(background.Records())[:n] {
		sentence, err := background.ReadRecord(ctx, record)
		if err != nil {
			return nil, err
		}
		sample[i] = make([]float32, f.Dimension())
		f.Fill(sample[i], p.contentOf(sentence))
	}
	return sample, nil
}

func (p *ModesParams) writeModes(ctx context.Context, t *tasks.Task, f FeatureSet, background *population.Population, means [][]float32) error {
	blob, x := make([]byte, 0, 2*background.Records()), make([]float32, f.Dimension())
	for user := range background.Users() {
		sentences, err := background.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		for _, s := range sentences {
			f.Fill(x, p.contentOf(s))
			mode := nearest(x, means)
			blob = binary.LittleEndian.AppendUint16(blob, uint16(mode))
		}
		t.Progress(tasks.Progress{Done: int64(user + 1), Total: int64(background.Users())})
	}
	return t.Put(ctx, ModesBlob, blob)
}

// readModes returns the records of each nonempty mode.
func readModes(ctx context.Context, t *tasks.Task, records int) ([][]int, error) {
	data, err := t.Blob(ctx, ModesInput, ModesBlob)
	if err != nil {
		return nil, err
	}
	if len(data) != 2*records {
		return nil, fmt.Errorf("modes of %d bytes for a background of %d examples: %w", len(data), records, storage.ErrCorrupt)
	}
	all := make([][]int, MaxModes)
	for i := range records {
		mode := binary.LittleEndian.Uint16(data[2*i:])
		all[mode] = append(all[mode], i)
	}
	return slices.DeleteFunc(all, func(records []int) bool { return records == nil }), nil
}
