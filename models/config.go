package models

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"coalmine/internal/lists"
)

// Config describes a network. A network for images has only a Kind and an Image, an external one
// only a Kind and an Outline. Any other reads text: an embedding of the tokens, layers, and a
// softmax over the vocabulary or outputs for labels. Kind, Vocabulary, Embedding and Units are
// required; the zero values of other fields describe the model of Thakkar et al. (2020), section
// 4.1: one layer, projected to the width of the embedding, and tied to it.
type Config struct {
	// Kind of the cells, one of Kinds, or of the network.
	Kind Kind `json:"kind"`
	// Vocabulary is the number of token ids, including special ones. Ids are 0..Vocabulary-1. At
	// least 2.
	Vocabulary int `json:"vocabulary,omitempty"`
	// Embedding is the width of the token vectors.
	Embedding int `json:"embedding,omitempty"`
	// Units is the number of memory cells of each layer; for a convolution, of
	// filters; for a Transformer, the width of the feed-forward layers.
	Units int `json:"units,omitempty"`
	// Layers is the number of layers, each fed with the outputs of the one below:
	// 1 to 4, of a Transformer's blocks 1 to 64. 0 means 1.
	Layers int `json:"layers,omitempty"`
	// Kernel is the number of inputs that an output of a convolution depends on, the
	// newest and those before it: 2 to 64. 0 means DefaultKernel. Other kinds have none.
	Kernel int `json:"kernel,omitempty"`
	// Heads is the number of heads of a Transformer, a divisor of Embedding. Other kinds have none.
	Heads int `json:"heads,omitempty"`
	// Context is the largest number of tokens that a Transformer reads. 0 means DefaultContext.
	// Other kinds have none.
	Context int `json:"context,omitempty"`
	// Blocks are the options of a Transformer's blocks. Other kinds have none.
	Blocks Blocks `json:"blocks,omitzero"`
	// Adapters are trained in place of all other parameters of a Transformer. Other kinds have none.
	Adapters Adapters `json:"adapters,omitzero"`
	// Projection is the width that every layer's output is projected to (Sak et al., "Long
	// Short-Term Memory Recurrent Neural Network Architectures", 2014, section 2.2). 0 means
	// Embedding; with Unprojected the output is as wide as Units.
	Projection int `json:"projection,omitempty"`
	// Untied gives the output layer its own weights. Otherwise it uses the embedding's (Press and
	// Wolf, "Using the Output Embedding to Improve Language Models", 2017), and the last layer must
	// be as wide as it.
	Untied bool `json:"untied,omitempty"`
	// Separator, if not 0, makes the model an encoder-decoder (Sutskever et al.,
	// "Sequence to Sequence Learning with Neural Networks", 2014). A sentence is then a
	// pair: the tokens before its first Separator are the source, read by the encoder's own layers,
	// and the tokens from the Separator on are the target, which is predicted. 1 to Vocabulary-1.
	Separator int32 `json:"separator,omitempty"`

	// Labels is the number of labels, for kinds that predict labels of a whole text; labels are the
	// tokens from FirstLabel on. 1 to MaxLabels.
	Labels int `json:"labels,omitempty"`

	// Image is for networks for images.
	Image Image `json:"image,omitzero"`

	// Outline is for kind External, and the only information about its network.
	Outline Outline `json:"outline,omitempty"`
}

// Unprojected, as Config.Projection, leaves the projection out.
const Unprojected = -1

// Absent, as a token's output bias, leaves the token out of all predictions: its probability rounds
// to 0 if other logits are above Absent/2.
const Absent = -10_000

// DefaultKernel is the kernel of the lowest layers in Zhang et al. (2015), table 1.
const DefaultKernel = 7

// Limits of a Config: far above any model reproduced here, and low enough that no size overflows.
const (
	maxVocabulary = 1 << 24
	maxWidth      = 1 << 16
	maxLayers     = 4
	maxKernel     = 64
	// MaxParameters is the largest number of parameters of a model.
	MaxParameters = math.MaxInt32
)

func (c Config) layers() int { return max(1, c.Layers) }

func (c Config) kernel() int { return cmp.Or(c.Kernel, DefaultKernel) }

// outputWidth is the width of every layer's output.
func (c Config) outputWidth() int {
	switch c.Projection {
	case Unprojected:
		return c.Units
	case 0:
		return c.Embedding
	}
	return c.Projection
}

// Frozen returns the configuration of the parameters that Adapters freeze.
func (c Config) Frozen() Config {
	c.Adapters = Adapters{}
	return c
}

// Validate reports all errors of the configuration at once.
func (c Config) Validate() error {
	if c.Kind == External {
		_, err := NewExternal(c)
		return err
	}
	if c.Kind.ForImages() {
		return c.validateImage()
	}
	if c.Kind.ForLabels() {
		return c.validateReader()
	}
	if c.Kind == Transformer {
		return c.validateTransformer()
	}
	var problems []error
	if (c.Image != Image{}) {
		problems = append(problems, fmt.Errorf("a model of kind %s sees no images", c.Kind))
	}
	if c.Labels != 0 {
		problems = append(problems, fmt.Errorf("%d labels: a model of kind %s predicts none", c.Labels, c.Kind))
	}
	if c.Heads != 0 || c.Context != 0 {
		problems = append(problems, fmt.Errorf("%d heads and a context of %d: a model of kind %s has neither", c.Heads, c.Context, c.Kind))
	}
	if c.Blocks != (Blocks{}) {
		problems = append(problems, fmt.Errorf("blocks %+v: a model of kind %s has none", c.Blocks, c.Kind))
	}
	if c.Adapters != (Adapters{}) {
		problems = append(problems, fmt.Errorf("adapters %+v: a model of kind %s has none", c.Adapters, c.Kind))
	}
	kind, err := kinds.Find(c.Kind)
	if err != nil {
		problems = append(problems, err)
	}
	within(&problems, "vocabulary", c.Vocabulary, 2, maxVocabulary)
	within(&problems, "embedding", c.Embedding, 1, maxWidth)
	within(&problems, "units", c.Units, 1, maxWidth)
	within(&problems, "layers", c.layers(), 1, maxLayers)
	if err == nil && kind.convolves {
		within(&problems, "kernel", c.kernel(), 2, maxKernel)
	} else if err == nil && c.Kernel != 0 {
		problems = append(problems, fmt.Errorf("kernel %d: a model of kind %s has none", c.Kernel, c.Kind))
	}
	if c.Projection != Unprojected {
		within(&problems, "projection", c.Projection, 0, maxWidth)
	}
	if c.Separator != 0 {
		within(&problems, "separator", int(c.Separator), 1, c.Vocabulary-1)
		if err == nil && kind.convolves {
			problems = append(problems, fmt.Errorf("a separator with kind %s: want a recurrent kind, whose state the decoder starts from", c.Kind))
		}
	}
	if len(problems) == 0 {
		problems = c.fit()
	}
	return invalid(problems)
}

// within adds a problem unless a value is in its range.
func within(problems *[]error, name string, value, low, high int) {
	if value < low || value > high {
		*problems = append(*problems, fmt.Errorf("%s %d: want %d to %d", name, value, low, high))
	}
}

// invalid joins the problems of a configuration in one line; nil for none.
func invalid(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("model configuration: %w", errors.New(strings.Join(lists.Map(problems, error.Error), "; ")))
}

// fit checks sizes against each other.
func (c Config) fit() []error {
	var problems []error
	if width := c.outputWidth(); !c.Untied && width != c.Embedding {
		problems = append(problems, fmt.Errorf(
			"the last layer's output has width %d: want that of the embedding, %d, to share its weights; or untie the output", width, c.Embedding))
	}
	if n := newLayout(c).size; n > MaxParameters {
		problems = append(problems, fmt.Errorf("%d parameters: want at most %d", n, MaxParameters))
	}
	return problems
}
