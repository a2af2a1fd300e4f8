package linking

import (
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
)

// Fields of the audit block.
type Fields struct {
	// Linking follows devices by their recorded updates alone, without knowing anything of
	// their users: whether two updates are of one device, and what clusters updates form. It
	// needs training.record; where there are data.devices, the shadow devices are left out.
	// Absent: not done.
	Linking *Block `json:"linking,omitempty"`
}

// Block of the audit's fields.
type Block struct {
	observed.ViewFields
	// Updates that are looked at, at most: those of devices drawn at random. A task has 4
	// bytes for each pair of them in memory.
	Updates int `json:"updates" default:"2000" range:"[10,10000]" unit:"updates"`
	// Pairs of updates that are drawn to measure how well pairs are told, half of them of
	// one device.
	Pairs int `json:"pairs" default:"10000" range:"[2,1000000]" unit:"pairs" source:"Orekondy et al. 2018, section 6.1.1"`
}

const path = "audit.linking"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, path, f.Linking.Layers, fail)
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	p := f.Linking
	return b.Node(Kind, "linking updates", Params{
		Seed: b.Setting().Seed, View: p.View(b.Setting()), Updates: p.Updates, Pairs: p.Pairs,
	}, observed.Inputs(b.Recorded(), b.Devices())...)
}

// Work implements audits.Worker: the product of each update with each other one.
func (f *Fields) Work(s *audits.Setting) float64 {
	n := float64(f.Linking.Updates)
	return s.UpdatesWork(1, n*n, 0) / 3
}
