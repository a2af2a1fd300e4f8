// Package correlated implements the noise of DP-FTRL. Each round subtracts part of the noise of
// earlier rounds, so that sums over rounds, such as a model, carry less noise than with independent
// noise in each round.
//
// The updates of n rounds are the rows of X. A [Strategy] is a lower triangular matrix C. With
// independent normal noise Z a training releases C X + Z. The server applies the updates X + C^-1
// Z, a function of this release. Their noise is C^-1 Z, computed round by round from a few buffers
// of the size of the model ([Strategy.Noise]). Round t depends on no later round, so the guarantee
// also holds for updates that depend on earlier releases (Denisov et al. 2022).
//
// A user takes part at most k times, with at least b rounds from one participation to the next
// ([Participation]). If the user's updates become zero, C X moves by at most the sensitivity of C
// times the clip norm. So the whole training costs as much as one Gaussian mechanism.
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
// [OptimizeBLT] and [OptimizeBanded] choose the coefficients of the first two, given the rounds and
// the participation. The search is deterministic and gives the same bits on all x86-64 processors.
package correlated
