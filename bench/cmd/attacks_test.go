package main

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models/attacks"
)

func TestASmallTrainingIsMeasured(t *testing.T) {
	t.Parallel()
	for _, kind := range attacks.Kinds() {
		r := must.Get(runAttack(t.Context(), attackOptions{Attack: kind, Updates: 40, Values: 50, Users: 4, Epochs: 2, Memory: 16}))(t)
		var table strings.Builder
		r.Print(&table)
		if r.Updates != 40 || r.ReadGB == 0 || r.Heap == 0 || !strings.Contains(table.String(), string(kind)) {
			t.Errorf("%s: %+v\n%s", kind, r, table.String())
		}
	}
	if _, err := runAttack(t.Context(), attackOptions{Attack: attacks.Cosine, Updates: 8, Values: 1_500_000, Users: 4, Epochs: 1, Memory: 100}); err != nil {
		t.Errorf("shards that are read in parts: %v", err)
	}
	if _, err := runAttack(t.Context(), attackOptions{Attack: attacks.MLP}); err == nil {
		t.Error("nothing was measured, without an error")
	}
}
