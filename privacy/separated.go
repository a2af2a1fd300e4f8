package privacy

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/privacy/correlated"
	"coalmine/privacy/rdp"
)

// separated is the sampling for correlated noise, with a sensitivity that depends on the number and
// the separation of a user's participations.
var separated = Scheme{
	Sampling:     Separated,
	Summary:      "users are dealt into as many groups as rounds shall lie between their participations; rounds take the groups in turn, each in an order that is new whenever all of it has come",
	Source:       "Choquette-Choo et al. 2023; Denisov et al. 2022",
	Neighbouring: ZeroOutOne,

	draw: func(r Round) ([]int, error) {
		return schedule{r.Population, r.Cohort, r.Separation, r.Participations}.draw(r)
	},

	rate:           shareOfPopulation,
	divergence:     unsampled,
	papersOrders:   rdp.DefaultOrders,
	accountant:     "RDP, one Gaussian at the sensitivity of the whole training (Denisov et al. 2022; Mironov 2017)",
	assumption:     "every {member} takes part as often and as closely as the schedule lets it, for whose randomness there is no credit",
	lossAccountant: unsampledLoss,
	correlated:     true,
}

// schedule determines who may take part in each round of a separated training.
type schedule struct {
	population, cohort int
	// separation is the number of groups: the least number of rounds from one participation to the
	// next; 0 selects the largest number that the population allows.
	separation int
	// most limits a user's participations; 0 is no limit.
	most int
}

func (s schedule) groups() int {
	if s.separation > 0 {
		return s.separation
	}
	return s.population / s.cohort
}

// validate returns an error if there are too few users.
func (s schedule) validate() error {
	switch {
	case s.separation < 0 || s.most < 0:
		return fmt.Errorf("a separation of %d rounds and %d participations: expected 1 or more of each, or 0 for those that follow from the users", s.separation, s.most)
	case s.groups() > s.population/s.cohort:
		return fmt.Errorf("a separation of %d rounds with cohorts of %d takes %d users, and there are %d: lower the separation to %d, or the cohort",
			s.separation, s.cohort, s.separation*s.cohort, s.population, s.population/s.cohort)
	}
	return nil
}

// epoch returns the number of whole cohorts in a group of users, which each take part once per
// epoch.
func (s schedule) epoch(users int) int { return users / s.cohort }

// times returns the largest number of participations of a user in a number of
// rounds.
func (s schedule) times(rounds int) int {
	if rounds == 0 {
		return 0
	}
	visits := correlated.Most(rounds, s.groups())
	return correlated.Most(visits, s.epoch(s.population/s.groups()))
}

// draw returns the users of a round in ascending order. The stream of round 0 deals the
// groups; the stream of the round at which a group's epoch begins orders the group.
func (s schedule) draw(r Round) ([]int, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	deal, err := r.Stream(0)
	if err != nil {
		return nil, err
	}
	groups, visit := s.groups(), (r.Number-1)/s.groups()
	number := r.Number - 1 - visit*groups
	group := deal.Perm(s.population)[number*s.population/groups : (number+1)*s.population/groups]
	epoch := s.epoch(len(group))
	if s.most > 0 && visit/epoch >= s.most {
		return nil, fmt.Errorf("in round %d a user would take part for time %d: expected %d times at most; lower the rounds or the cohort",
			r.Number, visit/epoch+1, s.most)
	}
	place := visit % epoch
	return s.shuffled(r.Stream, group, place, (visit-place)*groups+number+1)
}

// shuffled returns the cohort of a group at a place in the epoch that begins at a round.
func (s schedule) shuffled(stream func(int) (*rand.Rand, error), group []int, place, begins int) ([]int, error) {
	rng, err := stream(begins)
	if err != nil {
		return nil, err
	}
	order := rng.Perm(len(group))
	users := lists.Make(s.cohort, func(i int) int { return group[order[place*s.cohort+i]] })
	slices.Sort(users)
	return users, nil
}
