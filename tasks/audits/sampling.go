package audits

import (
	"context"
	"encoding/json"
	"math"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// RandomSamplingParams are the parameters of audits/random-sampling.
type RandomSamplingParams struct {
	Seed uint64 `json:"seed"`
	// References is the size of the reference set.
	References int `json:"references"`
	// Words is the length of a canary, Prefix how many of them are given.
	Words  int `json:"words"`
	Prefix int `json:"prefix"`
	// Exact ranks every canary among all references, however large its rank.
	Exact bool `json:"exact,omitempty"`
	// First and Count say which canaries this task scores.
	First int `json:"first"`
	Count int `json:"count"`
}

// Rank is the outcome of random sampling for one canary.
type Rank struct {
	// LogPerplexity of the canary after its prefix, in nats.
	LogPerplexity float64 `json:"log_perplexity"`
	// Rank is 1 + the references with a log-perplexity of at most the canary's;
	// 1 means memorized.
	Rank int64 `json:"rank"`
	// Exact says whether Rank was counted or estimated from the pilot. Whether
	// it is 1 is always exact.
	Exact bool `json:"exact"`
	// ExposureError is the standard error of the exposure in bits; 0 if Exact.
	ExposureError float64 `json:"exposure_error,omitempty"`
}

// RandomSampling ranks some canaries among random sequences (Carlini et al.
// 2019, section 4; Thakkar et al. 2020, section 4.1). Its inputs are the
// checkpoint and the canaries; its blob RanksBlob holds one Rank a canary.
var RandomSampling = tasks.Kind{Name: "audits/random-sampling", Version: 1, Class: tasks.Compute, Run: runRandomSampling}

// RanksBlob is a JSON array of Rank.
const RanksBlob = "ranks"

func runRandomSampling(ctx context.Context, t *tasks.Task) error {
	var p RandomSamplingParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	all, scorer, err := openAudit(ctx, t)
	if err != nil {
		return err
	}
	sets, err := readReferences(t, &p, scorer.Model().Config().Vocabulary-datasets.FirstWord, suffixes(all, p.Prefix))
	if err != nil {
		return err
	}
	s := newSampling(&p, scorer, sets)
	ranks := make([]Rank, 0, p.Count)
	for i, c := range all[p.First : p.First+p.Count] {
		rank, err := s.rank(ctx, c.Tokens)
		if err != nil {
			return err
		}
		ranks = append(ranks, rank)
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(p.Count), Tokens: s.scored()})
	}
	return putJSON(ctx, t, RanksBlob, ranks)
}

func suffixes(all []datasets.Placement, prefix int) [][]int32 {
	var out [][]int32
	for _, c := range all {
		out = append(out, c.Tokens[prefix:])
	}
	return out
}

// sampling ranks canaries under one model.
type sampling struct {
	params     *RandomSamplingParams
	scorer     *models.Scorer
	pilot, all *ranker
}

func newSampling(p *RandomSamplingParams, scorer *models.Scorer, sets *referenceSets) *sampling {
	s := &sampling{params: p, scorer: scorer, all: newRanker(scorer, sets.all)}
	if sets.pilot != nil && !p.Exact {
		s.pilot = newRanker(scorer, sets.pilot)
	}
	return s
}

func (s *sampling) scored() int64 {
	n := s.all.scored
	if s.pilot != nil {
		n += s.pilot.scored
	}
	return n
}

func (s *sampling) rank(ctx context.Context, words []int32) (Rank, error) {
	prefix, suffix := words[:s.params.Prefix], words[s.params.Prefix:]
	state, err := prefixState(s.scorer, prefix)
	if err != nil {
		return Rank{}, err
	}
	own, err := prefixState(s.scorer, prefix)
	if err != nil {
		return Rank{}, err
	}
	cost, err := logPerplexity(s.scorer, own, suffix)
	if err != nil {
		return Rank{}, err
	}
	if math.IsNaN(cost) || math.IsInf(cost, 0) {
		return Rank{}, tasks.Permanent(&models.DivergedError{What: "log-perplexity of a canary", Value: cost})
	}
	return s.place(ctx, state, cost)
}

// place finds the rank of a cost: estimated if the pilot alone shows that it
// is large, counted among all references otherwise.
func (s *sampling) place(ctx context.Context, state *models.States, cost float64) (Rank, error) {
	if s.pilot != nil {
		hits, err := s.pilot.count(ctx, state, cost)
		if err != nil {
			return Rank{}, err
		}
		if hits >= minPilotHits {
			share := float64(hits) / float64(s.pilot.references.Count())
			estimate := 1 + math.Round(share*float64(s.all.references.Count()))
			return Rank{LogPerplexity: cost, Rank: int64(estimate), ExposureError: 1 / (math.Ln2 * math.Sqrt(float64(hits)))}, nil
		}
	}
	n, err := s.all.count(ctx, state, cost)
	return Rank{LogPerplexity: cost, Rank: 1 + n, Exact: true}, err
}

// Exposure is log2(references) - log2(rank), in bits (Carlini et al. 2019,
// definition 4, with the references in place of the whole space).
func (r Rank) Exposure(references int) float64 {
	return math.Log2(float64(references)) - math.Log2(float64(r.Rank))
}

func putJSON(ctx context.Context, t *tasks.Task, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return tasks.Permanent(err)
	}
	return t.Put(ctx, name, data)
}
