// Package rdp computes Rényi differential privacy (Mironov 2017, Rényi
// Differential Privacy) of the Gaussian mechanism, with and without sampling.
//
// A mechanism satisfies (a, r)-RDP when the Rényi divergence of order a > 1 between its outputs on
// any two neighbouring data sets is at most r. A [Curve] holds r for many orders. Curves of
// independent rounds add up, and the sum converts to an (epsilon, delta) guarantee:
//
//	round, err := rdp.FixedSize(0.01, 2.5, rdp.DefaultOrders())
//	...
//	epsilon, order := round.Times(1000).Epsilon(1e-5, rdp.Improved)
//
// Throughout, sigma is the standard deviation of the noise divided by the L2 sensitivity of the sum
// that it is added to, and q is the share of the population that takes part in a round. The
// sensitivity depends on the neighbouring relation; the caller must know it.
//
// All values are computed in logarithms and from sums of positive terms, so they neither overflow
// nor cancel: a curve is accurate to a relative error of about 1e-12 for values from 1e-20 to 1e10.
package rdp
