package crossmodal

import (
	"context"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/datasets"
)

// Fields of the audit block.
type Fields struct {
	// CrossModal trains a network on pairs of a shadow device's recorded update and a vector
	// of what is known of a user in another form than the data, and has it tell whether
	// anonymous updates and vectors are of one user. It needs data.devices and training.record.
	// Absent: not done.
	CrossModal *Block `json:"cross_modal,omitempty" also:"crossmodal cross_modal_matching" source:"Orekondy et al. 2018, sections 4.3 and 6.1.1"`
}

// Block of the audit's fields.
type Block struct {
	// Embeddings are the vectors of users. By default, of models that read texts, a user's is
	// the mean of the vectors that the trained model has for the words of the user's prior.
	// Where normalize is true, vectors have the length 1, too.
	Embeddings *Embeddings `json:"embeddings,omitempty" also:"vectors"`
	observed.ViewFields
	// Centre has the network see what updates differ by from the mean of all updates of their
	// round, and what vectors differ by from their mean over users. The paper does not.
	Centre bool `json:"centre" default:"false" also:"center"`
	// Pairs that the network is measured on, and on as many of which it is trained in an
	// epoch; half of them of one user.
	Pairs int `json:"pairs" default:"10000" range:"[2,1000000]" unit:"pairs" source:"Orekondy et al. 2018, section 6.1.1"`
	// Units of the only layer of each of the two encoders.
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

// Embeddings are a source of vectors.
type Embeddings struct {
	// Source of lines {"user": "...", "embedding": [0.5, -1, ...]}, with as many numbers on
	// each: a file, a directory or an s3:// URL, as data.source. Users have the names that the
	// data have; one with several lines has their mean, and one without is left out.
	Source string `json:"source" required:"true" also:"path file"`
	// SHA256 of the vectors, as data.sha256 is that of the data; a submitted run always carries
	// it.
	SHA256 string `json:"sha256,omitempty"`
}

const (
	path           = "audit.cross_modal"
	embeddingsPath = path + ".embeddings"
)

// Asked implements audits.Fields.
func (f *Fields) Asked() bool { return f.CrossModal != nil }

// sources names the embeddings that the file gives.
func (f *Fields) sources() []audits.Source {
	e := f.CrossModal.Embeddings
	if e == nil {
		return nil
	}
	return []audits.Source{{Path: embeddingsPath, Source: e.Source, SHA256: &e.SHA256, Check: check}}
}

func check(ctx context.Context, files []datasets.File, limits datasets.Limits) error {
	_, err := datasets.ReadEmbeddings(ctx, files, limits)
	return err
}

// Check implements audits.Fields.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, path, f.CrossModal.Layers, fail)
	observed.CheckDevices(s, path, fail)
	switch {
	case f.CrossModal.Embeddings != nil:
		observed.CheckOwned(s, path, fail)
	case s.Reading.Level.Scheme().Images:
		fail([]string{path}, "needs vectors of users, and models of images have none for words; expected %s, such as {source: FILE}", embeddingsPath)
	}
}

// Compile implements audits.Fields.
func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p := f.CrossModal
	return b.Node(Kind, "updates and vectors of users", Params{
		Seed: b.Setting().Seed, View: p.View(b.Setting()), Pairs: p.Pairs, Units: p.Units,
		Epochs: p.Epochs, Batch: p.Batch, LearningRate: p.LearningRate, Updates: p.Updates, Centre: p.Centre, Again: max(1, p.Networks) - 1,
	}, append(observed.Inputs(b.Recorded(), b.Devices()), tasks.Input{Name: VectorsInput, Key: vectors(b, round)})...)
}

// vectors adds the node of the users' vectors.
func vectors(b audits.Builder, round int) storage.Key {
	if sources, limits := b.Files(embeddingsPath); len(sources) > 0 {
		return b.Node(Given, "vectors of users", GivenParams{Sources: sources, Limits: limits}, observed.NamesInputs(b)...)
	}
	return b.Node(OfWords, "mean word vectors of users", struct{}{},
		tasks.Input{Name: ModelInput, Key: b.Model(round)}, tasks.Input{Name: observed.DevicesInput, Key: b.Devices()},
		tasks.Input{Name: datasets.PopulationInput, Key: b.Population()}, tasks.Input{Name: datasets.ShardsInput, Key: b.Shards()})
}

// States implements audits.Fields.
func (f *Fields) States(*audits.Setting) float64 { return 0 }

// Work implements audits.Worker: of each pair, the towers of both sides.
func (f *Fields) Work(s *audits.Setting) float64 {
	b := f.CrossModal
	return s.UpdatesWork(b.Units, 2*float64(max(1, b.Networks))*float64(b.Epochs)*float64(b.Pairs), audits.RMSPropWork/float64(2*b.Batch))
}
