package models

import (
	"fmt"
	"math"

	"coalmine/internal/kernels"
)

// DivergedError says that training has left the finite numbers. Nothing mends
// it but another configuration.
type DivergedError struct {
	// What is not finite: "loss", "gradient", "update", "model".
	What string
	// Value is the offending number: the loss, or the L2 norm of a vector.
	Value float64
	// Where is for the caller to fill in: "client 17, round 400, step 3".
	Where string
}

func (e *DivergedError) Error() string {
	what := fmt.Sprintf("training diverged: the %s is %v", e.What, e.Value)
	if e.Where != "" {
		what += " at " + e.Where
	}
	return what + "; lower the learning rate or set a gradient clip"
}

// FiniteNorm returns the vector's L2 norm, or a *DivergedError if any element is
// NaN or infinite.
func FiniteNorm(what string, vector []float32) (float64, error) {
	norm := math.Sqrt(kernels.SquaredNorm(vector))
	if !finite(norm) {
		return 0, &DivergedError{What: what, Value: norm}
	}
	return norm, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkLength says which vector has the wrong length, and what it should be.
func checkLength(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%s has %d elements, want %d", what, got, want)
	}
	return nil
}
