package updatewords

import (
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/datasets"
	"coalmine/tasks/updates"
)

type Fields struct {
	// Reads each device's words and canaries off its recorded updates. Needs training.record.
	UpdateWords *Block `json:"update_words,omitempty"`
}

type Block struct {
	// embedding, whose rows change for used words, or output.bias, which grows for target words; by
	// default embedding with model.untied, else output.bias.
	Layer Layer `json:"layer" source:"Melis et al. 2019, section 4.1; Wainakh et al. 2022"`
}

const path = "audit.update_words"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	if given(path + ".layer") {
		return
	}
	f.UpdateWords.Layer = OutputBias
	if s.Untied {
		f.UpdateWords.Layer = Embedding
	}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	layer := f.UpdateWords.Layer
	observed.CheckRecorded(s, path, nil, fail)
	if s.Recorded == nil {
		return
	}
	at := slices.IndexFunc(s.Recorded.Layout.Layers, func(l updates.Layer) bool { return l.Name == string(layer) })
	switch {
	case at < 0:
		fail([]string{path + ".layer", "training.record.layers"}, "is %s, which training.record does not keep; add it to training.record.layers", layer)
	case s.Recorded.Layout.Layers[at].Of > 0:
		fail([]string{path + ".layer", "training.record.project"}, "is %s, which training.record projects to %d values, where no word has a place; leave training.record.project out", layer, s.Recorded.Layout.Layers[at].Values)
	}
}

func (f *Fields) Warnings(s *audits.Setting, _ *audits.Data) []string {
	if f.UpdateWords.Layer == Embedding && !s.Untied {
		return []string{path + ".layer is embedding, and model.untied is false: the rows of all words change, since they are the output layer's, too; output.bias tells more"}
	}
	return nil
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	inputs := append(observed.Inputs(b.Recorded(), b.Devices()),
		tasks.Input{Name: datasets.PopulationInput, Key: b.Population()}, tasks.Input{Name: datasets.ShardsInput, Key: b.Shards()}, tasks.Input{Name: datasets.PartsInput, Key: b.Parts()})
	return b.Node(Kind, "words in updates", Params{Layer: f.UpdateWords.Layer, Noise: b.Setting().Training.ClientNoise}, inputs...)
}

// States: sorting the vocabulary for an update costs as much as some states.
func (f *Fields) States(s *audits.Setting) float64 { return float64(s.Ordinary) }
