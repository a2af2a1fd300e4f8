// Package goroutines starts, pauses and ends concurrent work: it converts panics to errors,
// and waits no longer than a context lasts.
package goroutines
