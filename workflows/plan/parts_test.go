package plan_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
)

// Taking up the parts of a plan one after the other takes up the plan.
func TestPartsAddUpToPlan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		p := plantest.Random(t, rand.New(rand.NewPCG(seed, 7)))
		sum, nodes := new(plan.Plan), make(map[storage.Key]bool)
		for parts := plantest.InParts(p, 1+int(seed%3)); ; {
			part, err := parts()
			if err == io.EOF {
				break
			}
			if err = errors.Join(err, part.Check()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			sum.Add(part)
			for key := range part.Nodes {
				nodes[key] = true
			}
		}
		if !reflect.DeepEqual(sum.Cells, p.Cells) {
			t.Errorf("seed %d: the parts have cells %v, the plan %v", seed, sum.Cells, p.Cells)
		}
		for _, c := range sum.Cells {
			if nodes[c.Report.Key] != (p.Nodes[c.Report.Key] != nil) || c.Chain != nil && c.Chain != sum.Chains[c.Chain.Recipe] {
				t.Errorf("seed %d: cell %s refers to what the sum does not have", seed, c.Name)
			}
		}
	}
}

func TestSummedCellsReferToSummedChains(t *testing.T) {
	t.Parallel()
	var sum plan.Plan
	recipe := storage.Key{Digest: storage.DigestOf(nil)}
	for range 2 {
		ch := &plan.Chain{Recipe: recipe}
		cell := plan.Cell{Chain: ch}
		for _, value := range reflect.ValueOf(&cell).Elem().Fields() {
			if ref, ok := value.Addr().Interface().(*plan.Ref); ok {
				ref.Chain = ch
			}
		}
		sum.Add(&plan.Plan{Cells: []plan.Cell{cell}, Chains: map[storage.Key]*plan.Chain{ch.Recipe: ch}})
	}
	for i, cell := range sum.Cells {
		for field, value := range reflect.ValueOf(cell).Fields() {
			if ref, ok := value.Interface().(plan.Ref); ok && ref.Chain != sum.Chains[recipe] {
				t.Errorf("%s of cell %d refers to the chain of a part", field.Name, i)
			}
		}
	}
}

func TestExtendKeepsLongerChainAndAllClaims(t *testing.T) {
	t.Parallel()
	c := plan.Chain{Steps: 10, Every: 5, KeepLast: 1, Keep: []int{5, 10}}
	c.Extend(&plan.Chain{Steps: 4, Every: 2, KeepLast: 3, Keep: []int{2, 4}})
	if c.Steps != 10 || c.Every != 5 || c.KeepLast != 1 || !slices.Equal(c.Keep, []int{2, 4, 5, 10}) {
		t.Errorf("extended by a shorter one: %d steps, keeps %v, every %d, last %d", c.Steps, c.Keep, c.Every, c.KeepLast)
	}
	c.Extend(&plan.Chain{Steps: 20, Every: 4, KeepLast: 2, Keep: []int{20}})
	if c.Steps != 20 || c.Every != 4 || c.KeepLast != 2 || !slices.Equal(c.Keep, []int{2, 4, 5, 10, 20}) {
		t.Errorf("extended by a longer one: %d steps, keeps %v, every %d, last %d", c.Steps, c.Keep, c.Every, c.KeepLast)
	}
}
