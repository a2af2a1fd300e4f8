// Package lists has the loops over lists that package slices lacks.
package lists

import (
	"cmp"
	"slices"
)

// Make returns the values of f for 0, ..., n - 1.
func Make[R any](n int, f func(i int) R) []R {
	list := make([]R, n)
	for i := range list {
		list[i] = f(i)
	}
	return list
}

// Map returns the values of f for the elements. It is never nil.
func Map[S ~[]E, E, R any](list S, f func(E) R) []R {
	return Make(len(list), func(i int) R { return f(list[i]) })
}

// Count counts the elements that fit.
func Count[S ~[]E, E any](list S, fits func(E) bool) (n int) {
	for _, x := range list {
		if fits(x) {
			n++
		}
	}
	return n
}

// Filter returns the elements that fit, nil if there are none.
func Filter[S ~[]E, E any](list S, fits func(E) bool) (some S) {
	for _, x := range list {
		if fits(x) {
			some = append(some, x)
		}
	}
	return some
}

// Find returns the first element that fits, nil if there is none.
func Find[S ~[]E, E any](list S, fits func(*E) bool) *E {
	for i := range list {
		if fits(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// Distinct returns the distinct elements, ascending.
func Distinct[S ~[]E, E cmp.Ordered](list S) S {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// Set returns the elements as a set: the value of each is true.
func Set[E comparable](elements ...E) map[E]bool {
	set := make(map[E]bool, len(elements))
	for _, e := range elements {
		set[e] = true
	}
	return set
}
