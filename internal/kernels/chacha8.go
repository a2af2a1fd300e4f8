package kernels

import "fmt"

// Sizes of ChaCha8.
const (
	// ChaCha8Rows is the number of rows of a block, and ChaCha8State the number of its input rows.
	ChaCha8Rows, ChaCha8State = 16, 9
	// ChaCha8Lanes divides the number of blocks.
	ChaCha8Lanes = 16
)

// ChaCha8 computes blocks of the stream cipher ChaCha with eight rounds (Bernstein 2008), one in
// each lane: rows has 16 rows of one number per lane, one after another, and state has rows 4 to 12
// of the initial block, eight words of the key and the counter. Rows 13 to 15 begin with 0. As in
// math/rand/v2, the initial block is added only to its key's rows.
func ChaCha8(rows, state []uint32) {
	lanes := len(rows) / ChaCha8Rows
	if lanes == 0 || lanes%ChaCha8Lanes != 0 || len(rows) != ChaCha8Rows*lanes || len(state) != ChaCha8State*lanes {
		panic(fmt.Sprintf("kernels: blocks of ChaCha8 have %d words and a state of %d; expected %d and %d for each of a multiple of %d lanes",
			len(rows), len(state), ChaCha8Rows, ChaCha8State, ChaCha8Lanes))
	}
	active.Load().chaCha8(rows, state)
}
