package kernels

import (
	"fmt"
	"math"
)

// Rounded is a matrix B with elements rounded to integers times a step, for rough products at about half
// the cost of exact ones. The zero value is an empty matrix. It is safe for concurrent reads.
type Rounded struct {
	k, n   int
	most   int32   // the largest integer in a product, on either side
	step   float64 // of B
	length float64 // at least the length of a column of B
	pairs  []float32
}

const (
	// roundedRows divides the number of rows that a product computes, in every set.
	roundedRows = 12
	// roundedColumns is the width of a panel.
	roundedColumns = 16
	// nearPanels is the number of panels reused for the next rows while in the cache.
	nearPanels = 6
)

// RoundB rounds B, k x n with the stride ldb.
func RoundB(k, n int, b []float32, ldb int) *Rounded {
	checkMatrix("b", b, k, n, ldb, false)
	r := &Rounded{k: k, n: n, most: math.MaxInt16}
	if k > 0 {
		r.most = min(r.most, int32(math.Sqrt(math.MaxInt32/float64(k))))
	}
	largest := 0.0
	squares := make([]float64, n)
	for p := range k {
		for j, v := range b[p*ldb:][:n] {
			largest = math.Max(largest, math.Abs(float64(v)))
			squares[j] += float64(v) * float64(v)
		}
	}
	for _, square := range squares {
		r.length = math.Max(r.length, math.Sqrt(square)*(1+1e-9))
	}
	r.step = largest / float64(r.most)
	depth, panels := r.depth(), r.Stride()/roundedColumns
	r.pairs = aligned(nil, panels*depth*roundedColumns)
	for j := range n {
		panel := r.pairs[j/roundedColumns*depth*roundedColumns+j%roundedColumns:]
		for p := 0; p < k; p += 2 {
			second := int32(0)
			if p+1 < k {
				second = r.integer(b[(p+1)*ldb+j], r.step)
			}
			panel[p/2*roundedColumns] = pair(r.integer(b[p*ldb+j], r.step), second)
		}
	}
	return r
}

// Bytes returns the memory of the matrix.
func (r *Rounded) Bytes() int64 { return 4 * int64(cap(r.pairs)) }

// integer returns v in steps, rounded, and 0 for NaN.
func (r *Rounded) integer(v float32, step float64) int32 {
	x := float64(v) / step
	if !(math.Abs(x) <= float64(r.most)+0.5) {
		return 0
	}
	return int32(math.Round(x))
}

// pair packs two 16-bit integers into the memory of a float32.
func pair(first, second int32) float32 {
	return math.Float32frombits(uint32(uint16(first)) | uint32(uint16(second))<<16)
}

// depth returns the number of pairs in a column.
func (r *Rounded) depth() int { return (r.k + 1) / 2 }

// Stride returns the stride of the rows of a product.
func (r *Rounded) Stride() int { return roundUp(r.n, roundedColumns) }

// Room returns the number of elements of a product with m rows of A.
func (r *Rounded) Room(m int) int { return roundUp(m, roundedRows) * r.Stride() }

// GemmRounded sets the first n elements of m rows of c, b.Stride() apart, to roughly A*B, for an A of m
// x k with rows k apart, and the other elements of b.Room(m) to undefined values. It sets errors[i] to a
// bound on the error of every element of row i against the exact product, or the product of Gemm; it is
// NaN or infinite if A or B is not finite.
//
// Rows of A are also rounded. A pair of integers is multiplied, added to its neighbour and to the sum,
// without overflow because they are small enough for k; so the sum is exact in any order.
func GemmRounded(m int, a []float32, b *Rounded, c []float32, errors []float64) {
	checkMatrix("a", a, m, b.k, b.k, false)
	if len(errors) != m || len(c) < b.Room(m) {
		panic(fmt.Sprintf("kernels: errors has %d elements and c %d; %d rows need as many and %d", len(errors), len(c), m, b.Room(m)))
	}
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	w.rounded.Set(m, a, b, errors)
	GemmRoundedColumns(&w.rounded, b, 0, b.n, c, b.Stride())
}

// RoundedRows holds rounded rows of A, for products with one Rounded that are computed part by part. The zero value
// has no rows.
type RoundedRows struct {
	m             int
	pairs, scales []float32 // of a multiple of roundedRows rows
}

// Set rounds m rows of A, k apart, for products with b. It sets errors as GemmRounded does.
func (r *RoundedRows) Set(m int, a []float32, b *Rounded, errors []float64) {
	checkMatrix("a", a, m, b.k, b.k, false)
	if len(errors) != m {
		panic(fmt.Sprintf("kernels: errors has %d elements; %d rows need as many", len(errors), m))
	}
	rows, depth := roundUp(m, roundedRows), b.depth()
	r.m, r.pairs, r.scales = m, aligned(r.pairs, rows*depth), aligned(r.scales, rows)
	clear(r.pairs[m*depth:])
	clear(r.scales[m:])
	for i := range m {
		r.scales[i], errors[i] = b.roundRow(r.pairs[i*depth:][:depth], a[i*b.k:][:b.k])
	}
}

// Room returns the number of elements of a product with the given stride.
func (r *RoundedRows) Room(stride int) int { return roundUp(r.m, roundedRows) * stride }

// GemmRoundedColumns is GemmRounded for the columns [from, to) of B, with rows of c cRow apart. from is a multiple of
// 16, and cRow is at least to-from rounded up to a multiple of 16. c has a.Room(cRow) elements; elements beyond the
// product become undefined.
func GemmRoundedColumns(a *RoundedRows, b *Rounded, from, to int, c []float32, cRow int) {
	depth, columns := b.depth(), roundUp(to-from, roundedColumns)
	if from%roundedColumns != 0 || from < 0 || to < from || to > b.n || len(a.pairs) != roundUp(a.m, roundedRows)*depth {
		panic(fmt.Sprintf("kernels: columns %d to %d of %d, and rows of %d pairs in all; want a first column that is a multiple of %d, and rows rounded for b",
			from, to, b.n, len(a.pairs), roundedColumns))
	}
	if cRow < columns || len(c) < a.Room(cRow) {
		panic(fmt.Sprintf("kernels: c has %d elements and a stride of %d; want %d and %d", len(c), cRow, a.Room(cRow), columns))
	}
	if depth == 0 {
		clear(c[:a.Room(cRow)])
		return
	}
	s, rows := active.Load(), len(a.scales)
	for j := 0; j < columns; j += nearPanels * roundedColumns {
		panels := min(nearPanels, (columns-j)/roundedColumns)
		for i := 0; i < rows; i += s.roundedRows {
			s.roundedTile(panels, depth, a.pairs[i*depth:], b.pairs[(from+j)*depth:], c[i*cRow+j:], cRow, a.scales[i:])
		}
	}
}

// roundRow rounds a row of A, and returns the scale of the integers of the product, and a bound on its
// error. With a', b' the rounded row and a rounded column, |a b - a' b'| is at most |a-a'| |b| + |a'|
// |b-b'| (Cauchy and Schwarz); no element of the differences is more than half a step. The remaining
// error is the rounding of the exact product in float32, in any order, and of the result.
func (r *Rounded) roundRow(dst, a []float32) (scale float32, bound float64) {
	largest := float32(0)
	for _, v := range a {
		largest = max(largest, abs(v))
	}
	step, length := float64(largest)/float64(r.most), math.Sqrt(SquaredNorm(a))
	if step < 1e-30 {
		clear(dst) // the scale has no inverse in float32
		return 0, length * r.length
	}
	inverse := float32(1 / step)
	for p := range dst {
		first, second := nearest(a[2*p]*inverse), int32(0)
		if 2*p+1 < len(a) {
			second = nearest(a[2*p+1] * inverse)
		}
		dst[p] = pair(first, second)
	}
	width := float64(r.k)
	half := math.Sqrt(width) / 2 * (1 + 1e-2) // the quotients are also rounded
	rounding := (width + 16) / (1 << 24)
	bound = half*step*r.length + (length+half*step)*half*r.step + rounding*length*r.length
	return float32(step * r.step), bound
}

// nearest rounds to a 16-bit integer.
func nearest(x float32) int32 { return int32(x+(1<<15)+0.5) - 1<<15 }

// roundedTile is the definition of the kernel.
func roundedTile(panels, depth int, a, b, c []float32, cRow int, scales []float32) {
	for i := range roundedRows {
		for j := range panels * roundedColumns {
			panel := b[j/roundedColumns*depth*roundedColumns+j%roundedColumns:]
			sum := int32(0)
			for p := range depth {
				sum += pairProduct(a[i*depth+p], panel[p*roundedColumns])
			}
			c[i*cRow+j] = float32(sum) * scales[i]
		}
	}
}

func pairProduct(x, y float32) int32 {
	a, b := math.Float32bits(x), math.Float32bits(y)
	return int32(int16(a))*int32(int16(b)) + int32(int16(a>>16))*int32(int16(b>>16))
}
