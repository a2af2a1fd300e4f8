package natural

import (
	"context"

	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
)

// Params are the parameters of audits/natural.
type Params struct {
	Seed uint64 `json:"seed"`
	// References is how many others of its form a finding is ranked among, at most.
	References int `json:"references"`
	// Search is how many nodes a search for a finding expands, at most; 0 for no search.
	Search int `json:"search,omitempty"`
	// Share of Shares is what this task ranks: every Shares-th finding, from Share on.
	Share  int `json:"share"`
	Shares int `json:"shares"`
}

// Kind ranks a share of the findings after their contexts. Its inputs are the checkpoint
// and FindingsInput; its blob RanksBlob holds one Rank a finding.
var Kind = tasks.Kind{Name: "audits/natural", Version: 1, Class: tasks.Compute, Run: run}

// FindingsInput is a node of Scan.
const FindingsInput = "findings"

// RanksBlob is a JSON array of Rank.
const RanksBlob = "ranks"

// Rank is where a finding stands among others of its form.
type Rank struct {
	// Sequences is the size of the form's space, References how many others were drawn.
	Sequences  float64 `json:"sequences"`
	References int     `json:"references"`
	// Rank is absent where the space has no other.
	Rank *randomsampling.Rank `json:"rank,omitempty"`
	// Searched is absent where nothing was searched for.
	Searched *Searched `json:"searched,omitempty"`
}

func run(ctx context.Context, t *tasks.Task) error {
	var p Params
	if err := t.Decode(&p); err != nil {
		return err
	}
	list, err := readFindings(ctx, t, FindingsInput)
	if err != nil {
		return err
	}
	ranks := []Rank{}
	for i := p.Share; i < len(list); i += p.Shares {
		rank, err := p.rank(ctx, t, i, &list[i])
		if err != nil {
			return err
		}
		ranks = append(ranks, rank)
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(len(list))})
	}
	return t.PutJSON(ctx, RanksBlob, ranks)
}

// rank ranks one finding, among references of a stream of its own.
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
	rows := make([][]int32, len(references))
	for i, text := range references {
		rows[i] = tokensOf(text)
	}
	found, err := randomsampling.RankAmong(ctx, tables, f.Context, f.Secret, rows)
	if err != nil {
		return Rank{}, err
	}
	rank.Rank = &found
	rank.Searched, err = p.search(ctx, t, space, f)
	return rank, err
}
