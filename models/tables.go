package models

import "coalmine/internal/kernels"

// Tables are what walks under one Scorer share. They are immutable and safe for
// concurrent use.
type Tables struct {
	scorer *Scorer
	// inputs is [vocabulary, gates]: what each token brings to the gates of the
	// lowest layer, the bias included; nil if that were more than maxInputs.
	inputs []float32
	merged merged
}

// maxInputs is the most elements of Tables.inputs: 256 MiB, three times what the
// paper's model takes. It shows in no result.
const maxInputs = 1 << 26

// Tabulate prepares walks. The tables take Tables.Bytes of memory.
func (s *Scorer) Tabulate() *Tables {
	t := &Tables{scorer: s}
	if s.model.config.Vocabulary*s.layers[0].gates() <= maxInputs {
		t.inputs = make([]float32, s.model.config.Vocabulary*s.layers[0].gates())
		s.inputGates(s.weights.embedding, t.inputs)
	}
	t.merged = mergeVocabulary(s, s.typicalOutput())
	return t
}

// Bytes is the memory that the tables take, for caches.
func (t *Tables) Bytes() int64 { return 4 * int64(len(t.inputs)+len(t.merged.bias)*t.merged.width) }

// Scorer returns the scorer that the tables were made from.
func (t *Tables) Scorer() *Scorer { return t.scorer }

// inputGates sets gates to what token vectors bring to the gates of the lowest
// layer, in the order of arithmetic of scorerLayer.step.
func (s *Scorer) inputGates(vectors, gates []float32) {
	l := &s.layers[0]
	kernels.GemmPackedBias(false, len(vectors)/l.in, vectors, l.in, &l.input, s.weights.layers[0].bias, gates, l.gates())
}

// typicalTokens is how many tokens a typical output is the mean of.
const typicalTokens = 256

// typicalOutput is the mean output after one token, over tokens spread evenly
// over the vocabulary. It chooses a bound, and shows in no result.
func (s *Scorer) typicalOutput() []float32 {
	tokens := make([]int32, min(typicalTokens, s.model.config.Vocabulary))
	for i := range tokens {
		tokens[i] = int32(i * s.model.config.Vocabulary / len(tokens))
	}
	states := s.Start(len(tokens))
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	s.step(w, tokens, states)
	mean := make([]float32, s.model.config.outputWidth())
	addRows(mean, states.top())
	kernels.Scale(1/float32(len(tokens)), mean)
	return mean
}
