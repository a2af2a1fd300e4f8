package engine

import (
	"encoding/json"
	"slices"
	"testing"

	"coalmine/internal/must"
)

const auditText = "../../examples/data/state-of-the-union.jsonl.gz"

func someCanaries(t *testing.T, s *Subject, n int) {
	t.Helper()
	list, err := s.placements()
	if err != nil {
		t.Fatal(err)
	}
	if s.Canaries, err = json.Marshal(list[:n]); err != nil {
		t.Fatal(err)
	}
}

func TestRanksDoNotDependOnWorkers(t *testing.T) {
	t.Parallel()
	made := must.Get(subjects(t.Context(), auditText, size{vocabulary: 1000, records: 2000, steps: 2}))(t)
	const canaries, references = 3, 200
	for i := range made {
		s := &made[i]
		someCanaries(t, s, canaries)
		one := must.Get(Audit(t.Context(), s, 1, references))(t)
		two := must.Get(Audit(t.Context(), s, 2, references))(t)
		if !slices.Equal(one.Ranks, two.Ranks) {
			t.Errorf("%s: ranks %+v on one worker, %+v on two", s.Name, one.Ranks, two.Ranks)
		}
		single := must.Get(Rank(t.Context(), s, canaries-1, references))(t)
		if single.Rank != one.Ranks[canaries-1] || single.Work.Advanced == 0 || single.GFLOPS <= 0 {
			t.Errorf("%s: %+v alone, %+v in the audit", s.Name, single, one.Ranks[canaries-1])
		}
	}
	if slices.Equal(made[0].Model, made[1].Model) {
		t.Error("the trained model is the untrained one")
	}
}

func TestMissingCanaryIsRejected(t *testing.T) {
	t.Parallel()
	s := Subject{Name: "empty", Canaries: []byte(`[{"number": 0, "tokens": [4, 5, 6]}]`)}
	if _, err := Rank(t.Context(), &s, 1, 10); err == nil {
		t.Error("canary 1 of 1 was ranked")
	}
}
