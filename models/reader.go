package models

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
	"coalmine/internal/registry"
)

// Kinds of networks that read a whole text with an lstm and predict its properties.
const (
	// Regressor predicts a score.
	Regressor Kind = "regressor"
	// Tagger predicts the labels of a text.
	Tagger Kind = "tagger"
)

// ReaderKind describes a kind of network that reads whole texts: everything that
// Reader and its learner use.
type ReaderKind struct {
	Kind Kind
	// Summary names the prediction of the network in one line; Source cites it.
	Summary, Source string

	// outputs returns the number of outputs for a number of labels; bias is their initial value.
	outputs func(labels int) int
	bias    float32
	// truth sets dst, one value per output, from the labels of a text.
	truth func(dst []float32, labels []int32)
	// loss returns the loss of one text, and sets gradient to its derivatives by the outputs.
	loss func(outputs, truth, gradient []float32) float64
	// predict turns outputs into predictions.
	predict func(outputs []float32)
}

// readerKinds are all kinds of networks that read whole texts.
var readerKinds = registry.New("kind", func(k *ReaderKind) Kind { return k.Kind }, &regressor, &tagger)

// ReaderKinds lists the kinds of networks that read whole texts.
func ReaderKinds() []*ReaderKind { return readerKinds.Entries() }

// ForLabels reports whether a network of this kind predicts properties of whole texts.
func (k Kind) ForLabels() bool {
	_, err := readerKinds.Find(k)
	return err == nil
}

// FirstLabel is the token of the first label. Labels, in ascending order, lie between the begin
// token and the words of a text.
const FirstLabel = 4

// Scores of texts are half stars: label i is LowestScore + i ScoreStep, up to 5.
const (
	LowestScore = 1
	ScoreStep   = 0.5
	// Scores is the number of scores.
	Scores = 9
	// middleScore is the prediction of an untrained regressor.
	middleScore = 3
)

// MaxLabels is the largest number of labels of a Config.
const MaxLabels = 128

// regressor is the model of Orekondy et al. for the ratings of reviews.
var regressor = ReaderKind{
	Kind:    Regressor,
	Summary: "reads a text with an lstm and predicts its score; learns by the mean absolute error",
	Source:  "Orekondy et al. 2018, section 5.1",
	outputs: func(int) int { return 1 },
	bias:    middleScore,
	truth: func(dst []float32, labels []int32) {
		dst[0] = LowestScore + ScoreStep*float32(labels[0]-FirstLabel)
	},
	loss:    absoluteError,
	predict: func([]float32) {},
}

// tagger predicts any number of labels per text.
var tagger = ReaderKind{
	Kind:    Tagger,
	Summary: "reads a text with an lstm and predicts which labels it has; learns by the mean binary cross-entropy",
	Source:  "Orekondy et al. 2018, section 5.1 (multi-label classification, there of images)",
	outputs: func(labels int) int { return labels },
	truth: func(dst []float32, labels []int32) {
		clear(dst)
		for _, label := range labels {
			dst[label-FirstLabel] = 1
		}
	},
	loss:    CrossEntropies,
	predict: func(outputs []float32) { kernels.Sigmoid(outputs, outputs) },
}

// absoluteError has the derivative 0 if output and truth are equal, one of the
// possible subgradients.
func absoluteError(outputs, truth, gradient []float32) float64 {
	difference := outputs[0] - truth[0]
	switch {
	case difference > 0:
		gradient[0] = 1
	case difference < 0:
		gradient[0] = -1
	default:
		gradient[0] = 0
	}
	return math.Abs(float64(difference))
}

// CrossEntropies returns the mean over labels of the binary cross-entropy, in nats, of the
// probabilities sigmoid(output): log(1 + exp(x)) - truth x. truth is 0 or 1. It sets gradient to
// the derivatives by the outputs. All have one length, at least 1.
func CrossEntropies(outputs, truth, gradient []float32) (mean float64) {
	kernels.Sigmoid(gradient, outputs)
	n := float64(len(outputs))
	for i, x := range outputs {
		mean += (kernels.LogSumExp([]float32{0, x}) - float64(truth[i]*x)) / n
		gradient[i] = (gradient[i] - truth[i]) / float32(n)
	}
	return mean
}

// Reader is the layout of a network that reads a whole text and predicts its properties: an
// embedding, lstm layers without projection, and a dense layer on the last output of the highest.
// It holds no parameters, is immutable and may be shared.
//
// It has the tensors of an untied language model of kind lstm, except that OutputTensor is
// [outputs, units] and OutputBiasTensor [outputs]. The embedding has a row for each token; only
// rows of words are read.
type Reader struct {
	layout
	kind  *ReaderKind
	cells []cell
}

// NewReader checks the configuration and returns its network.
func NewReader(config Config) (*Reader, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	kind, err := readerKinds.Find(config.Kind)
	if err != nil {
		return nil, fmt.Errorf("model configuration: %w", err)
	}
	return &Reader{readerLayout(config, kind), kind, cellsOf(config.stack())}, nil
}

// stack is the configuration of a reader's layers.
func (c Config) stack() Config {
	return Config{Kind: LSTM, Vocabulary: c.Vocabulary, Embedding: c.Embedding, Units: c.Units, Layers: c.Layers, Projection: Unprojected, Untied: true}
}

func readerLayout(c Config, kind *ReaderKind) layout {
	l := layout{Layout: NewLayout(c)}
	l.decoder = l.addStack("", c.stack())
	outputs := kind.outputs(c.Labels)
	l.output = l.Add(OutputTensor, outputs, c.Units)
	l.outputBias = l.Add(OutputBiasTensor, outputs)
	return l
}

func (c Config) validateReader() error {
	var problems []error
	if (c != Config{Kind: c.Kind, Vocabulary: c.Vocabulary, Embedding: c.Embedding, Units: c.Units, Layers: c.Layers, Labels: c.Labels}) {
		problems = append(problems, fmt.Errorf("a model of kind %s has no kernel, projection, tied output, separator or images", c.Kind))
	}
	if c.Labels < 1 || c.Labels > MaxLabels || FirstLabel+c.Labels >= c.Vocabulary {
		problems = append(problems, fmt.Errorf("%d labels in a vocabulary of %d: want 1 to %d, and additional words", c.Labels, c.Vocabulary, MaxLabels))
	}
	if c.Kind == Regressor && c.Labels != Scores {
		problems = append(problems, fmt.Errorf("%d labels: want the %d scores", c.Labels, Scores))
	}
	if err := invalid(problems); err != nil {
		return err
	}
	return c.stack().Validate()
}

// Init draws initial parameters as for a language model; output weights are uniform in
// ±sqrt(6/(units+outputs)). A regressor's output bias is the middle of the scale.
func (r *Reader) Init(rng *rand.Rand) []float32 {
	params := make([]float32, r.size)
	w := r.layout.views(params)
	initializeStack(rng, &w.stackWeights, r.cells)
	FillUniform(rng, w.output, glorot(r.config.Units, r.outputs()))
	Fill(w.outputBias, r.kind.bias)
	return params
}

func (r *Reader) outputs() int { return r.kind.outputs(r.config.Labels) }

// ScoringFLOPs implements Network, for a word of a text, without the cost of the outputs.
func (r *Reader) ScoringFLOPs() float64 {
	products := 0
	for _, c := range r.cells {
		products += c.products()
	}
	return 2 * float64(products)
}

// TrainingFLOPs implements Network, for a word of a text.
func (r *Reader) TrainingFLOPs() float64 { return 3 * r.ScoringFLOPs() }

// divide splits an example, without its begin, into its labels and its words with the end.
func (r *Reader) divide(example []int32) (labels, words []int32, err error) {
	if err := checkTokens(example, r.config.Vocabulary); err != nil {
		return nil, nil, err
	}
	at := 1
	for at < len(example) && r.isLabel(example[at]) {
		at++
	}
	if len(example)-at < 2 {
		return nil, nil, fmt.Errorf("it has %d tokens after its labels: want a word at least, and an end", max(0, len(example)-at))
	}
	labels, words = example[1:at], example[at:]
	if r.config.Kind == Regressor && len(labels) != 1 {
		return nil, nil, fmt.Errorf("it has %d scores: want one (data.label: score)", len(labels))
	}
	return labels, words, nil
}

func (r *Reader) isLabel(token int32) bool {
	return token >= FirstLabel && int(token) < FirstLabel+r.config.Labels
}
