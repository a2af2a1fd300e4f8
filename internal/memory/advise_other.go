//go:build !linux

package memory

func advise([]float32) {}
