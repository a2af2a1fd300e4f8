// Package crossmodal trains a network on pairs of the adversary's own updates and of vectors of
// users in another form than the data, such as texts of users with images as data. It scores with
// the network whether an anonymous update and a vector are of one user (Orekondy et al. 2018,
// sections 4.3 and 6.1.1, figure 3c).
//
//	audits/given-vectors  the vectors of a file
//	audits/word-vectors   mean word vectors of the users' priors
//	audits/cross-modal    trains the network, and measures it
package crossmodal

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
)

const (
	// VectorsInput is a node with vectors of users.
	VectorsInput = "vectors"
	// PairsBlob is a JSON object of Scored, by the names of the measurements in an Outcome.
	PairsBlob = "pairs"
)

// Scored has the pairs of a measurement, element by element: the rounds and users of updates, and the users
// of vectors.
type Scored struct {
	Rounds  []int32   `json:"rounds"`
	Users   []int32   `json:"users"`
	Vectors []int32   `json:"vectors"`
	Scores  []float64 `json:"scores"`
}

// Kind trains and measures, by pairs.Params. Its inputs are those of observed.Inputs and VectorsInput, its
// metrics an Outcome, its blob PairsBlob. It needs memory for twice the values of Updates updates and four
// times the network.
var Kind = tasks.Kind{Name: "audits/cross-modal", Version: 5, Class: tasks.Compute, Run: audits.Measuring(run)}

func run(ctx context.Context, t *tasks.Task, p *pairs.Params) (o *Outcome, err error) {
	m := matching{Training: pairs.Training{Params: *p, Task: t, Number: pairs.CrossModal, Validation: validationPairs, First: trainingPairs}}
	m.Draw = m.draw
	if m.vectors, err = readVectors(ctx, t); err != nil {
		return nil, err
	}
	m.vectors.prepare(m.Centre, m.Raw)
	_, shadow, anonymous, err := m.Read(ctx, t, firstSample, func(o *observed.Observation) bool {
		_, has := slices.BinarySearch(m.vectors.Users, o.User)
		return has
	})
	if err != nil {
		return nil, err
	}
	update, vector := &networks.Tower{Inputs: shadow.Values, Units: []int{m.Units}}, &networks.Tower{Inputs: m.vectors.Values, Units: []int{m.Units}}
	if err := m.Learn(ctx, shadow, update, vector); err != nil {
		return nil, err
	}
	return m.measure(ctx, anonymous)
}

// Numbers after those of other audits: of the samples of updates, and of the bootstraps.
const (
	firstSample    = 4
	firstBootstrap = 6
)

type matching struct {
	pairs.Training
	vectors *Vectors
}

// prepare centres vectors, and normalizes them unless raw.
func (v *Vectors) prepare(centre, raw bool) {
	mean := make([]float64, v.Values)
	for i := range v.Users {
		for j, x := range v.Row(i) {
			mean[j] += float64(x) / float64(len(v.Users))
		}
	}
	for i := range v.Users {
		row := v.Row(i)
		for j := range row {
			if centre {
				row[j] = float32(float64(row[j]) - mean[j])
			}
		}
		if !raw {
			observed.Normalize(row)
		}
	}
}

func (v *Vectors) side() *pairs.Side {
	return &pairs.Side{Row: v.Row, Of: lists.Map(v.Users, func(user int) pairs.Update { return pairs.Update{User: int32(user)} })}
}

// Numbers of the draws of pairs, and of their bootstraps.
const (
	validationPairs = iota
	anonymousPairs
	seenPairs
	unseenPairs
	trainingPairs // first of one number for each epoch
)

// draw pairs each update with the vector of its user, and with the vector of another of these users.
func (m *matching) draw(updates *pairs.Side, number int) (*pairs.Comparison, error) {
	owners := lists.Map(updates.Of, func(u pairs.Update) int {
		at, _ := slices.BinarySearch(m.vectors.Users, int(u.User))
		return at
	})
	users := lists.Distinct(owners)
	if len(users) < 2 {
		return nil, tasks.Permanent(fmt.Errorf("audit.cross_modal: of the users with a vector only %d have sent one of the %d recorded updates that are looked at here; expected 2 to tell apart: give vectors of more users, or train and record more rounds", len(users), len(owners)))
	}
	c := &pairs.Comparison{First: updates, Second: m.vectors.side()}
	rng := seeds.Stream(m.Seed, seeds.VectorPairs, uint64(number))
	for len(c.Drawn) < m.Pairs {
		i := rng.IntN(len(owners))
		other := users[pairs.DrawFitting(rng, len(users), func(k int) bool { return users[k] != owners[i] })]
		c.Drawn = append(c.Drawn, pairs.IndexPair{A: i, B: owners[i], Same: true}, pairs.IndexPair{A: i, B: other})
	}
	return c, nil
}

// curveSteps is the number of points of the curve.
const curveSteps = 100

// measure scores pairs of anonymous updates by the network.
func (m *matching) measure(ctx context.Context, anonymous *observed.Sample) (*Outcome, error) {
	v, all := &Outcome{Users: len(m.vectors.Users), Values: m.vectors.Values}, map[string]*Scored{}
	everyone, seen, unseen := pairs.Sides(anonymous)
	trial := func(number int, updates *pairs.Side) pairs.Trial {
		return pairs.Trial{Bootstrap: firstBootstrap + number, Draw: func() (*pairs.Comparison, error) { return m.draw(updates, number) }}
	}
	names, into := []string{"anonymous", "seen", "unseen"}, []**pairs.Measurement{&v.Anonymous, &v.Seen, &v.Unseen}
	err := m.Measure(ctx, []pairs.Trial{trial(anonymousPairs, everyone), trial(seenPairs, seen), trial(unseenPairs, unseen)},
		func(i int, c *pairs.Comparison, list []pairs.Pair, found pairs.Measurement) {
			all[names[i]] = scored(c, list)
			if *into[i] = &found; i == 0 {
				v.Curve = pairs.Curve(list, curveSteps)
			}
		})
	if err != nil {
		return nil, err
	}
	v.Learned = m.Learned
	return v, m.Task.PutJSON(ctx, PairsBlob, all)
}

// scored lists pairs in the order of their draw.
func scored(c *pairs.Comparison, list []pairs.Pair) *Scored {
	s := new(Scored)
	for i, d := range c.Drawn {
		s.Rounds, s.Users = append(s.Rounds, c.First.Of[d.A].Round), append(s.Users, list[i].A)
		s.Vectors, s.Scores = append(s.Vectors, list[i].B), append(s.Scores, list[i].Score)
	}
	return s
}
