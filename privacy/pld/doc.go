// Package pld bounds epsilon through privacy loss distributions, which give
// away less than Rényi divergence does.
//
// For two neighbouring data sets whose outputs have densities p and q, the
// privacy loss of an output is log(p/q), and its distribution under p says all
// there is to know: independent rounds add their losses, and
//
//	delta(epsilon) = E[(1 - exp(epsilon - loss))+].
//
// (Sommer, Meiser and Mohammadi 2019, Privacy Loss Classes). The distribution
// of one round is put on a grid in two ways, so that the truth lies between:
//
//   - From above, the mass between two grid points is split between them so
//     that p and q both keep their mass ("connect the dots", Doroshenko et al.
//     2022, Theorem 3.2).
//   - From below, outputs are lumped into bins whose joint loss is at a grid
//     point or a little above, and then rounded down to it. Lumping is
//     post-processing, which never raises delta.
//
// Both err by the square of the grid step. Rounds are composed by the fast
// Fourier transform (Koskela, Jälkö and Honkela 2020) of the exponentially
// tilted distribution: the tilt moves the bulk of the mass to the losses that
// decide about delta, so that rounding errors of the transform are small
// beside delta, however small that is. What a window of finite length leaves
// out is bounded by Chernoff's inequality and counted on the safe side.
//
// [Epsilon] and [Delta] cover the Gaussian mechanism with Poisson sampling, for
// adding or removing one member. Without sampling the distribution is normal,
// and [GaussianEpsilon] is exact.
package pld
