// Package largepages allocates tables that are read all over. In pages of 4 KiB
// most reads of a table of many megabytes wait for the translation of an address
// first; in pages of 2 MiB few do.
package largepages

// Floats returns n zeros, in large pages where the system grants them: on Linux,
// unless transparent huge pages are switched off. It shows in no result.
func Floats(n int) []float32 {
	table := make([]float32, n)
	advise(table)
	return table
}
