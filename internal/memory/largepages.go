// These files allocate tables with scattered reads, and vectors that a training
// step reads repeatedly. In pages of 4 KiB most reads of a table of many
// megabytes first wait for an address translation, and hardware prefetching ends
// with every page; in pages of 2 MiB few do.

package memory

// Floats returns n zeros, in large pages if the system grants them: on Linux,
// unless transparent huge pages are switched off. It does not affect results.
func Floats(n int) []float32 {
	table := make([]float32, n)
	advise(table)
	return table
}
