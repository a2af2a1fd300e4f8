package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
)

// Outline lists the tensors of an external network, in the form of OutlineOf. It is a string so
// that configurations are comparable.
type Outline string

// Shape is the name of a tensor and its dimensions.
type Shape struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
	// Frozen tensors are not trained. They follow the trained ones.
	Frozen bool `json:"frozen,omitempty"`
}

// Limits of an outline, far above any network that trains on one machine.
const (
	maxTensors    = 1 << 16
	maxTensorName = 512
	maxDimensions = 8
)

// OutlineOf returns the outline of tensors in their order. Each must have a unique name and
// dimensions of at least 1; all together have at most MaxParameters values.
func OutlineOf(shapes []Shape) (Outline, error) {
	if err := checkShapes(shapes); err != nil {
		return "", err
	}
	text, err := json.Marshal(shapes)
	return Outline(text), err
}

func (o Outline) shapes() ([]Shape, error) {
	var shapes []Shape
	if err := json.Unmarshal([]byte(o), &shapes); err != nil {
		return nil, fmt.Errorf("outline of a network: %w", err)
	}
	return shapes, checkShapes(shapes)
}

func checkShapes(shapes []Shape) error {
	if len(shapes) == 0 || len(shapes) > maxTensors {
		return fmt.Errorf("a network of %d tensors; expected 1 to %d", len(shapes), maxTensors)
	}
	if shapes[0].Frozen {
		return fmt.Errorf("tensor %q, the first, is frozen; expected the trained tensors first, and at least one", shapes[0].Name)
	}
	names, size := make(map[string]bool, len(shapes)), 0
	for i, s := range shapes {
		if i > 0 && shapes[i-1].Frozen && !s.Frozen {
			return fmt.Errorf("tensor %q is trained and follows the frozen %q; expected the trained tensors first", s.Name, shapes[i-1].Name)
		}
		values, err := s.values()
		if err != nil {
			return err
		}
		if names[s.Name] {
			return fmt.Errorf("two tensors are named %q; expected a name for each", s.Name)
		}
		names[s.Name] = true
		if size += values; size > MaxParameters {
			return fmt.Errorf("a network of more than %d parameters", MaxParameters)
		}
	}
	return nil
}

func (s *Shape) values() (int, error) {
	switch {
	case s.Name == "" || s.Name == "__metadata__" || len(s.Name) > maxTensorName:
		return 0, fmt.Errorf("a tensor is named %.40q; expected a name of at most %d bytes", s.Name, maxTensorName)
	case len(s.Shape) > maxDimensions:
		return 0, fmt.Errorf("tensor %q has %d dimensions; expected at most %d", s.Name, len(s.Shape), maxDimensions)
	}
	n := 1
	for _, d := range s.Shape {
		if d < 1 || n > MaxParameters/d {
			return 0, fmt.Errorf("tensor %q has the shape %v; expected dimensions of at least 1, and at most %d values", s.Name, s.Shape, MaxParameters)
		}
		n *= d
	}
	return n, nil
}

// ExternalNetwork is the layout of an external network. Coalmine cannot compute with it.
type ExternalNetwork struct{ Layout }

// NewExternal returns the network of a configuration of kind External.
func NewExternal(config Config) (*ExternalNetwork, error) {
	if config != (Config{Kind: External, Outline: config.Outline}) {
		return nil, errors.New("model configuration: one of kind external has an outline and nothing else")
	}
	shapes, err := config.Outline.shapes()
	if err != nil {
		return nil, fmt.Errorf("model configuration: %w", err)
	}
	m := &ExternalNetwork{NewLayout(config)}
	for _, s := range shapes {
		m.Add(s.Name, s.Shape...)
		if !s.Frozen {
			m.EndTrained()
		}
	}
	return m, nil
}

// Init implements Network with zeros: the external program draws the initial values.
func (m *ExternalNetwork) Init(*rand.Rand) []float32 { return make([]float32, m.size) }

// NewLearner implements Network with a learner that returns an error.
func (m *ExternalNetwork) NewLearner([]float32) Learner { return unknowing{} }

// ScoringFLOPs implements Network: unknown.
func (m *ExternalNetwork) ScoringFLOPs() float64 { return 0 }

// TrainingFLOPs implements Network: unknown.
func (m *ExternalNetwork) TrainingFLOPs() float64 { return 0 }

// unknowing is the learner of an external network.
type unknowing struct{}

var errExternal = errors.New("the network is external, and its gradients are unknown here; expected a training by its own program")

func (unknowing) Gradient([]float32, [][]int32, []float32) (Loss, error) { return Loss{}, errExternal }

// External is the kind of a network that an external program trains and scores.
const External Kind = "external"
