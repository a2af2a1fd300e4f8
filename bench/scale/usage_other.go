//go:build !linux

package scale

func usageOf(int) usage { return usage{} }
