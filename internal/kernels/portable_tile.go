package kernels

import "coalmine/internal/kernels/ieee"

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
