package deanonymization

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"coalmine/internal/dataformats"
	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models/attacks"
	"coalmine/models/ranking"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

type SummaryParams struct {
	Seed    uint64         `json:"seed"`
	Attacks []attacks.Kind `json:"attacks"`
	// Stages are the ranges of rounds of the matrix.
	Stages     []Rounds `json:"stages,omitempty"`
	Confidence float64  `json:"confidence"`
	// Users reports whether to list every user.
	Users bool `json:"users,omitempty"`
}

// AttackInput names the scores of attack i, StageInput those of the attack trained on a stage; both from 0.
func AttackInput(i int) string       { return fmt.Sprintf("attack-%d", i) }
func StageInput(i, stage int) string { return fmt.Sprintf("attack-%d-stage-%d", i, stage) }

// Summary measures the scores of attacks. Its blob is audits.OutcomeBlob.
var Summary = tasks.Kind{Name: "audits/deanonymization", Version: 3, Class: tasks.Compute, Run: audits.Finds(audits.OutcomeBlob, summarize)}

func summarize(ctx context.Context, t *tasks.Task, p *SummaryParams) (*Outcome, error) {
	v := &Outcome{Confidence: p.Confidence, Stages: p.Stages}
	list := make([]*measured, len(p.Attacks))
	for i, kind := range p.Attacks {
		scored, err := ReadScores(ctx, t, AttackInput(i))
		if err != nil {
			return nil, err
		}
		if list[i], err = scored.measure(all); err != nil {
			return nil, tasks.Permanent(fmt.Errorf("scores of %s: %w", kind, err))
		}
		o := p.outcome(kind, scored, list[i])
		if o.Matrix, err = p.matrix(ctx, t, i); err != nil {
			return nil, err
		}
		v.Attacks = append(v.Attacks, o)
		v.Devices, v.Items, v.Untaught = len(list[i].owners), len(scored.Items), len(scored.Untaught)
	}
	p.compare(v, list)
	return v, nil
}

// Scores are the scores of one attack.
type Scores struct {
	Scored
	values []float32 // [items, columns]
}

// Of returns the score of an item for a class.
func (s *Scores) Of(item, class int) float32 { return s.values[item*s.Columns()+class] }

// ReadScores reads the scores of an audits/reidentify node.
func ReadScores(ctx context.Context, t *tasks.Task, input string) (*Scores, error) {
	s := new(Scores)
	if err := t.InputJSON(ctx, input, ScoredBlob, &s.Scored); err != nil {
		return nil, err
	}
	data, err := t.Blob(ctx, input, ScoresBlob)
	if err != nil {
		return nil, err
	}
	if s.values, err = dataformats.ReadNPYFloats(data, len(s.Items)*s.Columns()); err != nil {
		return nil, fmt.Errorf("scores of %s: %w: %w", input, err, storage.ErrCorrupt)
	}
	return s, nil
}

var all = Rounds{0, math.MaxInt}

// measured is the success of each user's class at finding the user's items.
type measured struct {
	owners []int       // all users of items, ascending
	users  []int       // those with a class
	ap     [][]float64 // [users, owners]: the average precision of the user's class for the owner's items
	curves [][]ranking.Point
	// By user: the average precision, and its mean with every owner's items instead of the user's.
	own, chance []float64
	unseen      *ClassOutcome
	top         map[int]Top
}

func (s *Scores) measure(rounds Rounds) (*measured, error) {
	var items []int
	m := &measured{top: map[int]Top{}}
	for i, item := range s.Items {
		if rounds.Has(item.Round) {
			items = append(items, i)
			m.owners = append(m.owners, item.Users...)
		}
	}
	m.owners = lists.Distinct(m.owners)
	of := lists.Map(items, func(item int) []int {
		return lists.Map(s.Items[item].Users, func(user int) int {
			at, _ := slices.BinarySearch(m.owners, user)
			return at
		})
	})
	for class, user := range s.Classes {
		at, there := slices.BinarySearch(m.owners, user)
		if !there {
			continue
		}
		column := s.column(items, class)
		ap, err := ranking.Owned(column, of, len(m.owners))
		if err != nil {
			return nil, err
		}
		curve, err := ranking.Curve(column, lists.Map(of, func(owners []int) bool { return slices.Contains(owners, at) }))
		if err != nil {
			return nil, err
		}
		m.users, m.ap, m.curves = append(m.users, user), append(m.ap, ap), append(m.curves, curve)
		m.own, m.chance = append(m.own, ap[at]), append(m.chance, ranking.Mean(ap))
	}
	m.firsts(s, items)
	return m, m.others(s, items)
}

func (s *Scores) column(items []int, class int) []float32 {
	return lists.Map(items, func(item int) float32 { return s.Of(item, class) })
}

// firsts counts the items whose class is among those with the highest scores. Users without a class count if
// there is a common class of others.
func (m *measured) firsts(s *Scores, items []int) {
	for _, k := range []int{1, 5} {
		var top Top
		for _, item := range items {
			relevant := s.relevant(s.Items[item].Users)
			if len(relevant) == 0 {
				continue
			}
			top.Of++
			top.Chance += ranking.InTopKByChance(k, len(relevant), s.Columns())
			if ranking.InTopK(s.values[item*s.Columns():(item+1)*s.Columns()], k, relevant) {
				top.Count++
			}
		}
		if top.Of > 0 {
			top.Share, top.Chance = float64(top.Count)/float64(top.Of), top.Chance/float64(top.Of)
		}
		m.top[k] = top
	}
}

// relevant returns the classes of the users.
func (s *Scores) relevant(users []int) (classes []int) {
	for _, user := range users {
		class, known := slices.BinarySearch(s.Classes, user)
		switch {
		case known && !slices.Contains(classes, class):
			classes = append(classes, class)
		case !known && s.Unseen && !slices.Contains(s.Untaught, user) && !slices.Contains(classes, len(s.Classes)):
			classes = append(classes, len(s.Classes))
		}
	}
	return classes
}

// others measures how well the scores separate unseen users from those with a class.
func (m *measured) others(s *Scores, items []int) error {
	marks := lists.Map(items, func(item int) bool {
		return slices.Contains(s.relevant(s.Items[item].Users), len(s.Classes))
	})
	positives := lists.Count(marks, func(is bool) bool { return is })
	if positives == 0 {
		return nil
	}
	ap, err := ranking.AveragePrecision(s.column(items, len(s.Classes)), marks)
	m.unseen = &ClassOutcome{AP: ap, Share: float64(positives) / float64(len(items)), Items: positives}
	return err
}

func (m *measured) factor() float64 { return ranking.Mean(m.own) / ranking.Mean(m.chance) }

const (
	resamples    = 2000
	permutations = 1999
)

func (p *SummaryParams) outcome(kind attacks.Kind, s *Scores, m *measured) AttackOutcome {
	o := AttackOutcome{Attack: kind, Taught: s.Taught, Users: len(m.users), Unseen: m.unseen}
	o.Top1, o.Top5 = m.top[1], m.top[5]
	if len(m.users) == 0 {
		return o
	}
	o.AP, o.Chance, o.Factor = ranking.Mean(m.own), ranking.Mean(m.chance), m.factor()
	o.Share = ranking.Mean(lists.Map(m.curves, func(points []ranking.Point) float64 { return points[len(points)-1].Precision }))
	p.Bound(&o, m.own, m.chance)
	o.P = p.test(m, o.AP)
	o.Curve = m.curve()
	if p.Users {
		o.PerUser = lists.Make(len(m.users), func(i int) UserOutcome { return UserOutcome{m.users[i], m.own[i], m.chance[i]} })
	}
	return o
}

// Bound sets the intervals, by each user's average precision and chance.
func (p *SummaryParams) Bound(o *AttackOutcome, own, chance []float64) {
	o.APInterval = p.resampling(len(own)).Interval(p.Confidence, ranking.OfMean(own, 0, 1))
	lows, highs := p.resampling(len(own)).Ends(ranking.OfRatio(own, chance, 0, 1, ranking.Mean(chance)))
	o.FactorInterval = ranking.PercentileInterval(p.Confidence)(lows, highs)
	// The bound is one-sided, and holds for all attacks jointly, so that the best of them can be chosen.
	o.FactorAtLeast = ranking.Quantile(lows, (1-p.Confidence)/float64(len(p.Attacks)))
}

// resampling draws the same weights of users for all intervals.
func (p *SummaryParams) resampling(users int) *ranking.Resampling {
	return &ranking.Resampling{Stream: seeds.Stream(p.Seed, seeds.UserBootstrap), Groups: []int{users}, Resamples: resamples}
}

// test returns the probability of at least this mean AP if devices had random owners, estimated by drawing
// owners. It is above 0.
func (p *SummaryParams) test(m *measured, ap float64) float64 {
	rng := seeds.Stream(p.Seed, seeds.DevicePermutation)
	reached := 1
	for range permutations {
		order, sum := rng.Perm(len(m.owners)), 0.0
		for i := range m.users {
			sum += m.ap[i][order[i]]
		}
		if sum/float64(len(m.users)) >= ap-1e-12 {
			reached++
		}
	}
	return float64(reached) / (permutations + 1)
}

// curveSteps is the number of points of the mean curve.
const curveSteps = 100

// curve returns the mean over users of the precision at each recall.
func (m *measured) curve() []float64 {
	mean := make([]float64, curveSteps)
	for _, points := range m.curves {
		at := 0
		for step := range mean {
			for points[at].Recall < float64(step+1)/curveSteps-1e-12 {
				at++
			}
			mean[step] += points[at].Precision / float64(len(m.curves))
		}
	}
	return mean
}

// matrix measures the attacks, each trained on one stage, on the items of each stage.
func (p *SummaryParams) matrix(ctx context.Context, t *tasks.Task, attack int) (matrix [][]Stage, err error) {
	for stage := range p.Stages {
		s, err := ReadScores(ctx, t, StageInput(attack, stage))
		if err != nil {
			return nil, err
		}
		row := make([]Stage, len(p.Stages))
		for i, rounds := range p.Stages {
			m, err := s.measure(rounds)
			if err != nil {
				return nil, tasks.Permanent(err)
			}
			if n := len(m.users); n > 0 {
				row[i] = Stage{Users: n, AP: ranking.Mean(m.own), Factor: m.factor()}
			}
		}
		matrix = append(matrix, row)
	}
	return matrix, nil
}

// compare sets the difference between the best trained attack and the baseline, which needs no training.
func (p *SummaryParams) compare(v *Outcome, list []*measured) {
	best, baseline := -1, slices.Index(p.Attacks, attacks.Cosine)
	for i := range v.Attacks {
		if p.Attacks[i] != attacks.Cosine && (best < 0 || v.Attacks[i].AP > v.Attacks[best].AP) {
			best = i
		}
	}
	if best < 0 || baseline < 0 || len(list[best].users) == 0 {
		return
	}
	above := slices.Clone(list[best].own)
	floats.Sub(above, list[baseline].own)
	v.AboveBaseline = &Difference{Attack: p.Attacks[best], AP: ranking.Mean(above), Interval: p.resampling(len(above)).Interval(p.Confidence, ranking.OfMean(above, -1, 1))}
}
