package rdp_test

import (
	"math/big"
)

// This file states the theorems a second time, as they are printed, in numbers of 156 bits: sums of
// all terms, without the rearrangements that keep doubles from cancelling.

// topOrder is the highest order that is compared.
const topOrder = 1024

// inverseFactorials holds 1/k! at index k, and factorials k!.
var factorials, inverseFactorials = func() (up, down []*big.Float) {
	up, down = []*big.Float{float(1)}, []*big.Float{float(1)}
	for k := 1; k <= topOrder; k++ {
		up = append(up, product(up[k-1], float(float64(k))))
		down = append(down, quotient(float(1), up[k]))
	}
	return up, down
}()

func choose(n, k int) *big.Float {
	return product(factorials[n], product(inverseFactorials[k], inverseFactorials[n-k]))
}

// powers holds x^k at index k.
func powers(x *big.Float) []*big.Float {
	out := []*big.Float{float(1)}
	for k := 1; k <= topOrder; k++ {
		out = append(out, product(out[k-1], x))
	}
	return out
}

// noise holds the constants of one sigma for the references.
type noise struct {
	sigma float64
	u2    *big.Float   // 1/sigma^2
	decay []*big.Float // exp(-k u2) at index k
	share []*big.Float // see fixedSizeShares
}

func newNoise(sigma float64) *noise {
	u2 := quotient(float(1), product(float(sigma), float(sigma)))
	n := &noise{sigma: sigma, u2: u2, decay: powers(exponential(zero().Neg(u2)))}
	n.share = n.fixedSizeShares()
	return n
}

// exponent returns k(k-1)/2 x u2.
func (n *noise) exponent(k int) *big.Float {
	return product(float(float64(k)*float64(k-1)/2), n.u2)
}

// logSum returns the logarithm of the sum over k = 0..order of weight(k)
// exp(k(k-1)u2/2). All is relative to the last exponential, since the terms of
// high orders and little noise are beyond a big.Float.
func (n *noise) logSum(order int, weight func(k int) *big.Float) *big.Float {
	total, relative := zero(), float(1)
	for k := order; k >= 0 && relative.Sign() != 0; k-- {
		if w := weight(k); w != nil {
			total = sum(total, product(w, relative))
		}
		if k > 0 {
			relative = product(relative, n.decay[k-1])
		}
	}
	return sum(n.exponent(order), logarithm(total))
}

// poissonMoment returns (a-1) x divergence of a Poisson sample at whole order a
// (Mironov, Talwar and Zhang 2019, section 3.3).
func (n *noise) poissonMoment(q, rest []*big.Float, order int) *big.Float {
	return n.logSum(order, func(k int) *big.Float {
		return product(choose(order, k), product(q[k], rest[order-k]))
	})
}

// fixedSizeMoment returns (a-1) x the bound of Wang et al. 2019, Theorem 27.
func (n *noise) fixedSizeMoment(q []*big.Float, order int) *big.Float {
	return n.logSum(order, func(k int) *big.Float {
		switch k {
		case 0:
			return float(1)
		case 1:
			return nil
		}
		return product(product(choose(order, k), q[k]), n.share[k])
	})
}

// fixedSizeShares returns the theorem's bound on its i-th term over exp(i(i-1)u2/2),
//
//	min{4 sqrt(B(2 floor(i/2)) B(2 ceil(i/2))) / exp(i(i-1)u2/2), 2}.
//
// The second is the smaller wherever u2 is above 4, since B(l) is then above half its leading term.
func (n *noise) fixedSizeShares() []*big.Float {
	shares := make([]*big.Float, topOrder+1)
	for i := range shares {
		shares[i] = float(2)
	}
	if n.u2.Cmp(float(4)) > 0 {
		return shares
	}
	moments := n.centralMoments()
	for i := 2; i <= topOrder; i++ {
		root := zero().Sqrt(product(moments[i/2*2], moments[(i+1)/2*2]))
		first := quotient(product(float(4), root), exponential(n.exponent(i)))
		shares[i] = least(first, shares[i])
	}
	return shares
}

// centralMoments returns B(l) for all l: the l-th differences of the sequence
// exp(k(k-1)u2/2), of which up to 3,500 bits cancel.
func (n *noise) centralMoments() []*big.Float {
	const wide = 4096
	row := make([]*big.Float, topOrder+1)
	growth := new(big.Float).SetPrec(wide).SetFloat64(1)
	// The sequence has to use one u2 to all its bits: the one in the 156 bits of exp(u2).
	base := new(big.Float).SetPrec(wide).Set(exponential(n.u2))
	power := new(big.Float).SetPrec(wide).SetFloat64(1)
	for k := range row {
		row[k] = new(big.Float).SetPrec(wide).Set(growth)
		growth.Mul(growth, power)
		power.Mul(power, base)
	}
	moments := []*big.Float{float(1)}
	for l := 1; l <= topOrder; l++ {
		for k := 0; k <= topOrder-l; k++ {
			row[k].Sub(row[k+1], row[k])
		}
		moments = append(moments, zero().Set(row[0]))
	}
	return moments
}
