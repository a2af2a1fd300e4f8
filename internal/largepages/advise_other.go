//go:build !linux

package largepages

func advise([]float32) {}
