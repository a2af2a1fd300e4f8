package rdp_test

import (
	"math"
	"math/big"
)

// precision of the references, in bits. The smallest sum that is distinguished
// from 1 is about 1 + 1e-18, of which 96 bits are left.
const precision = 156

func float(x float64) *big.Float { return zero().SetFloat64(x) }

func zero() *big.Float { return new(big.Float).SetPrec(precision) }

func product(x, y *big.Float) *big.Float    { return zero().Mul(x, y) }
func quotient(x, y *big.Float) *big.Float   { return zero().Quo(x, y) }
func negated(x *big.Float) *big.Float       { return zero().Neg(x) }
func difference(x, y *big.Float) *big.Float { return sum(x, negated(y)) }

// sum leaves out a negligible term: big.Float would shift it by the difference
// of the exponents, however many bits that takes.
func sum(x, y *big.Float) *big.Float {
	apart := x.MantExp(nil) - y.MantExp(nil)
	switch {
	case y.Sign() == 0 || x.Sign() != 0 && apart > 2*precision:
		return x
	case x.Sign() == 0 || apart < -2*precision:
		return y
	}
	return zero().Add(x, y)
}

// least returns the smaller of two numbers.
func least(x, y *big.Float) *big.Float {
	if x.Cmp(y) <= 0 {
		return x
	}
	return y
}

var ln2 = func() *big.Float { // the series of atanh(1/3)
	total, power := zero(), quotient(float(2), float(3))
	for n := 1; n < 2*precision; n += 2 {
		total = sum(total, quotient(power, float(float64(n))))
		power = quotient(power, float(9))
	}
	return total
}()

// exponential returns exp(x), or 0 if it underflows a big.Float.
func exponential(x *big.Float) *big.Float {
	twos, _ := quotient(x, ln2).Float64()
	twos = math.Round(twos)
	if twos < big.MinExp/2 {
		return zero()
	}
	const halvings = 16
	rest := zero().SetMantExp(difference(x, product(float(twos), ln2)), -halvings)
	total, term := float(1), float(1)
	for n := 1.0; term.Sign() != 0 && term.MantExp(nil) > -precision; n++ {
		term = quotient(product(term, rest), float(n))
		total = sum(total, term)
	}
	for range halvings {
		total = product(total, total)
	}
	return zero().SetMantExp(total, int(twos))
}

// logarithm returns log(x) for x > 0, by one step of Halley's iteration on exp,
// which triples the 53 bits of a double.
func logarithm(x *big.Float) *big.Float {
	mantissa := zero()
	exponent := x.MantExp(mantissa)
	start, _ := mantissa.Float64()
	y := float(math.Log(start))
	e := exponential(y)
	step := quotient(difference(mantissa, e), sum(mantissa, e))
	y = sum(y, sum(step, step))
	return sum(y, product(float(float64(exponent)), ln2))
}
