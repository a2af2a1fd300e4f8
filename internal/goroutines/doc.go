// Package goroutines starts, pauses and ends work that runs concurrently: it turns panics into
// errors, and waits no longer than a context lasts.
package goroutines
