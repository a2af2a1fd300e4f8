// Package tempfiles makes temporary files and directories that vanish with their process, and
// uses them to copy streams and to sort more records than fit into memory.
package tempfiles
