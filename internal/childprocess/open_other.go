//go:build !unix

package childprocess

// atOnce is for systems whose folders have pipes.
const atOnce = 0
