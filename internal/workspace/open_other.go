//go:build !unix

package workspace

// atOnce is for systems whose folders have pipes.
const atOnce = 0
