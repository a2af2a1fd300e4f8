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

// Ranking describes the references among which the canaries of an external model were ranked. Its
// program scores every sequence as a text, so there are few references, and exposures beyond them
// are lower bounds.
type Ranking struct {
	// References is the number of references for each canary.
	References int `json:"references"`
	// Of is the number of canaries, including held-back ones. The ranks of some were estimated from
	// a pilot; the exposure of those with rank 1 is at least log2 of References.
	Of        int `json:"of"`
	Estimated int `json:"estimated"`
	Censored  int `json:"censored"`
	// HeldBack is the number of held-back canaries, to which the others may be compared without
	// references.
	HeldBack int    `json:"held_back"`
	Why      string `json:"why"`
}

// newRanking describes a ranking; nil for a built-in model, and without random sampling.
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

// String returns a note for the table.
func (r *Ranking) String() string {
	return fmt.Sprintf("%s ranked among %s, %d of them by an estimate, %d with the exposure as a lower bound: %s",
		readable.Count(r.Of, "canary"), readable.Count(r.References, "reference"), r.Estimated, r.Censored, r.Why)
}
