package pairs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// Power returns the power of an audit by the average precision of pairs of updates. Their scores are
// independent normal numbers of equal deviation. The distance of the means gives the AUC of the leak. users
// returns the planned number of users, found the measurements of an outcome.
func Power[V any](limit string, pairs func(*audits.Setting) int, users func(*audits.Setting) int, found func(V) []*Measurement) func(*audits.Setting, audits.Outcome) []audits.Statement {
	return func(s *audits.Setting, v audits.Outcome) []audits.Statement {
		n := users(s)
		if v != nil {
			if n = 0; len(found(v.(V))) > 0 {
				n = found(v.(V))[0].Users
			}
		}
		if n == 0 {
			return nil
		}
		power := audits.Simulated(trials, 1, func(sizes []int, leak float64) func(*rand.Rand) Measurement {
			return func(rng *rand.Rand) Measurement { return simulate(pairs(s), sizes[0], leak, rng) }
		}, func(sizes []int, factor float64) func(Measurement) bool {
			return func(m Measurement) bool {
				return sizes[0] >= audits.MinAbove(factor*Chance) && m.AP.Low > factor*Chance
			}
		})
		return []audits.Statement{{
			Finds: "the average precision is certainly above chance", Limit: limit,
			Leak:  audits.Leak{Name: "AUC", Means: "the AUC of pairs is", Default: 0.7, Least: 0.5, Most: most},
			Sizes: []audits.Size{{Unit: "user", N: n}},
			None:  none(n, power),
			Nothing: func(v audits.Outcome) bool {
				for _, m := range found(v.(V)) {
					if m.AP.Low > Chance {
						return false
					}
				}
				return len(found(v.(V))) > 0
			},
			Power: power,
		}}
	}
}

// none returns the statement that the users are too few for a find, even by a perfect attack; "" if they suffice.
func none(users int, power func(audits.Question) float64) string {
	if few := audits.TooFewToTell(users, Chance); few != "" || users > fewUsers {
		return strings.TrimPrefix(few, ", ")
	}
	if power(audits.Question{Sizes: []int{users}, Leak: most}) > 0 {
		return ""
	}
	return fmt.Sprintf("were pairs of %s told apart almost without error, the interval would begin below chance", readable.Count(users, "user"))
}

const (
	// most is the largest AUC that is simulated.
	most = 0.9999
	// fewUsers is the largest number of users that may be too few for any find.
	fewUsers = 20
	// trials is the number of simulated audits: the standard error of a power is at most 5%. An audit takes
	// milliseconds.
	trials = 100
	// Limits on simulated pairs, per user and in total.
	pairsOfUser, maxPairs = 10, 400
)

// simulate measures pairs of users drawn at random. Half of the pairs are of one user.
func simulate(pairs, users int, auc float64, rng *rand.Rand) Measurement {
	if users < 2 {
		return Measurement{}
	}
	list := make([]Pair, min(pairs, pairsOfUser*users, maxPairs))
	for i := range list {
		a := rng.IntN(users)
		list[i] = Pair{A: int32(a), B: int32(a), Score: rng.NormFloat64()}
		if i%2 == 0 {
			list[i].B = int32((a + 1 + rng.IntN(users-1)) % users)
		} else {
			list[i].Score += math.Sqrt2 * mathext.NormalQuantile(auc)
		}
	}
	m, _ := Measure(list, rng.Uint64(), 0) // no score is NaN
	return m
}
