// Package privacy bounds how much a model can reveal about one of its users,
// and states the assumptions of the bound.
//
// Differentially private federated averaging (DP-FedAvg, McMahan et al. 2018)
// protects a user in two steps. Every update is scaled down until its L2 norm
// is at most the clip norm ([ClipScale]), so that no user moves the sum by
// more. Then Gaussian noise is added to the sum ([AddGaussian]), with a
// standard deviation of noise multiplier times clip norm. With adaptive
// clipping ([ClipQuantile]) the clip norm follows a quantile of the norms.
//
// The protection over a whole training depends on how the cohorts are drawn,
// and on the relation between the two populations that an observer should not be able to
// distinguish. [Account] computes it for a [Recipe]:
//
//	report, err := privacy.Account(privacy.Recipe{
//		Population: 392_000, Cohort: 5_000, Rounds: 784,
//		NoiseMultiplier: 1, Delta: 1e-7,
//		Sampling: privacy.FixedSize, Conversion: privacy.Classic,
//	})
//
// The report holds two figures. Epsilon is the number that papers on DP-FedAvg
// print. EpsilonProved follows from the theorems for the mechanism that ran;
// budgets and calibration use it. The two differ for cohorts of fixed size: the
// theorem there compares populations of equal size, in which one user is replaced. Replacing a user
// removes one clipped update and adds another, so the sum may move by twice the clip norm, and the
// noise relative to that move is only half of the noise multiplier.
//
// The mathematics is in the packages below this one: rdp (Rényi differential privacy),
// pld (privacy loss distributions), correlated (noise that later rounds partly cancel)
// and empirical (lower bounds and estimates measured on trainings).
package privacy
