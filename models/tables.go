package models

import "coalmine/internal/kernels"

// Tables are what walks under one Scorer share. They are immutable and safe for
// concurrent use.
type Tables struct {
	scorer *Scorer
	// inputs is [vocabulary, gates]: what each token brings to the gates of the
	// lowest layer, the bias included.
	inputs []float32
	merged merged
}

// Tabulate prepares walks. The tables take Tables.Bytes of memory.
func (s *Scorer) Tabulate() *Tables {
	t := &Tables{scorer: s}
	t.fillInputs()
	t.merged = mergeVocabulary(s, s.typicalOutput())
	return t
}

// Bytes is the memory that the tables take, for caches.
func (t *Tables) Bytes() int64 { return 4 * int64(len(t.inputs)+len(t.merged.bias)*t.merged.width) }

// Scorer returns the scorer that the tables were made from.
func (t *Tables) Scorer() *Scorer { return t.scorer }

// fillInputs computes the table in the order of arithmetic of scorerLayer.step,
// which adds the input's product to the bias.
func (t *Tables) fillInputs() {
	s := t.scorer
	l, w := &s.layers[0], &s.weights.layers[0]
	vocabulary := s.model.config.Vocabulary
	t.inputs = make([]float32, vocabulary*l.gates())
	kernels.GemmPackedBias(false, vocabulary, s.weights.embedding, l.in, &l.input, w.bias, t.inputs, l.gates())
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
