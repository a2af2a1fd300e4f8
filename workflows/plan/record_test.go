package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
)

// tell writes down a plan, field by field. Of a chain that something refers to it has the recipe.
func tell(p *plan.Plan) string {
	var b strings.Builder
	for _, key := range plan.SortedKeys(p.Nodes) {
		fmt.Fprintf(&b, "node %s: ", key.Short())
		tellValue(&b, reflect.ValueOf(p.Nodes[key]).Elem())
		b.WriteString("\n")
	}
	for _, recipe := range plan.SortedKeys(p.Chains) {
		fmt.Fprintf(&b, "chain %s: ", recipe.Short())
		tellValue(&b, reflect.ValueOf(p.Chains[recipe]).Elem())
		b.WriteString("\n")
	}
	tellValue(&b, reflect.ValueOf(p.Cells))
	tellValue(&b, reflect.ValueOf(p.Sources))
	return b.String()
}

func tellValue(b *strings.Builder, v reflect.Value) {
	switch x := v.Interface().(type) {
	case *plan.Chain:
		if x != nil {
			b.WriteString(x.Recipe.Short())
		}
		return
	case tasks.Kind:
		fmt.Fprintf(b, "%s@%d", x.Name, x.Version) // the registry decides its class
		return
	case storage.Key, storage.Digest, json.RawMessage:
		fmt.Fprintf(b, "%s", x)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				fmt.Fprintf(b, " %s=", field.Name)
				tellValue(b, value)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			b.WriteString("[")
			tellValue(b, v.Index(i))
			b.WriteString("]")
		}
	default:
		fmt.Fprintf(b, "%q", fmt.Sprint(v.Interface()))
	}
}

// record makes the record of a plan in n parts.
func record(t *testing.T, p *plan.Plan, parts int) *plan.Record {
	t.Helper()
	var w plan.RecordWriter
	next := plantest.InParts(p, parts)
	for {
		part, err := next()
		if err != nil {
			break
		}
		must.Do(t, w.Add(part))
	}
	return must.Get(w.Record())(t)
}

func keep(t *testing.T, a *storage.Archive, p *plan.Plan, parts int) {
	t.Helper()
	must.Do(t, record(t, p, parts).Keep(t.Context(), a, "run"))
}

// random is a plan with something in every field that random plans leave empty.
func random(t *testing.T, seed uint64) *plan.Plan {
	p, err := plantest.InParts(plantest.Random(t, rand.New(rand.NewPCG(seed, 3))), 1000)() // the needs of its cells
	must.Do(t, err)
	for _, ch := range p.Chains {
		if ch.Width == 0 {
			ch.Part = plan.Template{} // nobody's
		}
	}
	some := plan.SortedKeys(p.Nodes)
	p.Sources = []storage.Digest{storage.DigestOf([]byte("source"))}
	for i, key := range some {
		n := p.Nodes[key]
		n.Class, n.Terms, n.SecretKey = tasks.GPU, []byte(fmt.Sprintf(`{"limit":"<%d>"}`, i)), fmt.Sprint("secret ", i%2)
	}
	for i := range p.Cells {
		c := &p.Cells[i]
		nodes, _ := p.Needed(c.Report, c.Model)
		ref := plan.Ref{Key: nodes[i%len(nodes)].Key}
		c.Axes, c.Row = []byte(fmt.Sprintf(`{"seed":%d}`, i)), []byte(`{"name":"r01","label":"\u003c"}`)
		c.Final, c.Initial, c.Prepared, c.Vocabulary, c.Population, c.Shards, c.Devices = ref, ref, ref, ref, ref, ref, ref
		c.Recorded, c.Unit = []storage.Key{nodes[0].Key, ref.Key}, plan.Step
		if c.Chain != nil && c.Model.Chain == nil {
			c.Tail = plan.Tail{After: 1, Rounds: 7, Node: ref}
		}
	}
	return p
}

func TestPlanRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		a, p := storage.NewArchive(storagetest.NewMemory()), random(t, seed)
		keep(t, a, p, 1+int(seed%3))
		got, err := plan.ReadNewestRecord(t.Context(), a, "run")
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want, has := strings.Split(tell(p), "\n"), strings.Split(tell(got), "\n")
		for i := range want {
			if i >= len(has) || has[i] != want[i] {
				t.Fatalf("seed %d: line %d of %d and %d was\n%s\nand is read as\n%s", seed, i, len(want), len(has), want[i], has[min(i, len(has)-1)])
			}
		}
		for i := range got.Cells {
			if c := got.Cells[i].Chain; c != nil && c != got.Chains[c.Recipe] {
				t.Errorf("seed %d: cell %d has another chain than the plan", seed, i)
			}
		}
	}
}

func TestOutlineHasChainsAndCells(t *testing.T) {
	t.Parallel()
	a, p := storage.NewArchive(storagetest.NewMemory()), random(t, 1)
	keep(t, a, p, 2)
	var got *plan.Plan
	known, err := plan.ReadOutlines(t.Context(), a, "run", func(p *plan.Plan) { got = p })
	if err != nil || !known || len(got.Nodes) != 0 || len(got.Cells) != len(p.Cells) || len(got.Chains) != len(p.Chains) {
		t.Fatalf("outline %+v, %v", got, err)
	}
	for recipe, want := range p.Chains {
		if c := got.Chains[recipe]; c.Steps != want.Steps || c.Every != want.Every || c.KeepLast != want.KeepLast || !slices.Equal(c.Keep, want.Keep) || c.Key(c.Steps) != want.Key(c.Steps) {
			t.Errorf("chain %+v, want %+v", c, want)
		}
	}
}

func TestPlanIsRecordedOnlyWhenItChanges(t *testing.T) {
	t.Parallel()
	a, ctx := storage.NewArchive(storagetest.NewMemory()), t.Context()
	p, other := random(t, 1), random(t, 2)
	if _, err := plan.ReadNewestRecord(ctx, a, "run"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("without a record: %v", err)
	}
	for i, c := range []struct {
		plan *plan.Plan
		want []int
	}{{p, []int{1}}, {p, []int{1}}, {other, []int{1, 2}}, {other, []int{1, 2}}, {p, []int{1, 2, 3}}} {
		keep(t, a, c.plan, 1)
		if got, err := a.Plans(ctx, "run"); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("after %d: plans %v, %v; want %v", i, got, err, c.want)
		}
		if got, err := plan.ReadNewestRecord(ctx, a, "run"); err != nil || tell(got) != tell(c.plan) {
			t.Errorf("after %d: the newest plan is another one (%v)", i, err)
		}
	}
	var all []string
	known, err := plan.ReadRecords(ctx, a, "run", func(p *plan.Plan) { all = append(all, tell(p)) })
	if want := []string{tell(p), tell(other), tell(p)}; err != nil || !known || !slices.Equal(all, want) {
		t.Errorf("all plans: known %v, %v, %d of them", known, err, len(all))
	}
	must.Do(t, a.DeleteRun(ctx, "run"))
	for info := range a.Store().List(ctx, "") {
		t.Errorf("%s is left of a removed run", info.Name)
	}
}

func object(t *testing.T, store storage.Store, name string) []byte {
	t.Helper()
	r := must.Get(store.Get(t.Context(), name, 0, -1))(t)
	return must.Get(io.ReadAll(r))(t)
}

func put(t *testing.T, store storage.Store, name string, data []byte) {
	t.Helper()
	must.Do(t, store.Put(t.Context(), name, bytes.NewReader(data), storage.Durable))
}

// Every byte of a record that is changed, and every end that is cut off, is noticed.
func TestDamagedPlanRecordIsRejected(t *testing.T) {
	t.Parallel()
	memory, ctx := storagetest.NewMemory(), t.Context()
	a, p := storage.NewArchive(memory), random(t, 1)
	keep(t, a, p, 1)
	var names []string
	for info := range memory.List(ctx, "runs/run/plan") {
		names = append(names, info.Name)
	}
	if len(names) != 3 {
		t.Fatalf("objects of a plan: %v, want a record and its two parts", names)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		whole := object(t, memory, name)
		for range 50 {
			damaged := slices.Clone(whole)
			damaged[draw.IntN(len(damaged))] ^= 1 << draw.IntN(8)
			if draw.IntN(4) == 0 {
				damaged = damaged[:draw.IntN(len(damaged))]
			}
			put(t, memory, name, damaged)
			got, err := plan.ReadNewestRecord(ctx, a, "run")
			if err == nil && tell(got) != tell(p) || err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Fatalf("%s: error %v", name, err)
			}
			if known, err := plan.ReadRecords(ctx, a, "run", func(*plan.Plan) {}); err != nil || known != (got != nil) {
				t.Fatalf("%s: known %v, %v", name, known, err)
			}
		}
		put(t, memory, name, whole)
	}
}
