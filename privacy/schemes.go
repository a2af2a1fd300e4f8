package privacy

import (
	"maps"
	"math/rand/v2"
	"slices"

	"coalmine/privacy/rdp"
)

var fixedSize = Scheme{
	Sampling:     FixedSize,
	Summary:      "exactly cohort users, uniformly and without replacement within a round",
	Source:       "Wang, Balle and Kasiviswanathan 2019, Theorem 27",
	Neighbouring: ReplaceOne,

	draw: independently(fixedSample),

	rate:           shareOfPopulation,
	divergence:     rdp.FixedSize,
	pair:           rdp.ReplacedPair,
	pairAccountant: "RDP, the pair that dominates samples of fixed size under replacement (Zhu, Dong and Wang 2022, Theorem 11)",
	// The theorem covers whole orders, and the papers print their minimum.
	papersOrders:   rdp.WholeOrders,
	accountant:     "RDP, fixed-size subsampled Gaussian (Wang, Balle and Kasiviswanathan 2019, Theorem 27)",
	assumption:     "a {round}'s {cohort} is a uniform sample of fixed size, without replacement",
	lossAccountant: "the pair that dominates samples of fixed size under replacement (Zhu, Dong and Wang 2022, Theorem 11)",
	attainedBy:     "one {member} with {update}s of the clip norm against those of all others",
}

var poisson = Scheme{
	Sampling:     Poisson,
	Summary:      "every user independently with probability cohort / users; a round may have any size, even none",
	Source:       "Mironov, Talwar and Zhang 2019",
	Neighbouring: AddOrRemoveOne,

	draw: independently(poissonSample),

	rate:           shareOfPopulation,
	divergence:     rdp.Poisson,
	papersOrders:   rdp.DefaultOrders,
	accountant:     "RDP, Poisson subsampled Gaussian (Mironov, Talwar and Zhang 2019)",
	assumption:     "every {member} takes part in a {round} independently, and the sum is divided by the expected {cohort}",
	lossAccountant: "Poisson subsampled Gaussian (Zhu, Dong and Wang 2022)",
}

// shuffled is the order in which most programs process their data. Its bound takes no
// credit for the randomness of the order: theorems of amplification by sampling do
// not cover it (Chua et al. 2024, "How Private are DP-SGD Implementations?").
var shuffled = Scheme{
	Sampling:     Shuffled,
	Summary:      "epoch after epoch, each in a new order, cut into cohorts; whom the last whole cohort leaves over sits the epoch out",
	Source:       "Mironov 2017; parallel composition, McSherry 2009, Theorem 4",
	Neighbouring: ReplaceOne,

	draw: func(r Round) ([]int, error) {
		rounds := epochRounds(r.Cohort, r.Population)
		place := (r.Number - 1) % rounds
		rng, err := r.Stream(r.Number - place)
		if err != nil {
			return nil, err
		}
		return slices.Sorted(slices.Values(rng.Perm(r.Population)[place*r.Cohort : (place+1)*r.Cohort])), nil
	},

	rate:           shareOfPopulation,
	divergence:     unsampled,
	papersOrders:   rdp.DefaultOrders,
	accountant:     "RDP, Gaussian once an epoch, no amplification (Mironov 2017)",
	assumption:     "every {member} takes part once an epoch at most, whatever the order, for which there is no credit: an epoch that has begun costs one Gaussian mechanism",
	lossAccountant: unsampledLoss,
	participations: func(rounds, cohort, population int) int {
		epoch := epochRounds(cohort, population)
		return (rounds + epoch - 1) / epoch
	},
}

func epochRounds(cohort, population int) int { return population / cohort }

var noSampling = Scheme{
	Sampling:     NoSampling,
	Summary:      "no credit for sampling: any user may be in every round",
	Source:       "Mironov 2017",
	Neighbouring: ReplaceOne,

	rate:           func(int, int) float64 { return 1 },
	divergence:     unsampled,
	papersOrders:   rdp.DefaultOrders,
	accountant:     "RDP, Gaussian (Mironov 2017)",
	assumption:     "any {member} may take part in every {round}",
	lossAccountant: unsampledLoss,
}

const unsampledLoss = "Gaussian, exact (Balle and Wang 2018, Theorem 8)"

// unsampled returns the divergence of one round without credit for sampling.
func unsampled(_, sigma float64, orders []float64) (rdp.Curve, error) {
	return rdp.Gaussian(sigma, orders)
}

func shareOfPopulation(cohort, population int) float64 { return float64(cohort) / float64(population) }

// independently returns the draw of cohorts that depend on no other round.
func independently(sample func(rng *rand.Rand, population, n int) []int) func(Round) ([]int, error) {
	return func(r Round) ([]int, error) {
		rng, err := r.Stream(r.Number)
		if err != nil {
			return nil, err
		}
		return sample(rng, r.Population, r.Cohort), nil
	}
}

// fixedSample is Floyd's algorithm: n of population, each subset equally likely,
// in memory proportional to n.
func fixedSample(rng *rand.Rand, population, n int) []int {
	drawn := make(map[int]bool, n)
	for top := population - n; top < population; top++ {
		user := rng.IntN(top + 1)
		if drawn[user] {
			user = top
		}
		drawn[user] = true
	}
	return slices.Sorted(maps.Keys(drawn))
}

// poissonSample draws each of population with probability n/population.
func poissonSample(rng *rand.Rand, population, n int) []int {
	var users []int
	rate := shareOfPopulation(n, population)
	for user := range population {
		if rng.Float64() < rate {
			users = append(users, user)
		}
	}
	return users
}
