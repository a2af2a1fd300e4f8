package crossmodal

import (
	"context"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
	"coalmine/tasks/datasets"
)

type Fields struct {
	// Trains a network on pairs of a shadow device's recorded update and a user's vector, from other data,
	// to match anonymous updates and vectors. Needs data.devices and training.record.
	CrossModal *Block `json:"cross_modal,omitempty" also:"crossmodal cross_modal_matching" source:"Orekondy et al. 2018, sections 4.3 and 6.1.1"`
}

type Block struct {
	// Vectors of users, with normalize of length 1. Absent, for models of texts: the mean of the trained
	// model's word vectors over a user's prior.
	Embeddings *Embeddings `json:"embeddings,omitempty" also:"vectors"`
	pairs.Fields
}

// Embeddings are a source of vectors.
type Embeddings struct {
	// Lines {"user": "...", "embedding": [0.5, -1, ...]} of equally many numbers, as data.source. Lines of
	// a user are averaged; users without one are left out.
	Source string `json:"source" required:"true" also:"path file"`
	// As data.sha256.
	SHA256 string `json:"sha256,omitempty"`
}

const (
	path           = "audit.cross_modal"
	embeddingsPath = path + ".embeddings"
)

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

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	inputs := append(observed.Inputs(b.Recorded(), b.Devices()), tasks.Input{Name: VectorsInput, Key: vectors(b, round)})
	return b.Node(Kind, "updates and vectors of users", f.CrossModal.Params(b.Setting()), inputs...)
}

func vectors(b audits.Builder, round int) storage.Key {
	if sources, limits := b.Files(embeddingsPath); len(sources) > 0 {
		return b.Node(Given, "vectors of users", GivenParams{Sources: sources, Limits: limits}, observed.NamesInputs(b)...)
	}
	return b.Node(OfWords, "mean word vectors of users", struct{}{},
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: observed.DevicesInput, Key: b.Devices()},
		tasks.Input{Name: datasets.PopulationInput, Key: b.Population()}, tasks.Input{Name: datasets.ShardsInput, Key: b.Shards()})
}

func (f *Fields) Work(s *audits.Setting) float64 { return f.CrossModal.Work(s) }
