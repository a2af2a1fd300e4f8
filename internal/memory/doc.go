// Package memory sets how the process uses memory: how much garbage it accumulates before a
// collection, and which tables lie in large pages.
package memory
