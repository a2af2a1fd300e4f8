// Package kernels holds the arithmetic that training and scoring spend their
// time in.
package kernels

//go:generate go run ./gen -out kernels_amd64.s -stubs kernels_amd64.go -pkg kernels
