// Package pld bounds epsilon through privacy loss distributions, which are
// tighter than Rényi divergence.
//
// For two neighbouring data sets whose outputs have densities p and q, the
// privacy loss of an output is log(p/q), and its distribution under p
// determines the guarantee: independent rounds add their losses, and
//
//	delta(epsilon) = E[(1 - exp(epsilon - loss))+]
//
// (Sommer, Meiser and Mohammadi 2019, Privacy Loss Classes). With K the log of the mean of exp(s x
// loss), summed over the rounds, that is an integral along any line s = t + iy with t > 0,
//
//	delta(epsilon) = 1/(2 pi) x integral of exp(K(s) - s epsilon) / (s(s+1)) dy
//
// (Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy via
// Characteristic Function). No loss is rounded to a grid, so the error does not
// grow with the number of rounds. The tilt t is chosen so that the integrand is not much larger
// than delta and rounding errors are small relative to it.
//
// Both bounds are proofs, up to the accuracy of elementary functions. They
// cover every approximation of the computation:
//
//   - Smoothing. The integrand gets a factor of exp(h^2 (s^2+s)/2), so that it
//     is negligible beyond a known y. That is the composition with one more
//     mechanism, Gaussian with noise 1/h, so delta does not fall: with x = loss -
//     epsilon, (1 - exp(-x))+ becomes the price of an option by Black and
//     Scholes. Its derivative by h is the normal density at x/h + h/2, so it
//     rises by at most h/sqrt(2 pi) x exp(-x^2/(2h^2) - x/2), whose mean is the
//     same integral with h^2 exp(h^2/8) for 1/(s(s+1)). The upper bound keeps the
//     rise, the lower one takes it off. The gap is h^2 times the density of losses
//     at epsilon; h is chosen to make that about 1e-5 of epsilon, and larger only
//     where it would take too long.
//   - Summation. The integral is a sum over multiples of 2 pi/w, which folds in
//     exp(t k w) x delta(epsilon + k w) for whole k, by Poisson's formula. None is
//     negative, and Chernoff's inequality bounds them for the lower bound.
//   - Cut-off. Outputs in the far tails of the noise, which have 1e-6 of delta
//     together, are left out. The upper bound adds their mass.
//   - Rounding, and the error of quadrature and Fourier transform by which K is
//     computed: 5e-14 of a round's transform and the rounding of its phase,
//     composed over the rounds as the worst case.
//
// If sampling is rare, delta depends on few large losses, and the rounding error of the other
// losses exceeds them. If bounds are farther apart than they should be, each loss is classified as
// small, medium or high, and only the sums with a medium loss and no high loss are inverted.
// Chernoff's inequality bounds the contribution of sums of small losses (they hardly ever reach
// epsilon), and a closed form gives the contribution of sums with a high loss (nearly all exceed
// epsilon). The comments of types split and high have the argument. Both pairs of bounds are
// proofs, and so are the larger lower and the smaller upper bound. The same two inversions find
// epsilon at a delta and delta at an epsilon.
//
// K is computed by Gauss-Legendre quadrature over the outputs of one round, at
// all frequencies at once by the nonuniform fast Fourier transform.
//
// [Epsilon] and [Delta] cover the Gaussian mechanism with Poisson sampling, for adding or removing
// one member, [FixedSizeEpsilon] and [FixedSizeDelta] the mechanism with samples of fixed size,
// drawn without replacement, for replacing one member, [GroupEpsilon] and [FixedSizeGroupEpsilon] several
// members together. Without sampling the distribution is normal,
// and [GaussianEpsilon] is exact; a single round has a closed form.
//
// # Samples of fixed size
//
// Let P be normal around 1, Q around 0, both with the noise relative to the distance by which
// replacing a member moves the sum, and r the sample's share of the members. Each of the two
// outputs of one round is a mixture over samples with the replaced member and samples without it.
// The two mixtures share the samples without the member; each pair of the remaining samples differs
// by one replacement. So for alpha of 1 and more the hockey-stick divergence is at most that of
// (1-r)Q + rP from Q (Balle, Barthe and Gaboardi 2018, Theorems 2 and 9). For alpha below 1 it is 1
// - alpha + alpha times the divergence at 1/alpha of the exchanged data sets, which are neighbours
// too. The two branches together form a convex function, which is therefore the divergence of some
// pair of distributions. This pair dominates every pair of neighbours, and its rounds compose (Zhu,
// Dong and Wang 2022, Theorems 10 and 11). Above 0 its loss has the distribution of log(((1-r)Q +
// rP)/Q) under (1-r)Q + rP, below 0 the distribution of the negative under Q, and the remaining
// mass, (1-r)(2 Phi(1/(2 sigma)) - 1), is at 0. No two data sets need attain both branches at once:
// the bounds enclose the epsilon of that pair, and real data may stay below it.
//
// # Groups
//
// Let a sample contain i of the k members of a group with probability h(i), and let N(i) be normal
// around i. If all are removed from Poisson samples, the outputs are mixtures A(i) of outputs whose
// means are within i of those of A = A(0): split alpha A into parts l(i) A. The divergence of the sum
// of h(i) A(i) from alpha A is at most the sum of the divergences of h(i) A(i) from l(i) A, so at
// most that of h(i) N(i) from l(i) N(0). The parts l(i) = h(i) N(i)/N(0), taken at the output x where
// the sum of h(i) N(i) is alpha N(0), make this the divergence of the mixture from N(0). Adding splits
// the other side in the same way (Ganesh 2024, Tight Group-Level DP Guarantees for DP-SGD with
// Sampling via Mixture of Gaussians Mechanisms).
//
// If all are replaced in samples of fixed size, the outputs are mixtures of A(i) and of B(j), which
// differ by max(i, j) replacements (couple the other members). Let alpha be 1 or more. If l(i)/h(i)
// does not fall with i, the shares l(i)/alpha are stochastically larger than h, so alpha times the
// mixture of B(j) can be split into parts of weight l(i) that contain only B(j) with j <= i. The
// divergence is then at most the sum of the divergences of h(i) N(i) from l(i) N(0). With l(i) =
// h(i) r(i), where log r(i) is the largest (jx - j^2/2)/sigma^2 for j from 0 to i, that is a bound
// for every x. It is the divergence of the mixture from N(0) if x is at least m - 1/2, with m the
// largest i; data attain it. At x = 1/2, alpha is 1, and data of which all others are 0 attain it.
// The true least bound is convex in alpha, so between these two x the lower convex hull of 257
// bounds holds; its losses are 257 atoms and their negatives. Losses below 0 follow by exchanging
// the data sets. (Compare Schuchardt et al. 2024, Unified Mechanism-Specific Amplification by
// Subsampling and Group Privacy Amplification, which pairs samples by optimal transport.) With m =
// 1 the pair is that of one member.
//
// testdata has 200 random recipes with rates of 1e-6 to 0.5, noise multipliers of 0.3 to 20, 1 to
// 100,000 rounds and deltas of 1e-5 to 1e-12, the sixteen corners among them. In 14 of them, with
// rates of 1e-6 to 4e-4, the bounds without split would be up to 47% apart. grid.py halves a grid
// of losses until the sixth digit of epsilon no longer changes: all 200 lie between their bounds,
// which are within 5.2e-5 of it. reference.py integrates in numbers of 170 bits the 43 recipes
// whose integrand falls fast enough, twelve of the corners among them, and agrees to 7.6e-8.
package pld
