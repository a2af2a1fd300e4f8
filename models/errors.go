package models

import (
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
)

// DivergedError reports that training has produced a number that is not finite. A retry does not
// help; change the configuration.
type DivergedError struct {
	// Name is the name of the vector or number: "loss", "gradient", "update", "model".
	Name string
	// Value is the offending number: a loss or a log probability in nats, or the L2 norm of a vector.
	Value float64
	// The caller sets Where: "client 17, round 400, step 3".
	Where string
}

func (e *DivergedError) Error() string {
	message := fmt.Sprintf("training diverged: the %s is %.2g", e.Name, e.Value)
	if e.Where != "" {
		message += " at " + e.Where
	}
	return message + "; lower the learning rate or set a gradient clip"
}

// LargestLoss is the mean loss per target, in nats, above which training has diverged. It is below the numbers
// at which engines overflow, which differ, and above the losses of models that noise has made random.
const LargestLoss = 1e15

// Check returns a *DivergedError if the mean loss per target is above LargestLoss or NaN.
func (l Loss) Check() error {
	if mean := l.Mean(); !(mean <= LargestLoss) {
		return &DivergedError{Name: "loss", Value: mean}
	}
	return nil
}

// FiniteNorm returns the vector's L2 norm, or a *DivergedError if any element is NaN or infinite.
func FiniteNorm(name string, vector []float32) (float64, error) {
	norm := math.Sqrt(kernels.SquaredNorm(vector))
	if !numbers.IsFinite(norm) {
		return 0, &DivergedError{Name: name, Value: norm}
	}
	return norm, nil
}

// checkLength returns an error that names the vector with a wrong length, and the expected length.
func checkLength(name string, got, want int) error {
	if got != want {
		return fmt.Errorf("%s has %d elements, want %d", name, got, want)
	}
	return nil
}
