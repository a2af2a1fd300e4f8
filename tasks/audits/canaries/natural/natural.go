// Package natural looks for secrets in the original training text: card numbers, social
// security numbers, phone numbers, mail addresses, and matches of custom patterns. Each is
// ranked among others of its form, after the words before it (Carlini et al. 2019,
// sections 4 and 6.3, for the Enron mails):
//
//	audits/natural-scan     the secrets in the text, without a model
//	audits/natural          the ranks of a share of them, under one checkpoint
//	audits/natural-summary  all ranks, and the outcome
package natural

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/checkpoints"
)

type Params struct {
	Seed uint64 `json:"seed"`
	// References is the maximum number of other sequences of its form that a finding is ranked among.
	References int `json:"references"`
	// Search is the maximum number of nodes that a search for a finding expands; 0: no search.
	Search int `json:"search,omitempty"`
	// Share and Shares select the task's findings: every Shares-th, starting with number Share.
	Share  int `json:"share"`
	Shares int `json:"shares"`
}

// Kind ranks a share of the findings after their contexts. Inputs: the checkpoint and FindingsInput.
var Kind = tasks.Kind{Name: "audits/natural", Version: 1, Class: tasks.Compute, Run: audits.Finds(RanksBlob, rankShare)}

// FindingsInput is a node of Scan.
const FindingsInput = "findings"

// RanksBlob is a JSON array with a Rank for each finding.
const RanksBlob = "ranks"

// Rank is the rank of a finding among others of its form.
type Rank struct {
	// Sequences is the size of the form's space, References the number of drawn references.
	Sequences  float64 `json:"sequences"`
	References int     `json:"references"`
	// Rank is absent if the space has no other sequence.
	Rank     *randomsampling.Rank `json:"rank,omitempty"`
	Searched *Searched            `json:"searched,omitempty"`
}

func rankShare(ctx context.Context, t *tasks.Task, p *Params) ([]Rank, error) {
	list, err := readFindings(ctx, t, FindingsInput)
	if err != nil {
		return nil, err
	}
	ranks := []Rank{}
	for i := p.Share; i < len(list); i += p.Shares {
		rank, err := p.rank(ctx, t, i, &list[i])
		if err != nil {
			return nil, err
		}
		ranks = append(ranks, rank)
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(len(list))})
	}
	return ranks, nil
}

// rank ranks a finding. References come from a random stream of the finding.
func (p *Params) rank(ctx context.Context, t *tasks.Task, number int, f *Finding) (Rank, error) {
	secret := textOf(f.Secret)
	space := newSpace(f.Pattern, secret)
	references := space.references(seeds.Stream(p.Seed, seeds.NaturalReferences, uint64(number)), secret, p.References)
	rank := Rank{Sequences: space.sequences(), References: len(references)}
	if len(references) == 0 {
		return rank, nil
	}
	tables, err := audits.ReadTables(ctx, t)
	if err != nil {
		return Rank{}, err
	}
	found, err := randomsampling.RankAmong(ctx, tables, f.Context, f.Secret, lists.Map(references, tokensOf))
	if err != nil {
		return Rank{}, err
	}
	rank.Rank = &found
	rank.Searched, err = p.search(ctx, t, space, f)
	return rank, err
}

// Searched is the result of the search for one finding.
type Searched struct {
	// Extracted reports whether the search proved the finding to be the most likely sequence of its form.
	Extracted bool `json:"extracted"`
	Expanded  int  `json:"expanded"`
}

// settings are search settings; Memory and Batch are the defaults of audit.search.
var settings = search.Settings{Batch: 64, Results: 1, Prove: 1, Memory: 256 << 20}

// search looks for a finding after its context. The last digit of a card number is open, too.
func (p *Params) search(ctx context.Context, t *tasks.Task, s space, f *Finding) (*Searched, error) {
	if p.Search == 0 {
		return nil, nil
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	tree, err := search.NewTree(scorer, f.Context, s.tokens())
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	found, err := search.Likeliest(ctx, tree, settings, p.Search, func(int) {})
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	return &Searched{found.Certain > 0 && slices.Equal(found.Best[0].Tokens, f.Secret), found.Expanded}, nil
}

func (s space) tokens() [][]int32 {
	all := make([][]int32, len(s.choices))
	for i, among := range s.choices {
		all[i] = tokensOf(among)
		slices.Sort(all[i])
	}
	return all
}

type SummaryParams struct {
	Shares int `json:"shares"`
	// Show adds the text of the findings and of their contexts to the outcome.
	Show bool `json:"show"`
}

// Summary joins the shares, which are the inputs other than FindingsInput, into audits.OutcomeBlob.
var Summary = tasks.Kind{Name: "audits/natural-summary", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(runSummary)}

func runSummary(ctx context.Context, t *tasks.Task, p *SummaryParams) error {
	list, err := readFindings(ctx, t, FindingsInput)
	if err != nil {
		return err
	}
	var scanned ScanMetrics
	if err := t.InputMetrics(ctx, FindingsInput, &scanned); err != nil {
		return err
	}
	v := &Outcome{Found: scanned.Found, Occurrences: scanned.Occurrences, CanariesInData: scanned.CanariesInData, Secrets: make([]Secret, len(list))}
	for share := range p.Shares {
		ranks, err := audits.ReadParts[Rank](ctx, t, RanksBlob, (len(list)-share+p.Shares-1)/p.Shares, tasks.PartInput(share))
		if err != nil {
			return err
		}
		for i, rank := range ranks {
			at := share + i*p.Shares
			v.Secrets[at] = newSecret(&list[at], rank, p.Show)
		}
	}
	for _, s := range v.Secrets {
		if s.Exposure != nil {
			v.Highest = exposure.Higher(v.Highest, *s.Exposure)
		}
	}
	v.countExtracted()
	return audits.PutOutcome(ctx, t, measures, v)
}

func newSecret(f *Finding, r Rank, show bool) Secret {
	s := Secret{Pattern: string(f.Pattern), Users: f.Users, Occurrences: f.Occurrences, Sequences: r.Sequences, References: r.References}
	if show {
		s.Text, s.Context = new(textOf(f.Secret)), new(textOf(f.Context))
	}
	if r.Searched != nil {
		s.Extracted, s.Expanded = &r.Searched.Extracted, &r.Searched.Expanded
	}
	if r.Rank == nil {
		return s
	}
	s.Rank, s.LogPerplexity = &r.Rank.Rank, &r.Rank.LogPerplexity
	s.Exposure, s.Censored = new(r.Rank.Exposure(r.References)), new(r.Rank.Rank == 1)
	if !r.Rank.Exact {
		s.ExposureSE = &r.Rank.ExposureError
	}
	return s
}

// exposureText marks a lower bound.
func (s *Secret) exposureText() string {
	switch {
	case s.Exposure == nil:
		return "-"
	case *s.Censored:
		return fmt.Sprintf(">= %.1f", *s.Exposure)
	}
	return fmt.Sprintf("%.1f", *s.Exposure)
}
