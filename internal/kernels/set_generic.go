//go:build !amd64

package kernels

func available() []*set { return []*set{portable} }
