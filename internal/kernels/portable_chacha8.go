package kernels

import (
	"math/bits"

	"coalmine/internal/kernels/constant"
)

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
