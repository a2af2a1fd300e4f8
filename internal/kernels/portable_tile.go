package kernels

import "coalmine/internal/kernels/ieee"

func portableTiles() (tiles [maxTileRows + 1]tileFunc) {
	for rows := 1; rows <= maxTileRows; rows++ {
		tiles[rows] = portableTile(rows)
	}
	return tiles
}

func portableTile(rows int) tileFunc {
	return func(count, depth int, a []float32, aTile, aRow, aStep int, b []float32, bRow int,
		c []float32, cRow, columns int, alpha float32, accumulate bool) {
		for t := range count {
			for i := range rows {
				from := a[t*aTile+i*aRow:]
				to := c[(t*rows+i)*cRow:][:columns]
				portableRow(depth, from, aStep, b, bRow, to, alpha, accumulate)
			}
		}
	}
}

// portableRow computes one row of a tile: for each column one chain of
// multiply-adds from zero, in the order of k.
func portableRow(depth int, a []float32, aStep int, b []float32, bRow int, c []float32, alpha float32, accumulate bool) {
	var sums [panelWidth]float32
	acc := sums[:len(c)]
	for p := range depth {
		x := a[p*aStep]
		row := b[p*bRow:][:len(acc)]
		for j, y := range row {
			acc[j] = ieee.FMA32(x, y, acc[j])
		}
	}
	for j, sum := range acc {
		if accumulate {
			c[j] = ieee.FMA32(alpha, sum, c[j])
		} else {
			c[j] = alpha * sum
		}
	}
}

func transpose8(dst []float32, dstRow int, src []float32, srcRow int) {
	for i := range 8 {
		for j, v := range src[i*srcRow:][:8] {
			dst[j*dstRow+i] = v
		}
	}
}

func dealTiles(dst []float32, pitch int, src []float32, srcRow, height, count, depth int) {
	for p := range depth {
		for i := range count {
			copy(dst[i*pitch+p*maxTileRows:][:maxTileRows], src[p*srcRow+i*height:])
		}
	}
}

// peak keeps eight chains, so that latency does not hide throughput.
func peak(rounds int) int {
	var acc [8]float32
	for range rounds {
		for j := range acc {
			acc[j] = ieee.FMA32(acc[j], 0.5, 1)
		}
	}
	return rounds * len(acc) * 2
}
