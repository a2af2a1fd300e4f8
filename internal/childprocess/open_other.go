//go:build !unix

package childprocess

// atOnce is 0 on systems without pipes in folders.
const atOnce = 0
