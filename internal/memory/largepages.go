// These files allocate tables that are read all over, and vectors that a
// training step passes through again and again. In pages of 4 KiB most reads of a
// table of many megabytes wait for the translation of an address first, and the
// processor's own fetching ahead ends with every page; in pages of 2 MiB few do.

package memory

// Floats returns n zeros, in large pages if the system grants them: on Linux,
// unless transparent huge pages are switched off. It does not affect results.
func Floats(n int) []float32 {
	table := make([]float32, n)
	advise(table)
	return table
}
