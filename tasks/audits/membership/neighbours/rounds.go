package neighbours

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"coalmine/internal/readable"
	"coalmine/internal/seeds"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/training"
)

// rounds replays rounds of federated training by the kinds training/clients and aggregation/server. In each,
// some members of the cohort and one user outside of it have their data. All others have no data but stay in
// the cohort. The server applies the noised mean unchanged: its optimizer costs no privacy.
type rounds struct {
	*replayer
	claim   audits.Round
	members int // with data
	company []int
	inside  int
	outside int // -1 if there is none
	buffers []byte
}

func newRounds(b *replayer, r *audits.Round, members int) *rounds {
	s := &rounds{replayer: b, claim: *r, members: members}
	c, server := &s.claim.Clients, &s.claim.Server
	c.Record, c.Canaries, c.StopAt, c.Noise = nil, nil, nil, 0
	server.Record, server.Watch, server.StopAt, server.Guarantee, server.Generator, server.Schedule = nil, nil, nil, nil, nil, nil
	server.Optimizer = optimizers.Config{Kind: optimizers.SGD}
	return s
}

func (s *rounds) Counts() bool { return s.claim.Server.Adaptive != nil }

func (s *rounds) Begin(_ context.Context, round int) (replay.Round, error) {
	s.begin(round)
	c := &s.claim.Clients
	members, err := training.Cohort(c, round, s.population.Users(), cohort(c.Seed))
	if err != nil {
		return replay.Round{}, err
	}
	s.choose(members)
	return replay.Round{Members: members, Inside: len(s.company) > 0, Outside: s.outside >= 0}, nil
}

func (s *rounds) choose(members []int) {
	rng := seeds.Stream(s.claim.Clients.Seed, seeds.Neighbours, uint64(s.number))
	s.company, s.outside = nil, -1
	for _, i := range rng.Perm(len(members)) {
		if len(s.company) < s.members && s.population.Examples(members[i]) > 0 {
			s.company = append(s.company, members[i])
		}
	}
	if len(s.company) > 0 {
		s.inside = s.company[0]
	}
	for range attempts {
		user := rng.IntN(s.population.Users())
		if _, in := slices.BinarySearch(members, user); !in && s.population.Examples(user) > 0 {
			s.outside = user
			return
		}
	}
}

// attempts is the number of attempts to find a user outside the cohort.
const attempts = 20

func (s *rounds) Release(ctx context.Context, r replay.Replay) (replay.Release, error) {
	data, err := s.data(ctx, r.Data)
	if err != nil {
		return replay.Release{}, err
	}
	clients, server := s.claim.Clients, s.claim.Server
	if r.Shrunk {
		clients.Clip, server.Clip = clients.Clip*shrink, server.Clip*shrink
	}
	server.LearningRate = magnify * float64(server.Cohort) / server.Clip
	if !r.Noise {
		clients.NoiseMultiplier, server.NoiseMultiplier = 0, 0
	}
	beside := map[string][]byte{}
	if beside[checkpoints.ClipBlob], err = json.Marshal(server.Clip); err != nil {
		return replay.Release{}, tasks.Permanent(err)
	}
	if s.buffers != nil {
		beside[checkpoints.NoiseBlob] = s.buffers
	}
	inputs := []tasks.Input{s.previous(r.State, beside)}
	for j := range clients.Chunks {
		part, err := s.run(ctx, training.Clients, r.Round, j, &clients, append(inputs[:1:1], data...)...)
		if err != nil {
			return replay.Release{}, err
		}
		defer s.runner.Forget(part.Key)
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(j), Key: part.Key})
	}
	n, err := s.run(ctx, aggregation.Server, r.Round, 0, &server, inputs...)
	if err != nil {
		return replay.Release{}, err
	}
	if r.Noise {
		s.buffers = n.Blobs[checkpoints.NoiseBlob]
	}
	count, err := s.count(n, server.Clip)
	if err != nil {
		return replay.Release{}, err
	}
	sum, err := s.released(ctx, n, r.State, 1)
	return replay.Release{Sum: sum, Count: count}, err
}

func (s *rounds) data(ctx context.Context, d replay.Data) ([]tasks.Input, error) {
	users := slices.Clone(s.company)
	if s.outside >= 0 {
		users = append(users, s.outside)
	}
	users = slices.DeleteFunc(users, func(u int) bool {
		return d == replay.Inside && u == s.inside || d == replay.Outside && u == s.outside
	})
	population, err := s.write(ctx, fmt.Sprint(users), func(ctx context.Context, t *tasks.Task) error {
		return s.population.WriteOnly(ctx, t, users)
	})
	return append([]tasks.Input{population}, s.inputs...), err
}

// count computes the noised count behind an adaptive clip norm, in standard deviations of its noise, from the
// clip norm.
func (s *rounds) count(n *tasks.RunnerNode, clip float64) (float64, error) {
	q := s.claim.Server.Adaptive
	if q == nil {
		return 0, nil
	}
	var next float64
	if err := json.Unmarshal(n.Blobs[checkpoints.ClipBlob], &next); err != nil {
		return 0, tasks.Permanent(fmt.Errorf("the next clip norm: %w", err))
	}
	return -math.Log(next/clip) * float64(s.claim.Server.Cohort) / (q.LearningRate * q.CountNoise), nil
}

// whiten makes correlated noise of a mechanism independent again: the rows become those of L^-1 noise, with L
// L' the covariance of a row of rounds. It skips Along, because moves differ from round to round.
func (p *Params) whiten(o *replay.Observations) error {
	if p.Recipe.Mechanism == nil {
		return nil
	}
	factor, err := covarianceFactor(p.Recipe, len(o.Noise))
	if err != nil {
		return err
	}
	o.Along = nil
	for i, row := range o.Noise {
		for j := range i {
			for k, v := range o.Noise[j] {
				row[k] -= float64(factor.At(i, j) * v)
			}
		}
		for k := range row {
			row[k] /= factor.At(i, i)
		}
	}
	return nil
}

// covarianceFactor returns the Cholesky factor of the covariance of a mechanism's noise over rounds, from its
// response to each independent draw.
func covarianceFactor(r privacy.Recipe, rounds int) (*mat.TriDense, error) {
	strategy, err := r.Mechanism.Strategy()
	if err != nil {
		return nil, err
	}
	draws, n := map[[2]uint64]int{}, rounds*independentDraws
	var buffers [][]float32
	response := make([][]float64, rounds)
	for i := range response {
		response[i], buffers, err = strategy.Noise(i+1, buffers, func(stream uint64) ([]float64, error) {
			unit, draw := make([]float64, n), [2]uint64{uint64(i), stream}
			if _, there := draws[draw]; !there {
				draws[draw] = len(draws)
			}
			if draws[draw] >= n {
				return nil, fmt.Errorf("%d draws of noise in %s; expected %d at most", len(draws), readable.Count(rounds, "round"), n)
			}
			unit[draws[draw]] = 1
			return unit, nil
		})
		if err != nil {
			return nil, err
		}
	}
	covariance := mat.NewSymDense(rounds, nil)
	for i := range rounds {
		for j := range i + 1 {
			covariance.SetSym(i, j, floats.Dot(response[i][:n], response[j][:n]))
		}
	}
	var factors mat.Cholesky
	if !factors.Factorize(covariance) {
		return nil, errors.New("the covariance of the noise is not positive definite; expected a mechanism with noise in every round")
	}
	var factor mat.TriDense
	factors.LTo(&factor)
	return &factor, nil
}

// independentDraws is the maximum mean number of independent draws in a round.
const independentDraws = 2
