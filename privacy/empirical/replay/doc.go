// Package replay tests by replays of single steps whether a training is the mechanism that its privacy
// is accounted for.
//
// [Observe] replays each of several rounds from a given state: without noise on data that differ in one
// member, which shows how far a member moves the sum, and with noise, which shows the noise alone, the
// difference from the replay without it. [Examine] tests the observations: the sensitivity exactly, and
// the noise and the cohorts by tests of the claim that noise is independent and normal, of the claimed
// deviation, and that cohorts are drawn as claimed. Every p-value is exact or an upper bound, so that a
// right training is refuted with at most the chosen probability.
//
// A training is known by its [Step], which runs the code of the training itself.
package replay
