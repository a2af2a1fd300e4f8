package kernels

import (
	"math"

	"coalmine/internal/kernels/constant"
	"coalmine/internal/kernels/ieee"
)

// portable is the set in plain Go: the definition of the arithmetic for tests
// of the assembly, and the fallback for processors without it. Each product is
// converted explicitly, so that no compiler fuses it into a sum.
var portable = &set{
	name:     "go",
	tileRows: maxTileRows, tileColumns: panelWidth, tileLanes: panelWidth,
	tiles:        [][]tileFunc{1: portableTiles()},
	transpose8:   transpose8,
	exp:          each(exp),
	sigmoid:      each(sigmoid),
	tanh:         each(tanh),
	max:          largest,
	expSum:       expSum,
	sumExp:       sumExp,
	moments:      moments,
	expColumns:   expColumns(4),
	expColumns1:  expColumns(1),
	dotRows:      dotRows(4),
	dotRows1:     dotRows(1),
	axpy:         axpy,
	scale:        scale,
	add:          add,
	dot:          dot,
	mul:          mul,
	blend:        blend,
	mulAdd:       mulAdd,
	cifgGates:    cifgGates,
	mulTanh:      mulTanh,
	roundedTile:  roundedTile,
	roundedRows:  roundedRows,
	cifgRoughDot: cifgRoughDot,
	cifgBackward: cifgBackward,
	lstmBackward: lstmBackward,
	gruCandidate: gruCandidate,
	gruCell:      gruCell,
	gruBackward:  gruBackward,
	chaCha8:      chaCha8,
	peak:         peak,
}

func each(f func(float32) float32) func(dst, x []float32) {
	return func(dst, x []float32) {
		for i, v := range x {
			dst[i] = f(v)
		}
	}
}

// expm1Reduced splits e^x into 2^n * (1 + q) and returns q and n.
func expm1Reduced(x float32) (q float32, n int32) {
	r, n := reduceExp(x)
	p := constant.Expm1[5]
	for i := 4; i >= 0; i-- {
		p = ieee.FMA32(p, r, constant.Expm1[i])
	}
	return ieee.FMA32(float32(r*r), p, r), n
}

// reduceExp returns n and r with x = n*ln 2 + r.
func reduceExp(x float32) (r float32, n int32) {
	shifted := ieee.FMA32(x, constant.Log2E, constant.RoundToInteger)
	whole := shifted - constant.RoundToInteger
	r = ieee.FMA32(whole, -constant.Ln2High, x)
	r = ieee.FMA32(whole, -constant.Ln2Low, r)
	return r, int32(math.Float32bits(shifted)) - int32(math.Float32bits(constant.RoundToInteger))
}

// powerOfTwo returns 2^n for a normal result.
func powerOfTwo(n int32) float32 { return math.Float32frombits(uint32(n<<23) + math.Float32bits(1)) }

// exp scales by 2^n in two halves, so that both are normal numbers and a
// subnormal result is rounded once.
func exp(x float32) float32 {
	if x > constant.ExpHighest {
		x = constant.ExpHighest
	}
	if x < constant.ExpLowest {
		x = constant.ExpLowest
	}
	q, n := expm1Reduced(x)
	half := n >> 1
	return float32(float32((q+1)*powerOfTwo(half)) * powerOfTwo(n-half))
}

// boundedExp returns e^x for x with a normal 2^n. Its polynomial is split into
// pairs of terms, for shorter chains of instructions.
func boundedExp(x float32) float32 {
	if x > constant.ExpNormalHighest {
		x = constant.ExpNormalHighest
	}
	if x < constant.ExpNormalLowest {
		x = constant.ExpNormalLowest
	}
	r, n := reduceExp(x)
	square := float32(r * r)
	q := ieee.FMA32(constant.Expm1[5], r, constant.Expm1[4])
	for i := 2; i >= 0; i -= 2 {
		q = ieee.FMA32(q, square, ieee.FMA32(constant.Expm1[i+1], r, constant.Expm1[i]))
	}
	q = ieee.FMA32(q, square, r)
	power := powerOfTwo(n)
	return ieee.FMA32(q, power, power)
}

// sigmoid returns 1/(1+e^-x), as e^x/(1+e^x) for negative x.
func sigmoid(x float32) float32 {
	e := exp(-abs(x))
	if math.Signbit(float64(x)) {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// tanh returns -u/(2+u) for u = e^(-2|x|) - 1, which keeps its relative
// precision near 0.
func tanh(x float32) float32 {
	y := -2 * abs(x)
	if y < constant.TanhLowest {
		y = constant.TanhLowest
	}
	q, n := expm1Reduced(y)
	power := powerOfTwo(n)
	u := ieee.FMA32(power, q, power-1)
	return copySign(u, x) / (2 + u)
}

func abs(x float32) float32 {
	return math.Float32frombits(math.Float32bits(x) &^ constant.SignBit)
}

func copySign(magnitude, sign float32) float32 {
	return math.Float32frombits(math.Float32bits(magnitude)&^constant.SignBit | math.Float32bits(sign)&constant.SignBit)
}
