package kernels

import (
	"math"
	"math/bits"

	"coalmine/internal/kernels/constant"
	"coalmine/internal/kernels/ieee"
)

// portable is the set in plain Go: the definition of the arithmetic for tests
// of the assembly, and the fallback for processors without it. Each product is
// converted explicitly, so that no compiler fuses it into a sum.
var portable = &set{
	name:     "go",
	tileRows: maxTileRows, tileColumns: panelWidth, tileLanes: panelWidth,
	tiles:                    [][]tileFunc{1: portableTiles()},
	transpose8:               transpose8,
	exp:                      each(exp),
	sigmoid:                  each(sigmoid),
	tanh:                     each(tanh),
	max:                      largest,
	expSum:                   expSum,
	sumExp:                   sumExp,
	moments:                  moments,
	expColumns:               expColumns(4),
	expColumns1:              expColumns(1),
	dotRows:                  dotRows(4),
	dotRows1:                 dotRows(1),
	axpy:                     axpy,
	scale:                    scale,
	add:                      add,
	dot:                      dot,
	mul:                      mul,
	blend:                    blend,
	mulAdd:                   mulAdd,
	cifgGates:                cifgGates,
	mulTanh:                  mulTanh,
	roundedTile:              roundedTile,
	roundedRows:              roundedRows,
	cifgRoughDot:             cifgRoughDot,
	cifgBackward:             cifgBackward,
	lstmBackward:             lstmBackward,
	gruCandidate:             gruCandidate,
	gruCell:                  gruCell,
	gruBackward:              gruBackward,
	maxPool:                  maxPool,
	maxPoolBackward:          maxPoolBackward,
	sumRows:                  sumRows,
	rectify:                  rectify,
	columnMoments:            columnMoments,
	normalizeColumns:         normalizeColumns,
	normalizeColumnsBackward: normalizeColumnsBackward,
	rowMoments:               rowMoments,
	normalizeRow:             normalizeRow,
	gelu:                     each(gelu),
	chaCha8:                  chaCha8,
	peak:                     peak,
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

// tanh returns -u/(2+u) for u = e^(-2|x|) - 1, which keeps its relative precision near 0.
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

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ constant.SignBit) }

func copySign(magnitude, sign float32) float32 {
	return math.Float32frombits(math.Float32bits(magnitude)&^constant.SignBit | math.Float32bits(sign)&constant.SignBit)
}

func chaCha8(rows, state []uint32) {
	lanes := len(rows) / ChaCha8Rows
	for lane := range lanes {
		var b [ChaCha8Rows]uint32
		copy(b[:], constant.ChaCha8[:])
		for i := range ChaCha8State {
			b[4+i] = state[i*lanes+lane]
		}
		for range 4 {
			chaChaRounds(&b)
		}
		for i := range b {
			if i >= 4 && i < 12 {
				b[i] += state[(i-4)*lanes+lane]
			}
			rows[i*lanes+lane] = b[i]
		}
	}
}

// chaChaRounds mixes the columns of a block and then its diagonals.
func chaChaRounds(b *[ChaCha8Rows]uint32) {
	for i := range 4 {
		chaChaQuarter(&b[i], &b[4+i], &b[8+i], &b[12+i])
	}
	for i := range 4 {
		chaChaQuarter(&b[i], &b[4+(i+1)%4], &b[8+(i+2)%4], &b[12+(i+3)%4])
	}
}

func chaChaQuarter(x, y, z, w *uint32) {
	for _, by := range [2][2]int{{16, 12}, {8, 7}} {
		*x += *y
		*w = bits.RotateLeft32(*w^*x, by[0])
		*z += *w
		*y = bits.RotateLeft32(*y^*z, by[1])
	}
}

func cifgBackward(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
	n := len(dOutput)
	in, candidate, out := gates[:n], gates[n:2*n], gates[2*n:3*n]
	dIn, dCandidate, dOut := dGates[:n], dGates[n:2*n], dGates[2*n:3*n]
	for j := range dOutput {
		i, z, o, t := in[j], candidate[j], out[j], tanhCell[j]
		d := cellGradient(dOutput[j], o, t, dCell[j])
		dOut[j] = logisticGradient(float32(dOutput[j]*t), o)
		dIn[j] = logisticGradient(float32(d*(z-previous[j])), i)
		dCandidate[j] = float32(d*i) * ieee.FMA32(-z, z, 1)
		dCell[j] = d * (1 - i)
	}
}

func lstmBackward(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
	n := len(dOutput)
	in, forget, candidate, out := gates[:n], gates[n:2*n], gates[2*n:3*n], gates[3*n:4*n]
	dIn, dForget, dCandidate, dOut := dGates[:n], dGates[n:2*n], dGates[2*n:3*n], dGates[3*n:4*n]
	for j := range dOutput {
		i, f, z, o, t := in[j], forget[j], candidate[j], out[j], tanhCell[j]
		d := cellGradient(dOutput[j], o, t, dCell[j])
		dOut[j] = logisticGradient(float32(dOutput[j]*t), o)
		dIn[j] = logisticGradient(float32(d*z), i)
		dForget[j] = logisticGradient(float32(d*previous[j]), f)
		dCandidate[j] = float32(d*i) * ieee.FMA32(-z, z, 1)
		dCell[j] = d * f
	}
}

// The products of a GRU are converted before they are added, so that no compiler fuses the two.

func gruCandidate(dst, r, x []float32) {
	for i, v := range x {
		dst[i] += float32(r[i] * v)
	}
}

func gruCell(dst, u, x, z []float32) {
	for i, v := range x {
		dst[i] = z[i] + float32(u[i]*(v-z[i]))
	}
}

func gruBackward(gates, candidate, previous, dOutput, dCell, dGates, dCandidate []float32) {
	n := len(dOutput)
	reset, update, proposed := gates[:n], gates[n:2*n], gates[2*n:3*n]
	dReset, dUpdate, dProposed := dGates[:n], dGates[n:2*n], dGates[2*n:3*n]
	for j := range dOutput {
		r, u, z, d := reset[j], update[j], proposed[j], dOutput[j]+dCell[j]
		dz := float32(d*(1-u)) * (1 - float32(z*z))
		dUpdate[j] = float32(d*(previous[j]-z)) * float32(u*(1-u))
		dReset[j] = float32(dz*candidate[j]) * float32(r*(1-r))
		dProposed[j] = dz
		dCandidate[j] = dz * r
		dCell[j] = d * u
	}
}

// cellGradient carries the gradient of o*tanh(c) to c, where t is tanh(c).
func cellGradient(dOutput, o, t, dCell float32) float32 {
	return ieee.FMA32(float32(dOutput*o), ieee.FMA32(-t, t, 1), dCell)
}

// logisticGradient carries the gradient of s = sigmoid(x) to x.
func logisticGradient(d, s float32) float32 { return float32(d*s) * (1 - s) }

func portableTiles() []tileFunc {
	tiles := make([]tileFunc, maxTileRows+1)
	for rows := 1; rows <= maxTileRows; rows++ {
		tiles[rows] = portableTile(rows)
	}
	return tiles
}

func portableTile(rows int) tileFunc {
	return func(count, depth int, a []float32, aRow, aStep int, b []float32, bRow int,
		c []float32, cRow, columns int, alpha float32, accumulate bool, bias []float32) {
		for t := range count {
			for i := range rows {
				from := a[(t*rows+i)*aRow:]
				to := c[(t*rows+i)*cRow:][:columns]
				var addend []float32
				switch {
				case bias != nil:
					addend = bias
				case accumulate:
					addend = to
				}
				portableRow(depth, from, aStep, b, bRow, to, alpha, addend)
			}
		}
	}
}

// portableRow computes one row of a tile: for each column one chain of
// multiply-adds from zero, in the order of k.
func portableRow(depth int, a []float32, aStep int, b []float32, bRow int, c []float32, alpha float32, addend []float32) {
	var sums [panelWidth]float32
	acc := sums[:len(c)]
	for p := range depth {
		multiplyAdd(acc, float64(a[p*aStep]), b[p*bRow:])
	}
	for j, sum := range acc {
		if addend != nil {
			c[j] = ieee.FMA32(alpha, sum, addend[j])
		} else {
			c[j] = alpha * sum
		}
	}
}

// multiplyAdd computes acc += x*y, each element rounded once; x is a float32.
func multiplyAdd(acc []float32, x float64, y []float32) {
	y = y[:len(acc)]
	for j, c := range acc {
		product := x * float64(y[j])
		if sum, ok := ieee.Add(product, c); ok {
			acc[j] = float32(sum)
		} else {
			acc[j] = ieee.AddSlowly(product, c)
		}
	}
}

func transpose8(dst []float32, dstRow int, src []float32, srcRow, count int) {
	for i := range 8 {
		for j, v := range src[i*srcRow:][:8*count] {
			dst[j*dstRow+i] = v
		}
	}
}

// peak repeats the inner loop of a tile on a row that stays in the cache.
func peak(rounds int) int {
	var acc, row [panelWidth]float32
	for j := range row {
		row[j] = 1
	}
	for range rounds {
		multiplyAdd(acc[:], 0.5, row[:])
	}
	return 2 * rounds * len(acc)
}
