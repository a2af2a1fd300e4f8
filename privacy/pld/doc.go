// Package pld bounds epsilon through privacy loss distributions, which give
// away less than Rényi divergence does.
//
// For two neighbouring data sets whose outputs have densities p and q, the
// privacy loss of an output is log(p/q), and its distribution under p says all
// there is to know: independent rounds add their losses, and
//
//	delta(epsilon) = E[(1 - exp(epsilon - loss))+]
//
// (Sommer, Meiser and Mohammadi 2019, Privacy Loss Classes). With K the log of
// the mean of exp(s x loss), summed over the rounds, that is an integral along
// any line s = t + iy with t > 0,
//
//	delta(epsilon) = 1/(2 pi) x integral of exp(K(s) - s epsilon) / (s(s+1)) dy
//
// (Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy via
// Characteristic Function). No loss is put on a grid, so that nothing is lost
// with the number of rounds. The tilt t is chosen so that the integrand is not
// much larger than delta, and rounding errors are small beside it.
//
// Both bounds are proofs, up to the accuracy of elementary functions. They
// account for all that the computation leaves out:
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
// Where samples are rare, delta hangs on few large losses, beside which the rest of a sum is rounding
// errors. Where bounds are farther apart than they should be, losses are cut in three, and what is inverted
// are the sums with a medium one and no high one. The others add what Chernoff's inequality bounds (no
// medium nor high loss: such sums hardly ever reach epsilon), and what has a closed form (a high one:
// such sums nearly all pass epsilon). The comments of types split and high have the argument. Both pairs of
// bounds are proofs, and so are the larger lower and the smaller upper one. Epsilon at a delta and delta at an epsilon
// are found by the same two inversions.
//
// K is computed by Gauss-Legendre quadrature over the outputs of one round, at
// all frequencies at once by the nonuniform fast Fourier transform.
//
// [Epsilon] and [Delta] cover the Gaussian mechanism with Poisson sampling, for
// adding or removing one member, [FixedSizeEpsilon] and [FixedSizeDelta] that with samples of
// fixed size, without replacement, for replacing one. Without sampling the distribution is normal, and [GaussianEpsilon] is
// exact; a single round has a closed form.
//
// # Samples of fixed size
//
// Let P be normal around 1, Q around 0, both with the noise relative to what replacing a
// member moves the sum by, and r the sample's share of the members. Two outputs of one round
// are the mixtures of what it is with the member that is replaced and what it is
// without; what they have in common, and each pair of the rest, are a replacement apart. So
// for alpha of 1 and more the hockey-stick divergence is at most that of (1-r)Q + rP from Q
// (Balle, Barthe and Gaboardi 2018, Theorems 2 and 9). For alpha below 1 it is 1 - alpha +
// alpha times the one at 1/alpha of the two data sets changed about, which are neighbours,
// too. The two branches together are convex and so the divergence of some pair, which
// dominates every pair of neighbours, and its rounds compose (Zhu, Dong and Wang 2022,
// Theorems 10 and 11). Its loss has above 0 the distribution of log(((1-r)Q + rP)/Q) under
// (1-r)Q + rP, below 0 that of the negative under Q, and the rest, (1-r)(2 Phi(1/(2 sigma)) -
// 1), at 0. No two data sets need attain it in both branches at once: the bounds hold that
// pair's epsilon between them, which real data may stay below.
package pld
