package devices

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// Mix hides the users of anonymous devices in a crowd: examples of a background replace theirs or
// are added (Orekondy et al. 2018, section 7.1). Shadow devices, which the adversary runs, are
// unchanged.
//
// Params: MixParams. Inputs: population.Input, a Split node, and BackgroundInput, a
// datasets/encode node of the same vocabulary, with the training part to draw from; optionally
// ModesInput, a Modes node of that background. Blobs and metrics are as for Split.
var Mix = tasks.Kind{Name: "devices/mix", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runMix)}

// Inputs of Mix in addition to population.Input.
const (
	BackgroundInput = "background"
	ModesInput      = "modes"
)

// MixParams are the parameters of Mix. Exactly one of Replace and Augment is above 0. It is
// multiplied by the number of examples of an anonymous device, and rounded to nearest.
type MixParams struct {
	Seed uint64 `json:"seed"`
	// Replace is the share of a device's examples to replace, at most 1. A canary in a replaced
	// example is lost.
	Replace float64 `json:"replace,omitempty"`
	// Augment is the number of added examples over a device's own number, at most MaxAugment.
	Augment float64 `json:"augment,omitempty"`
}

// MaxAugment bounds MixParams.Augment.
const MaxAugment = 100

func (p *MixParams) check() error {
	if !(p.Replace >= 0 && p.Replace <= 1 && p.Augment >= 0 && p.Augment <= MaxAugment) || (p.Replace > 0) == (p.Augment > 0) {
		return fmt.Errorf("a share of %v of the examples is replaced and %v times as many are added; expected one of the two, above 0, and at most 1 or %d", p.Replace, p.Augment, MaxAugment)
	}
	return nil
}

func runMix(ctx context.Context, t *tasks.Task, params *MixParams) error {
	m := mixer{divided: divided{task: t}, params: *params}
	if err := params.check(); err != nil {
		return tasks.Permanent(err)
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	return m.write(ctx)
}

// mixer is one execution of Mix.
type mixer struct {
	divided
	params     MixParams
	background *population.Population
	// modes are the records of each mode of the background, at least one; without modes
	// there is one mode, nil, of all records.
	modes [][]int
}

func (m *mixer) open(ctx context.Context) (err error) {
	if m.divided, err = readDivided(ctx, m.task); err != nil {
		return err
	}
	m.summary.Private, m.summary.Background = 0, 0 // counted again below
	if m.background, err = population.OpenPart(ctx, m.task, BackgroundInput, population.Train); err != nil {
		return err
	}
	switch {
	case len(m.devices) != m.population.Users():
		return fmt.Errorf("%d devices of a population of %d: %w", len(m.devices), m.population.Users(), storage.ErrCorrupt)
	case m.background.Records() == 0:
		return tasks.Permanent(fmt.Errorf("the background of data.background has no examples; name one that has"))
	case !m.task.Has(ModesInput):
		m.modes = [][]int{nil}
		return nil
	}
	m.modes, err = readModes(ctx, m.task, m.background.Records())
	return err
}

// draw is an example of the background for a device.
type draw struct {
	at     int // index of the replaced example; the number of the device's own examples if added
	record int // record of the background
}

// draws returns the draws of a device in their order on it. The draws for a smaller share are among
// those for a larger share.
func (m *mixer) draws(device int) []draw {
	d, n := m.devices[device], m.population.Examples(device)
	if d.Shadow {
		return nil
	}
	mode := m.modes[seeds.Stream(m.params.Seed, seeds.BackgroundMode, uint64(d.User)).IntN(len(m.modes))]
	rng := seeds.Stream(m.params.Seed, seeds.Background, uint64(d.User))
	var places []int // replaced examples; nil if examples are added
	if m.params.Replace > 0 {
		places = rng.Perm(n)
	}
	list := make([]draw, rounded(m.params.Replace+m.params.Augment, n))
	for i := range list {
		list[i] = draw{at: n, record: rng.IntN(cmp.Or(len(mode), m.background.Records()))}
		if mode != nil {
			list[i].record = mode[list[i].record]
		}
		if places != nil {
			list[i].at = places[i]
		}
	}
	slices.SortStableFunc(list, func(a, b draw) int { return cmp.Compare(a.at, b.at) })
	return list
}

// write fills device after device.
func (m *mixer) write(ctx context.Context) error {
	sorter := tempfiles.NewSorter()
	defer sorter.Close()
	if err := m.fetch(ctx, sorter); err != nil {
		return err
	}
	next, stop := iter.Pull2(sorter.Sorted())
	defer stop()
	w := population.NewWriter(ctx, m.task, m.population)
	for device := range m.devices {
		if err := m.device(ctx, w, device, next); err != nil {
			return err
		}
		w.EndUser()
		m.task.Progress(tasks.Progress{Done: int64(device + 1), Total: int64(len(m.devices))})
	}
	if err := w.Close(ctx); err != nil {
		return err
	}
	return putWorld(ctx, m.task, m.devices, m.summary)
}

// fetch reads the examples drawn for all devices in the order of the background, and sorts
// them by their new places.
func (m *mixer) fetch(ctx context.Context, sorter *tempfiles.Sorter) error {
	type wanted struct{ record, place int }
	var all []wanted
	for device := range m.devices {
		for _, d := range m.draws(device) {
			all = append(all, wanted{d.record, len(all)})
		}
	}
	slices.SortFunc(all, func(a, b wanted) int { return cmp.Or(cmp.Compare(a.record, b.record), cmp.Compare(a.place, b.place)) })
	for _, x := range all {
		sentence, err := m.background.ReadRecord(ctx, x.record)
		if err != nil {
			return err
		}
		if err := sorter.Add(uint64(x.place), example{FeatureWords(sentence), -1}.pack()); err != nil {
			return err
		}
	}
	return nil
}

// device writes the examples of a device. next returns the drawn examples.
func (m *mixer) device(ctx context.Context, w *population.Writer, device int, next func() ([]byte, error, bool)) error {
	sentences, err := m.population.ReadUser(ctx, device)
	if err != nil {
		return err
	}
	draws := m.draws(device)
	for i := 0; i < len(sentences) || len(draws) > 0; i++ {
		own := len(draws) == 0 || draws[0].at != i && i < len(sentences)
		x := example{canary: -1}
		if own {
			x = example{FeatureWords(sentences[i]), m.population.Canary(device, i)}
			m.count(device, &m.summary.Private)
		} else {
			if x, err = nextDrawn(next); err != nil {
				return err
			}
			draws = draws[1:]
			m.count(device, &m.summary.Background)
		}
		if err := w.Add(x.words, x.canary); err != nil {
			return err
		}
	}
	return nil
}

func (m *mixer) count(device int, examples *int) {
	if !m.devices[device].Shadow {
		*examples++
	}
}

func nextDrawn(next func() ([]byte, error, bool)) (example, error) {
	packed, err, there := next()
	switch {
	case err != nil:
		return example{}, err
	case !there:
		return example{}, fmt.Errorf("fewer examples of the background than were drawn: %w", storage.ErrCorrupt)
	}
	return unpack(packed)
}
