package crossmodal

import (
	"context"

	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/sameuser"
	"coalmine/tasks/devices"
)

// PairsBlob is a JSON object of Scored: of what is measured, by the names that it has in a
// Outcome.
const PairsBlob = "pairs"

// Scored are the pairs that were measured, element by element.
type Scored struct {
	// Rounds and Users of the updates.
	Rounds []int   `json:"rounds"`
	Users  []int32 `json:"users"`
	// Vectors are the users whose vectors stand in the pairs.
	Vectors []int32   `json:"vectors"`
	Scores  []float64 `json:"scores"`
}

// firstBootstrap is that of the measurement 0, after those of other audits.
const firstBootstrap = 6

// measure asks the network of pairs of anonymous updates.
func (w *world) measure(ctx context.Context) error {
	v := &Outcome{Learned: w.Learned, Users: len(w.vectors.Users), Values: w.vectors.Values}
	all := map[string]*Scored{}
	of := func(set devices.Set) *part {
		return w.partOf(w.anonymous, func(o *observed.Observation) bool { return o.Set == set })
	}
	everyone := w.partOf(w.anonymous, func(*observed.Observation) bool { return true })
	seen, unseen := of(devices.Seen), of(devices.Unseen)
	if len(unseen.rows) == 0 {
		seen = unseen // they are everyone
	}
	for _, x := range []struct {
		number int
		name   string
		of     *part
		into   **sameuser.Measurement
	}{
		{anonymousPairs, "anonymous", everyone, &v.Anonymous},
		{seenPairs, "seen", seen, &v.Seen},
		{unseenPairs, "unseen", unseen, &v.Unseen},
	} {
		drawn, err := x.of.draw(w.Params, x.number)
		if err != nil && x.number == anonymousPairs {
			return err
		}
		if err != nil {
			continue
		}
		pairs, err := w.score(x.of, drawn)
		if err != nil {
			return err
		}
		all[x.name] = x.of.scored(drawn, pairs)
		m, err := sameuser.Measure(pairs, w.Seed, firstBootstrap+x.number)
		if err != nil {
			return tasks.Permanent(err)
		}
		if *x.into = &m; x.number != anonymousPairs {
			continue
		}
		v.Curve = sameuser.Curve(pairs, curveSteps)
		if v.Learned.Networks, err = w.training.Again(ctx, w.Again, m.AP.Value, func() (float64, error) {
			return w.precision(x.of, drawn)
		}); err != nil {
			return err
		}
	}
	if err := w.task.PutJSON(ctx, PairsBlob, all); err != nil {
		return err
	}
	return w.task.SetMetrics(v)
}

// curveSteps is the number of places at which the curve is told.
const curveSteps = 100

// scored lists pairs before they are sorted.
func (p *part) scored(drawn []sameuser.Drawn, pairs []sameuser.Pair) *Scored {
	s := new(Scored)
	for i, d := range drawn {
		s.Rounds, s.Users = append(s.Rounds, p.sample.Of[p.rows[d.A]].Round), append(s.Users, pairs[i].A)
		s.Vectors, s.Scores = append(s.Vectors, pairs[i].B), append(s.Scores, pairs[i].Score)
	}
	return s
}
