package models

import (
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/registry"
)

// Kind names the cells of a language model, or a kind of network for whole texts or images.
type Kind string

// The kinds of cells. image.go has the kinds for images, reader.go the kinds for labels of texts.
const (
	CIFGLSTM Kind = "cifg-lstm"
	LSTM     Kind = "lstm"
	GRU      Kind = "gru"
	Conv     Kind = "conv"
)

var kinds = registry.New("kind", func(k *CellKind) Kind { return k.Kind }, &cifgLSTM, &lstm, &gru, &conv)

// CellKind describes a kind of cell: everything that layers, training and
// scoring use. The equations are at cell.
type CellKind struct {
	Kind Kind
	// Summary describes the cell in one line; Source cites it.
	Summary, Source string

	// gatesPerUnit is the number of gate values of a memory cell, including the
	// candidate activation.
	gatesPerUnit int
	// resets reports that a reset gate scales the previous output's part of the
	// candidate activation, the last of the gates: that part has its own bias
	// (CandidateBiasTensor) and is computed separately.
	resets bool
	// emitsMemory reports that the cell emits its memory and keeps no tanh c.
	emitsMemory bool
	// convolves reports that the cell recalls its last inputs, which are its memory, instead of its
	// previous output. It is not recurrent.
	convolves bool
	// attends reports that the cell belongs to a Transformer; the fields below are then unset.
	attends bool
	// initialize sets the bias of a layer, which is zero, to its initial values.
	initialize func(bias []float32, units int)
	// forward and backward are the cell's kernels, by row. candidate is the previous
	// output's part of the candidate activation, nil unless resets; squash is tanh c, nil with
	// emitsMemory. For a kind that convolves, cell.remember sets the memory instead.
	forward  func(gates, candidate, previous, memory, squash, emitted []float32)
	backward func(gates, candidate, previous, squash, dEmitted, dMemory, dGates, dCandidate []float32)

	// edge is forward from two shares of the gates, for a TreeScorer; nil if only
	// forward is available. coarse reports that coarse bounds hold for the cell.
	edge   func(input, recurrent, previous, memory, emission, ahead, later []float32)
	coarse bool
}

// Kinds lists the kinds of cells that Coalmine trains itself: all except Transformer.
func Kinds() []Kind { return kinds.Names() }

// CellKinds lists the entries of all kinds of cells, Transformer last.
func CellKinds() []*CellKind { return slices.Concat(kinds.Entries(), []*CellKind{&attention}) }

// Choices lists the kinds for an experiment file.
func (Kind) Choices() []string {
	return slices.Concat(kinds.Words(), []string{string(Transformer)}, imageKinds.Words(), readerKinds.Words(), []string{string(External)})
}

// cifgLSTM is an LSTM with one minus the input gate as its forget gate (Greff et al., "LSTM: A
// Search Space Odyssey", 2017, variant CIFG).
var cifgLSTM = CellKind{
	Kind:         CIFGLSTM,
	Summary:      "an LSTM whose forget gate is one minus its input gate",
	Source:       "Greff et al. 2017, variant CIFG",
	gatesPerUnit: 3,
	initialize:   func(bias []float32, units int) { Fill(bias[:units], initialInputGate) },
	forward: func(gates, _, previous, memory, squash, emitted []float32) {
		kernels.CIFGForward(gates, previous, memory, squash, emitted)
	},
	backward: func(gates, _, previous, squash, dEmitted, dMemory, dGates, _ []float32) {
		kernels.CIFGBackward(gates, previous, squash, dEmitted, dMemory, dGates)
	},
	edge:   kernels.CIFGCell,
	coarse: true,
}

// lstm has input, forget and output gates, and no peepholes (Gers et al., "Learning
// to Forget", 2000).
var lstm = CellKind{
	Kind:         LSTM,
	Summary:      "input, forget and output gates, no peepholes",
	Source:       "Gers et al. 2000",
	gatesPerUnit: 4,
	initialize:   func(bias []float32, units int) { Fill(bias[units:2*units], initialForgetGate) },
	forward: func(gates, _, previous, memory, squash, emitted []float32) {
		kernels.LSTMForward(gates, previous, memory, squash, emitted)
	},
	backward: func(gates, _, previous, squash, dEmitted, dMemory, dGates, _ []float32) {
		kernels.LSTMBackward(gates, previous, squash, dEmitted, dMemory, dGates)
	},
}

// gru is the gated recurrent unit (Cho et al., "Learning Phrase Representations
// using RNN Encoder-Decoder", 2014) that applies its reset gate after the recurrent
// matrix product, as cuDNN and PyTorch do.
var gru = CellKind{
	Kind:         GRU,
	Summary:      "a gated recurrent unit that applies its reset gate after the recurrent product, as cuDNN and PyTorch do",
	Source:       "Cho et al. 2014",
	gatesPerUnit: 3,
	resets:       true,
	emitsMemory:  true,
	initialize:   func([]float32, int) {},
	forward: func(gates, candidate, previous, memory, _, emitted []float32) {
		kernels.GRUForward(gates, candidate, previous, memory)
		copy(emitted, memory)
	},
	backward: func(gates, candidate, previous, _, dEmitted, dMemory, dGates, dCandidate []float32) {
		kernels.GRUBackward(gates, candidate, previous, dEmitted, dMemory, dGates, dCandidate)
	},
}

// conv is a causal convolution over the inputs with rectified outputs: the convolutional
// network over characters of Zhang et al. ("Character-level Convolutional Networks for Text
// Classification", 2015, section 2), made causal by padding only at the start, as in Dauphin et al.
// ("Language Modeling with Gated Convolutional Networks", 2017), and without pooling, so that every
// token gets a prediction.
var conv = CellKind{
	Kind:         Conv,
	Summary:      "a causal convolution over the last `kernel` inputs, rectified; not recurrent",
	Source:       "Zhang et al. 2015, section 2; causal as in Dauphin et al. 2017",
	gatesPerUnit: 1,
	convolves:    true,
	initialize:   func([]float32, int) {},
	forward: func(gates, _, _, _, _, emitted []float32) {
		rectify(gates)
		copy(emitted, gates)
	},
	backward: func(gates, _, _, _, dEmitted, _, dGates, _ []float32) {
		rectifyBack(gates, dEmitted, dGates)
	},
}
