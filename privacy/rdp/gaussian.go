package rdp

import (
	"fmt"
	"math"
)

// Gaussian returns the curve a/(2 sigma^2) of the Gaussian mechanism without
// sampling (Mironov 2017, Proposition 7). sigma is 0 or above.
func Gaussian(sigma float64, orders []float64) (Curve, error) {
	if err := checkMechanism(1, sigma); err != nil {
		return Curve{}, err
	}
	return ZeroConcentrated(rho(sigma), orders)
}

// ZeroConcentrated returns the curve a x rho of a mechanism with
// rho-zero-concentrated differential privacy (Bun and Steinke 2016,
// Concentrated Differential Privacy, Definition 1.1). rho is 0 or above.
func ZeroConcentrated(rho float64, orders []float64) (Curve, error) {
	if !(rho >= 0) {
		return Curve{}, fmt.Errorf("zero-concentrated privacy %v: expected rho to be 0 or above", rho)
	}
	return newCurve(orders, func(order float64) float64 { return order * rho })
}

// rho is the zero-concentrated privacy of Gaussian noise: 1/(2 sigma^2).
func rho(sigma float64) float64 { return math.Max(squaredRatio(sigma)/2, minDivergence(1, sigma)) }

// squaredRatio is (sensitivity/noise)^2, +Inf without noise.
func squaredRatio(sigma float64) float64 { return 1 / sigma / sigma }
