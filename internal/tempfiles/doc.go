// Package tempfiles makes temporary files and directories that vanish with their process, replaces
// files as a whole, copies streams, and sorts more records than fit into memory.
package tempfiles
