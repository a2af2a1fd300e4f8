// Package replay replays single steps of a training to test whether it runs the mechanism that its
// privacy account assumes.
//
// [Observe] replays each of several rounds from a given state: without noise on data that differ in
// one member, to measure how far a member moves the sum; and with noise, whose difference from the
// replay without noise is the noise itself. [Examine] tests the observations: the sensitivity
// exactly, and the noise and the cohorts by tests of the claim that noise is independent and
// normal, of the claimed deviation, and that cohorts are drawn as claimed. Every p-value is exact
// or an upper bound, so that a right training is refuted with at most the chosen probability.
//
// A [Step] represents a training and runs the training's own code.
package replay
