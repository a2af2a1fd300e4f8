// Package tempfiles makes temporary files and directories that vanish with their process, and
// uses them for copies of streams and for sorting more records than fit into memory.
package tempfiles
