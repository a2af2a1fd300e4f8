package results

import (
	"fmt"
	"math"
	"strings"

	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/workflows/experiment"
)

// Ranking describes the references that the canaries of an external model were ranked among,
// and why. Its program scores every sequence as a text, so that there are few references:
// exposures beyond them are lower bounds.
type Ranking struct {
	// References that each canary was ranked among.
	References int `json:"references"`
	// Of the canaries, held back ones included: the ranks that were estimated from a pilot, and
	// those that are 1, whose exposure is at least log2 of References.
	Of        int `json:"of"`
	Estimated int `json:"estimated"`
	Censored  int `json:"censored"`
	// HeldBack canaries, to which the others may be compared without any reference.
	HeldBack int    `json:"held_back"`
	Why      string `json:"why"`
}

// newRanking is nil for a model that is ours, and without random sampling.
func newRanking(e *experiment.Experiment, c *audits.Cell) *Ranking {
	v, measured := audits.OutcomeOf[*randomsampling.Outcome](c)
	if e.Model.Kind != models.External || !measured {
		return nil
	}
	r := &Ranking{References: v.References}
	for i := range c.Canaries {
		r.count(&c.Canaries[i])
	}
	r.Why = r.why()
	return r
}

func (r *Ranking) count(c *audits.Canary) {
	if c.Role == audits.HeldBack {
		r.HeldBack++
	}
	for _, canaryOutcome := range c.Outcomes {
		o, ok := canaryOutcome.(*randomsampling.CanaryOutcome)
		if !ok || o.Rank == nil {
			continue
		}
		r.Of++
		if !*o.RankExact {
			r.Estimated++
		}
		if *o.ExposureCensored {
			r.Censored++
		}
	}
}

func (r *Ranking) why() string {
	reasons := []string{"the program scores each sequence as a text, so that audit.random_sampling.references is small"}
	if r.Estimated > 0 {
		reasons = append(reasons, "ranks that the first references show to be large are estimated from those, and the others are not scored")
	}
	if r.Censored > 0 {
		reasons = append(reasons, fmt.Sprintf("exposures above %.1f bits take more references", math.Log2(float64(r.References))))
	}
	if r.HeldBack > 0 {
		reasons = append(reasons, "canaries held back tell what is memorized without references")
	}
	return strings.Join(reasons, "; ")
}

// String is a note below the table.
func (r *Ranking) String() string {
	return fmt.Sprintf("%s ranked among %s, %d of them by an estimate, %d with the exposure as a lower bound: %s",
		readable.Count(r.Of, "canary"), readable.Count(r.References, "reference"), r.Estimated, r.Censored, r.Why)
}
