package updatewords

import (
	"context"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// holdings are the canaries of an experiment, and the devices that have them.
type holdings struct {
	canaries [][]int32 // the ordinary words of each
	of       map[int][]int
}

func readHoldings(ctx context.Context, t *tasks.Task, p *datasets.Population) (h holdings, err error) {
	replacements := p.Replacements()
	if len(replacements) == 0 {
		return h, nil
	}
	placements, err := datasets.ReadPlacements(ctx, t, datasets.PopulationInput)
	if err != nil {
		return h, err
	}
	h.of = map[int][]int{}
	for _, placed := range placements {
		h.canaries = append(h.canaries, slices.DeleteFunc(slices.Clone(placed.Tokens), func(token int32) bool { return token < datasets.FirstWord }))
	}
	for _, r := range replacements {
		if !slices.Contains(h.of[r.User], r.Canary) {
			h.of[r.User] = append(h.of[r.User], r.Canary)
		}
	}
	return h, nil
}

// addCanaries looks for every canary in an update that was scored.
func (w *measuring) addCanaries(device int) {
	held := w.holdings.of[device]
	for canary, words := range w.holdings.canaries {
		if len(words) == 0 {
			continue
		}
		named := !slices.ContainsFunc(words, func(word int32) bool { return !w.naming.names(word) })
		if slices.Contains(held, canary) {
			w.canaries.Held.add(named)
			if named {
				w.found[canary] = true
			}
		} else {
			w.canaries.Others.add(named)
		}
	}
}

func (c *Count) add(named bool) {
	c.Of++
	if named {
		c.Named++
	}
	c.Share = float64(c.Named) / float64(c.Of)
}
