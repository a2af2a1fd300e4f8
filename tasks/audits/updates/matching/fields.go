package matching

import (
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
)

// Fields of the audit block.
type Fields struct {
	// Matching trains a Siamese network on pairs of recorded updates of shadow devices, and
	// has it tell whether pairs of anonymous updates are of one user. It needs data.devices
	// and training.record. Absent: not done.
	Matching *Block `json:"matching,omitempty" also:"siamese" source:"Orekondy et al. 2018, sections 4.3 and 6.1.2"`
}

// Block of the audit's fields.
type Block struct {
	observed.ViewFields
	// Centre has the network see what updates differ by from the mean of all updates of their
	// round. The paper does not.
	Centre bool `json:"centre" default:"false" also:"center"`
	// Pairs that the network is measured on, and on as many of which it is trained in an
	// epoch; half of them of one user.
	Pairs int `json:"pairs" default:"10000" range:"[2,1000000]" unit:"pairs" source:"Orekondy et al. 2018, section 6.1.1"`
	// Units of each of the two layers.
	Units int `json:"units" default:"128" range:"[1,4096]" source:"Orekondy et al. 2018, section 4.3"`
	// Epochs, of which the one is kept after which pairs of users that are kept from the
	// training are told best.
	Epochs int `json:"epochs" default:"20" range:"[1,10000]" unit:"epochs"`
	// Networks is the number of networks to train, each from different initial weights. Results are
	// those of the first; the others show how much the average precision varies. Absent: one.
	Networks int `json:"networks,omitzero" range:"[1,100]" unit:"networks"`
	// Batch of a step.
	Batch int `json:"batch" default:"32" range:"[1,65536]" unit:"pairs"`
	// LearningRate of RMSProp.
	LearningRate float64 `json:"learning_rate" default:"0.001" range:"(0,1000]" source:"Orekondy et al. 2018, section 4.3"`
	// Updates of shadow, and of anonymous devices, that are looked at, at most; drawn at
	// random. A task has the values of all in memory.
	Updates int `json:"updates" default:"2000" range:"[10,100000]" unit:"updates"`
}

const path = "audit.matching"

// Asked implements audits.Fields.
func (f *Fields) Asked() bool { return f.Matching != nil }

// Check implements audits.Fields.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, path, f.Matching.Layers, fail)
	observed.CheckDevices(s, path, fail)
}

// Compile implements audits.Fields.
func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	p := f.Matching
	return b.Node(Kind, "matching updates", Params{
		Seed: b.Setting().Seed, View: p.View(b.Setting()), Pairs: p.Pairs, Units: p.Units,
		Epochs: p.Epochs, Batch: p.Batch, LearningRate: p.LearningRate, Updates: p.Updates, Centre: p.Centre, Again: max(1, p.Networks) - 1,
	}, observed.Inputs(b.Recorded(), b.Devices())...)
}

// States implements audits.Fields.
func (f *Fields) States(*audits.Setting) float64 { return 0 }

// Work implements audits.Worker: of each pair, the towers of both sides.
func (f *Fields) Work(s *audits.Setting) float64 {
	b := f.Matching
	return s.UpdatesWork(b.Units, 2*float64(max(1, b.Networks))*float64(b.Epochs)*float64(b.Pairs), audits.RMSPropWork/float64(2*b.Batch))
}
