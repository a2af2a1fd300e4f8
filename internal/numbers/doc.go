// Package numbers holds numbers that float64 and JSON cannot express: infinite ones, and exact
// probabilities and shares.
package numbers
