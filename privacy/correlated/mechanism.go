package correlated

import "coalmine/internal/registry"

// Kind names a kind of strategy.
type Kind string

// The kinds of strategies.
const (
	KindBLT    Kind = "blt"
	KindBanded Kind = "banded"
	KindTree   Kind = "tree"
)

// Mechanism is the description of a strategy in tasks, recipes and records. Fields of other kinds
// are empty.
type Mechanism struct {
	Kind Kind `json:"kind"`
	// Scales and Decays are the fields of a BLT.
	Scales []float64 `json:"scales,omitempty"`
	Decays []float64 `json:"decays,omitempty"`
	// Coefficients is the field of a Banded.
	Coefficients []float64 `json:"coefficients,omitempty"`
}

// Sort describes a kind of strategy.
type Sort struct {
	Kind Kind
	// Summary describes the kind in one line; Source names its authors.
	Summary, Source string
	strategy        func(Mechanism) Strategy
}

var sorts = registry.New("mechanism", func(s Sort) Kind { return s.Kind },
	Sort{KindBLT, "buffered linear Toeplitz: a few buffers of the model's size, whatever the rounds", "Dvijotham et al. 2024; McMahan et al. 2024",
		func(m Mechanism) Strategy { return BLT{Scales: m.Scales, Decays: m.Decays} }},
	Sort{KindBanded, "banded Toeplitz: a buffer of the model's size for each band but one", "Choquette-Choo et al. 2023",
		func(m Mechanism) Strategy { return Banded{Coefficients: m.Coefficients} }},
	Sort{KindTree, "tree aggregation without restarts, estimated from complete nodes (Honaker 2015): a buffer for each level", "Kairouz et al. 2021",
		func(Mechanism) Strategy { return Tree{} }},
)

// Choices lists the kinds for an experiment file.
func (Kind) Choices() []string { return sorts.Words() }

// Sorts lists all kinds of strategies.
func Sorts() []Sort { return sorts.Entries() }

// Strategy returns the strategy that the mechanism describes. It is an error if the kind is
// unknown or a number is out of range.
func (m Mechanism) Strategy() (Strategy, error) {
	s, err := sorts.Find(m.Kind)
	if err != nil {
		return nil, err
	}
	strategy := s.strategy(m)
	return strategy, strategy.Validate()
}

// Independently returns the strategy of uncorrelated noise.
func Independently() Strategy { return Banded{Coefficients: []float64{1}} }
