// Package numbers holds numbers that float64 and JSON cannot express: infinite ones, and exact
// probabilities and shares.
package numbers

import (
	"encoding/json"
	"math"
	"strconv"
)

// InfiniteText is the text of an infinite number.
const InfiniteText = "infinite"

// Float is a number, or +Inf for one beyond the range of float64. In JSON, +Inf is null.
type Float float64

// Infinite reports whether the number is +Inf.
func (f Float) Infinite() bool { return math.IsInf(float64(f), 1) }

// MarshalJSON writes a number, or null for +Inf. NaN and -Inf are errors.
func (f Float) MarshalJSON() ([]byte, error) {
	if f.Infinite() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads a number, or null for +Inf.
func (f *Float) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*f = Float(math.Inf(1))
		return nil
	}
	return json.Unmarshal(data, (*float64)(f))
}

// widest is the number from which Decimal uses a power of ten.
const widest = 1e7

// Decimal formats a number for people with the given digits behind the point; from ten million on
// with a power of ten, and an infinite number as InfiniteText.
func Decimal[T ~float64](x T, digits int) string {
	switch f := float64(x); {
	case math.IsInf(f, 1):
		return InfiniteText
	case math.IsInf(f, -1):
		return "-" + InfiniteText
	case math.Abs(f) >= widest:
		return strconv.FormatFloat(f, 'e', digits, 64)
	default:
		return strconv.FormatFloat(f, 'f', digits, 64)
	}
}

// IsFinite reports whether x is neither infinite nor NaN.
func IsFinite[T ~float32 | ~float64](x T) bool {
	return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0)
}

// Finite returns the number, or nil if it is not finite.
func Finite[T ~float64](x T) *float64 {
	if !IsFinite(x) {
		return nil
	}
	return new(float64(x))
}

// minNormal is the smallest positive normal float64: 2^-1022.
const minNormal = 0x1p-1022

// Log is math.Log, also correct for positive subnormal numbers, for which the amd64
// version always returns about -709.
func Log(x float64) float64 {
	if !(x > 0 && x < minNormal) {
		return math.Log(x)
	}
	fraction, exponent := math.Frexp(x)
	return math.Log(fraction) + float64(float64(exponent)*math.Ln2)
}

// LogOneMinusExp returns log(1 - e^x) for x below 0, accurate near 0 and -Inf (Mächler 2012).
func LogOneMinusExp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}
