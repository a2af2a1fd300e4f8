// Package correlated is the noise of DP-FTRL: of one round it takes back a part of what
// earlier rounds got, so that sums over rounds, which is what a model is, carry less
// noise than if that of each round were independent.
//
// The updates of n rounds are the rows of X. A [Strategy] is a matrix C, lower
// triangular. With independent normal noise Z a training releases C X + Z, of which
// the updates X + C^-1 Z that the server applies are a function: their noise is C^-1 Z,
// made round after round from few buffers of the size of the model ([Strategy.Noise]).
// That round t depends on no later one makes the guarantee hold for updates that are chosen
// by what was released before (Denisov et al. 2022).
//
// A user who takes part at most k times, with b rounds from one time to the next or more
// ([Participation]), moves C X by the sensitivity of C times the clip norm at most when
// their updates become zero. So the whole training costs what one Gaussian mechanism costs.
//
//   - [BLT]: buffered linear Toeplitz matrices, Dvijotham et al. 2024 (Efficient and
//     Near-Optimal Noise Generation for Streaming Differential Privacy); for several
//     participations McMahan et al. 2024 (A Hassle-free Algorithm for Private Learning in
//     Practice: Don't Use Tree Aggregation, Use BLTs).
//   - [Banded]: banded Toeplitz matrices, Choquette-Choo et al. 2023 ((Amplified) Banded
//     Matrix Factorization).
//   - [Tree]: tree aggregation, Kairouz et al. 2021, with the estimate of Honaker 2015 from
//     nodes that are complete.
//
// [OptimizeBLT] and [OptimizeBanded] choose the coefficients of the first two, once the
// rounds and the participation are known. Nothing in it is random, and no step of it depends
// on the processor among those of x86-64.
package correlated
