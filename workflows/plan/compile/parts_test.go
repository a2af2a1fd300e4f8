package compile_test

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

func TestPartsOfLargePlanHaveSameNodes(t *testing.T) {
	t.Parallel()
	seeds := make([]string, 90)
	for i := range seeds {
		seeds[i] = fmt.Sprint(i)
	}
	files := []storage.Digest{storage.DigestOf(plantest.Text())}
	spec := plantest.Resolve(t, small, files, "grid={axes: {seed: ["+strings.Join(seeds, ", ")+"]}}")
	whole := must.Get(compile.Plan(spec))(t)
	next := must.Get(compile.Parts(spec))(t)
	sum, nodes, parts := new(plan.Plan), make(map[storage.Key]*plan.Node), 0
	for ; ; parts++ {
		part, err := next()
		if err == io.EOF {
			break
		}
		must.Do(t, err)
		if err := part.Check(); err != nil {
			t.Errorf("part %d is no plan: %v", parts, err)
		}
		maps.Copy(nodes, part.Nodes)
		sum.Add(part)
	}
	sum.Nodes = nodes
	if err := sum.Check(); err != nil {
		t.Errorf("the sum of the parts is no plan: %v", err)
	}
	if parts < 2 || !slices.Equal(plan.SortedKeys(nodes), plan.SortedKeys(whole.Nodes)) || !slices.Equal(plan.SortedKeys(sum.Chains), plan.SortedKeys(whole.Chains)) {
		t.Errorf("%d parts with %d nodes and %d chains, want several with those of the plan, %d and %d", parts, len(nodes), len(sum.Chains), len(whole.Nodes), len(whole.Chains))
	}
}
