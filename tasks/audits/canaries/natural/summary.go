package natural

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// SummaryParams are the parameters of audits/natural-summary.
type SummaryParams struct {
	Shares int `json:"shares"`
	// Show puts the text of the findings, and what stands before it, into the outcome.
	Show bool `json:"show"`
}

// Summary joins the shares, its inputs besides FindingsInput. Its blob is
// audits.OutcomeBlob, its metrics Metrics.
var Summary = tasks.Kind{Name: "audits/natural-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

// Metrics are what the curve keeps of an outcome.
type Metrics struct {
	Highest float64 `json:"natural_highest_exposure"`
}

func runSummary(ctx context.Context, t *tasks.Task) error {
	var p SummaryParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	list, err := readFindings(ctx, t, FindingsInput)
	if err != nil {
		return err
	}
	var scanned ScanMetrics
	if err := t.InputMetrics(ctx, FindingsInput, &scanned); err != nil {
		return err
	}
	v := Outcome{Found: scanned.Found, Occurrences: scanned.Occurrences, CanariesInData: scanned.CanariesInData, Secrets: make([]Secret, len(list))}
	for share := range p.Shares {
		ranks, err := audits.ReadPart[Rank](ctx, t, share, RanksBlob, (len(list)-share+p.Shares-1)/p.Shares)
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
			v.Highest = max(v.Highest, *s.Exposure)
		}
	}
	v.countExtracted()
	if err := t.PutJSON(ctx, audits.OutcomeBlob, v); err != nil {
		return err
	}
	return t.SetMetrics(Metrics{v.Highest})
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

// exposureText marks what is only a lower bound.
func (s *Secret) exposureText() string {
	switch {
	case s.Exposure == nil:
		return "-"
	case *s.Censored:
		return fmt.Sprintf(">= %.1f", *s.Exposure)
	}
	return fmt.Sprintf("%.1f", *s.Exposure)
}
