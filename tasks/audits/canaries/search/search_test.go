package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// bench has an untrained model of bytes, or of 36 words, and canaries.
type bench struct {
	*taskstest.Graph
	t               *testing.T
	model, canaries *taskstest.Node
	vocabulary      *taskstest.Node
	list            []population.Placement
}

func newBench(t *testing.T, vocabulary int, canaries ...[]int32) *bench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	b.model = auditstest.Untrained(b.Graph, vocabulary)
	words := "<pad>\n<unk>\n<begin>\n<end>\n"
	for i := text.FirstWord; i < vocabulary; i++ {
		words += fmt.Sprintf("w%d\n", i)
	}
	b.vocabulary = b.Put("vocabulary", map[string][]byte{text.VocabularyBlob: []byte(words)})
	for i, tokens := range canaries {
		c := population.Canary{Number: i, Tokens: tokens, UserProbability: "1/10", ExampleProbability: "1"}
		b.list = append(b.list, population.Placement{Canary: c, Users: 3, Insertions: 5})
	}
	b.canaries = auditstest.Canaries(t, b.Graph, b.list)
	return b
}

// search runs the parts of a search that ends at these limits.
func (b *bench) search(p Params, limits ...int) *taskstest.Node {
	b.t.Helper()
	inputs := []taskstest.Edge{taskstest.In(audits.ModelInput, b.model), taskstest.In(audits.CanariesInput, b.canaries)}
	var part *taskstest.Node
	for i, limit := range limits {
		p.Part, p.Expansions, p.Last = i, limit, i+1 == len(limits)
		if i > 0 {
			part = b.Run(Kind, p, append(slices.Clip(inputs), taskstest.In("previous", part))...)
			continue
		}
		part = b.Run(Kind, p, inputs...)
	}
	return part
}

// summary joins searches, and returns the node and its outcome.
func (b *bench) summary(parts ...*taskstest.Node) (node *taskstest.Node, v Outcome, outcomes []CanaryOutcome) {
	b.t.Helper()
	inputs := []taskstest.Edge{taskstest.In(audits.PlacementsInput, b.canaries), taskstest.In(population.PartsInput, b.vocabulary)}
	for i, p := range parts {
		inputs = append(inputs, taskstest.In(fmt.Sprintf("part-%d", i), p))
	}
	node = b.Run(Summary, SummaryParams{Parts: len(parts)}, inputs...)
	b.decode(node, audits.OutcomeBlob, &v)
	b.decode(node, audits.CanaryOutcomesBlob, &outcomes)
	return node, v, outcomes
}

func (b *bench) decode(n *taskstest.Node, blob string, into any) {
	b.t.Helper()
	if err := json.Unmarshal(n.Blob(blob), into); err != nil {
		b.t.Fatal(err)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40, []int32{7, 9, 11, 30}, []int32{8, 39, 4, 5})
	p := Params{Space: canaries.Space{Words: 4}, Prefix: 1, Count: 1, Settings: settings(8, 3, 1)}
	first := b.search(p, 60)
	p.First = 1
	cut := b.search(p, 50, 60)
	taskstest.Golden(t, first, cut)
	summary, v, outcomes := b.summary(first, cut)
	taskstest.Golden(t, summary)
	if v.Of != 2 || v.Searches != 2 || v.CutByExpansions != 2 || len(outcomes) != 2 || !strings.Contains(v.Note(&audits.Cell{Name: "c01"}), "of 2 searches 2 at the limit of audit.search.expansions ended before") {
		t.Errorf("outcome %+v of outcomes %+v, with the note %q", v, outcomes, v.Note(&audits.Cell{Name: "c01"}))
	}
}

// The cuts of a long search into tasks change no byte of its findings, and the parts
// after its end do nothing.
func TestSearchInPartsMatchesOneTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40, []int32{7, 9, 11, 30})
	p := Params{Space: canaries.Space{Words: 4}, Prefix: 2, Count: 1, Settings: settings(8, 3, 3)}
	want := b.search(p, 100_000).Blob(FoundBlob)
	for _, limits := range [][]int{{10, 100_000}, {20, 40, 60, 80, 100, 100_000}, {100_000, 200_000, 300_000}} {
		if got := b.search(p, limits...).Blob(FoundBlob); string(got) != string(want) {
			t.Errorf("in parts up to %v: %s; in one: %s", limits, got, want)
		}
	}
}

// A format fixes the prefix of all its canaries: one search is for all of them, and says
// of each where it stands.
func TestOneSearchServesAllCanariesOfAFormat(t *testing.T) {
	t.Parallel()
	format := canaries.Space{Words: 6, Alphabet: canaries.Digits, Format: "no:###"}
	tokens := func(content string) (out []int32) {
		for i := range len(content) {
			out = append(out, text.FirstWord+int32(content[i]))
		}
		return out
	}
	b := newBench(t, text.FirstWord+text.Bytes, tokens("no:123"), tokens("no:999"), tokens("no:000"))
	_, v, outcomes := b.summary(b.search(Params{Space: format, Prefix: 3, Count: 3, Settings: settings(8, 1000, 1000)}, unlimited))
	if v.Searches != 1 || v.Of != 3 || v.CutByExpansions+v.CutByMemory != 0 || v.Note(nil) != "" {
		t.Errorf("outcome %+v, want one search that is complete", v)
	}
	extracted := 0
	for i, o := range outcomes {
		if *o.Sequences != 1000 || *o.Ratio != 1000/float64(*o.Expanded) || len(o.Results) != 1000 || !*o.Complete || *o.Stop != Proved {
			t.Errorf("canary %d: %+v", i, o)
		}
		at := *o.Rank - 1 // where all are returned, the canary is one of them, at its cost
		if got := o.Results[at].LogPerplexity; !*o.RankExact || got != *o.CanaryLogPerplexity || *o.Extracted != (at == 0) {
			t.Errorf("canary %d costs %v, result %d %v", i, *o.CanaryLogPerplexity, at, got)
		}
		if *o.Extracted {
			extracted++
		}
	}
	if extracted != v.Extracted {
		t.Errorf("%d are extracted, the verdict says %d", extracted, v.Extracted)
	}
}

// Canaries that have the same prefix by chance share a search too.
func TestTheSamePrefixIsSearchedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40, []int32{7, 9, 11}, []int32{8, 39, 4}, []int32{7, 12, 5})
	var parts []*taskstest.Node
	for i := range b.list {
		parts = append(parts, b.search(Params{Space: canaries.Space{Words: 3}, Prefix: 1, First: i, Count: 1, Settings: settings(8, 2, 1)}, 20, unlimited))
	}
	_, v, outcomes := b.summary(parts...)
	if v.Searches != 2 || v.Expanded != int(*outcomes[0].Expanded+*outcomes[1].Expanded) {
		t.Errorf("outcome %+v, want two searches", v)
	}
	alone := b.search(Params{Space: canaries.Space{Words: 3}, Prefix: 1, First: 2, Count: 1, GroupFirst: 2, Settings: settings(8, 2, 1)}, unlimited)
	var found Found
	b.decode(alone, FoundBlob, &found)
	if third := outcomes[2]; third.Results[0].LogPerplexity != found.Best[0].LogPerplexity || *third.CanaryLogPerplexity != found.Canaries[0].LogPerplexity ||
		*third.Expanded != *outcomes[0].Expanded || math.IsNaN(*third.Ratio) {
		t.Errorf("the third canary: %+v; by a search of its own %+v", third, found)
	}
}

func TestSearchRejectsBadParameters(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40, []int32{7, 9, 11})
	inputs := []taskstest.Edge{taskstest.In(audits.ModelInput, b.model), taskstest.In(audits.CanariesInput, b.canaries)}
	good := Params{Space: canaries.Space{Words: 3}, Prefix: 1, Count: 1, Settings: settings(8, 2, 1), Expansions: 5}
	for want, change := range map[string]func(p *Params){
		"leaves nothing of a canary":   func(p *Params) { p.Prefix = 3 },
		"canaries 1 to 1 of a group":   func(p *Params) { p.First = 1 },
		"has 3 tokens, its space 4":    func(p *Params) { p.Words = 4 },
		"unknown field":                nil,
		"for a vocabulary of 36 words": func(p *Params) { p.Alphabet = canaries.Digits },
	} {
		var params any = map[string]int{"no": 1}
		if change != nil {
			p := good
			change(&p)
			params = p
		}
		if _, err := b.Try(Kind, params, inputs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	part := b.search(good, 1, 2)
	broken := b.Put("broken", map[string][]byte{FoundBlob: []byte(`{"same_as": 7, "canaries": [{"tokens": [9, 11]}]}`)})
	for _, parts := range [][]*taskstest.Node{{broken}, {part, part}} {
		inputs := []taskstest.Edge{taskstest.In(audits.PlacementsInput, b.canaries), taskstest.In(population.PartsInput, b.vocabulary)}
		for i, p := range parts {
			inputs = append(inputs, taskstest.In(fmt.Sprintf("part-%d", i), p))
		}
		if _, err := b.Try(Summary, SummaryParams{Parts: len(parts)}, inputs...); err == nil {
			t.Errorf("a summary of %d parts that do not belong to the canary is no error", len(parts))
		}
	}
}

// randomTree is a tree under an untrained model whose predictions are far from uniform;
// scale 0 makes all sequences cost the same.
func randomTree(t *testing.T, seed uint64, scale float32, choices [][]int32) *Tree {
	t.Helper()
	s := auditstest.RandomScorer(t, models.Config{Kind: models.LSTM, Vocabulary: 16, Embedding: 5, Units: 7, Layers: 2}, seed, scale)
	return must.Get(NewTree(s, []int32{5, 9}, choices))(t)
}

var (
	digits = []int32{4, 5, 6, 7, 8, 9}
	// formats are trees of different shapes: random symbols alone, with fixed ones between
	// and at the ends, and one that is a single sequence.
	formats = [][][]int32{
		{digits, digits, digits, digits},
		{{12}, digits, digits, {13}, {14}, digits, {4, 15}},
		{digits},
		{{7}, {8}},
	}
)

// bruteForce is every sequence of a tree, each scored alone, the best first.
func bruteForce(t *testing.T, tree *Tree) []Sequence {
	t.Helper()
	all := []Sequence{{}}
	for i := range len(tree.Choices) {
		var longer []Sequence
		for _, s := range all {
			for _, token := range tree.Choices[i] {
				longer = append(longer, Sequence{Tokens: append(slices.Clone(s.Tokens), token)})
			}
		}
		all = longer
	}
	for i := range all {
		cost := must.Get(tree.Cost(all[i].Tokens))(t)
		all[i].LogPerplexity = cost
	}
	slices.SortFunc(all, compareSequences)
	return all
}

// settings have room for everything in these tests.
func settings(batch, results, prove int) Settings {
	return Settings{Batch: batch, Results: results, Prove: prove, Memory: 1 << 20}
}

func searched(t *testing.T, tree *Tree, s Settings, expansions int) (*walk, Stop) {
	t.Helper()
	w := newWalk(tree, s)
	found := must.Get(w.run(t.Context(), expansions, func(int) {}))(t)
	return w, found.Stop
}

func sameSequences(a, b []Sequence) bool {
	return slices.EqualFunc(a, b, func(a, b Sequence) bool { return compareSequences(a, b) == 0 })
}

const unlimited = math.MaxInt32

// For any number of nodes pulled at once, the certain sequences are those of brute force,
// to the bit; and one at a time expands no unneeded node.
func TestBestSequencesMatchBruteForce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		for shape, choices := range formats {
			for _, scale := range []float32{1, 4} {
				tree := randomTree(t, seed, scale, choices)
				all := bruteForce(t, tree)
				for _, batch := range []int{1, 3, 1000} {
					for _, prove := range []int{1, 5} {
						name := fmt.Sprintf("seed %d, tree %d, scale %v, batch %d, prove %d", seed, shape, scale, batch, prove)
						w, stop := searched(t, tree, settings(batch, 7, prove), unlimited)
						n := w.certain()
						if stop != Proved || n < min(prove, len(all)) || !sameSequences(w.Best[:n], all[:n]) {
							t.Errorf("%s: stopped %s, %d certain of %v; brute force finds %v", name, stop, n, w.Best, all[:min(7, len(all))])
						}
						if batch == 1 {
							last := all[min(prove, len(all))-1].LogPerplexity
							for _, n := range w.nodes[1:] {
								if cost := costOf(t, tree, w, n); cost > last {
									t.Errorf("%s: a node of cost %v was expanded for sequences of at most %v", name, cost, last)
								}
							}
						}
					}
				}
			}
		}
	}
}

func costOf(t *testing.T, tree *Tree, w *walk, n node) float64 {
	t.Helper()
	return must.Get(tree.Cost(append(w.path(n.parent), n.token)))(t)
}

// Where all sequences cost the same, the lower tokens come first, and only the whole tree
// is a proof.
func TestTiesGoToTheLowerTokens(t *testing.T) {
	t.Parallel()
	tree := randomTree(t, 1, 0, formats[0])
	all := bruteForce(t, tree)
	for _, batch := range []int{1, 4, 1000} {
		w, stop := searched(t, tree, settings(batch, 7, 1), unlimited)
		if stop != Proved || w.certain() != 7 || !sameSequences(w.Best, all[:7]) || w.Expanded != 1+6+36+216 {
			t.Errorf("batch %d: stopped %s after %d nodes, %d certain of %v", batch, stop, w.Expanded, w.certain(), w.Best)
		}
	}
}

// The paper's rule ends a search after twice the iterations of the first sequence.
func TestUnprovedSearchEndsAfterTwiceFirstIterations(t *testing.T) {
	t.Parallel()
	tree := randomTree(t, 3, 4, formats[0])
	w, stop := searched(t, tree, settings(2, 40, 0), unlimited)
	if stop != Iterations || w.First == 0 || w.Iterations != 2*w.First {
		t.Errorf("stopped %s after %d iterations, the first sequence was found in iteration %d", stop, w.Iterations, w.First)
	}
	if n := w.certain(); !sameSequences(w.Best[:n], bruteForce(t, tree)[:n]) {
		t.Errorf("%v are not certain", w.Best[:n])
	}
}

// A search that was cut anywhere goes on to the same nodes, queue and sequences.
func TestResumedSearchMatchesWholeSearch(t *testing.T) {
	t.Parallel()
	tree := randomTree(t, 2, 1, formats[0])
	for _, batch := range []int{1, 7} {
		s := settings(batch, 5, 5)
		whole, stop := searched(t, tree, s, unlimited)
		for _, step := range []int{1, 5, 40} {
			part := newWalk(tree, s)
			for limit := step; ; limit += step {
				found := must.Get(part.run(t.Context(), limit, func(int) {}))(t)
				if found.Stop == Expansions {
					next := newWalk(tree, s)
					next.Progress = part.Progress
					must.Do(t, next.load(part.save()))
					part = next
					continue
				}
				if found.Stop != stop || part.Expanded != whole.Expanded || part.Iterations != whole.Iterations || part.First != whole.First ||
					!sameSequences(part.Best, whole.Best) || !slices.Equal(part.save(), whole.save()) {
					t.Errorf("batch %d in steps of %d: %s with %+v; uninterrupted %s with %+v", batch, step, found.Stop, part.Progress, stop, whole.Progress)
				}
				break
			}
		}
	}
}

// States that memory had no room for are computed again: nothing else changes.
func TestDroppedStatesDoNotChangeSearch(t *testing.T) {
	t.Parallel()
	tree := randomTree(t, 4, 1, formats[0])
	s := settings(5, 5, 5)
	want, _ := searched(t, tree, s, unlimited)
	w := newWalk(tree, s)
	for stop := Stop(""); stop == ""; stop = w.ended(unlimited) {
		w.kept.start(tree, 1) // forgets all states
		must.Do(t, w.iterate())
	}
	if w.Expanded != want.Expanded || !sameSequences(w.Best, want.Best) || !slices.Equal(w.save(), want.save()) {
		t.Errorf("%+v without states, %+v with them", w.Progress, want.Progress)
	}
}

// A search with too little memory drops the costliest nodes. If it needs none of them, it ends as a search with
// enough memory; otherwise it gives memory as its reason to stop. Its certain sequences are right in both cases.
func TestASearchKeepsWithinItsMemory(t *testing.T) {
	t.Parallel()
	stops := map[Stop]int{}
	for seed := range uint64(8) {
		for _, scale := range []float32{0, 1, 2, 6} {
			tree := randomTree(t, seed, scale, formats[0])
			all := bruteForce(t, tree)
			s := settings(3, 5, 3)
			s.Memory = 1200 // 18 entries, 18 nodes
			w, stop := searched(t, tree, s, unlimited)
			stops[stop]++
			n := w.certain()
			if len(w.queue)*entryBytes > 300 || len(w.nodes)*nodeBytes > 150+3*nodeBytes || !sameSequences(w.Best[:n], all[:n]) {
				t.Errorf("seed %d, scale %v: stopped %s with %d entries, %d nodes, %d certain of %v", seed, scale, stop, len(w.queue), len(w.nodes), n, w.Best)
			}
			if (stop == Proved) != (n >= 3) {
				t.Errorf("seed %d, scale %v: stopped %s with %d certain", seed, scale, stop, n)
			}
		}
	}
	if stops[Proved] == 0 || stops[Memory] == 0 || len(stops) != 2 {
		t.Errorf("the searches stopped for %v; want some that are proved and some at the bound of memory", stops)
	}
}

// The rest of a search that was cut is a beginning of the whole.
func TestACutSearchKeepsWhatItHasFound(t *testing.T) {
	t.Parallel()
	tree := randomTree(t, 2, 1, formats[0])
	w, stop := searched(t, tree, settings(1, 5, 5), 150)
	if stop != Expansions || w.Expanded != 150 || len(w.Best) == 0 || stop.complete() {
		t.Errorf("stopped %s with %+v, want 150 expansions and some sequences", stop, w.Progress)
	}
	if n := w.certain(); n >= 5 || !sameSequences(w.Best[:n], bruteForce(t, tree)[:n]) {
		t.Errorf("%d are certain of %v", n, w.Best)
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := newWalk(randomTree(t, 2, 1, formats[0]), settings(1, 5, 5)).run(ctx, unlimited, func(expanded int) {
		if expanded == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// No damage to a frontier makes a search panic, or continue with nodes outside of its
// tree.
func TestDamagedFrontierIsRejected(t *testing.T) {
	t.Parallel()
	tree := randomTree(t, 2, 1, formats[0])
	w, _ := searched(t, tree, settings(1, 5, 5), 20)
	good := w.save()
	rng := rand.New(rand.NewPCG(1, 1))
	refused := 0
	for range 2000 {
		bad := slices.Clone(good)
		bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		bad = bad[:len(bad)-rng.IntN(2)*rng.IntN(len(bad))]
		next := newWalk(tree, w.Settings)
		if err := next.load(bad); err != nil {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Fatalf("error %v, want storage.ErrCorrupt", err)
			}
			refused++
			continue
		}
		must.Get(next.run(t.Context(), 60, func(int) {}))(t)
	}
	if refused < 1000 {
		t.Errorf("%d damaged frontiers of 2000 were refused", refused)
	}
	if err := newWalk(tree, w.Settings).load(nil); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("an empty frontier: error %v", err)
	}
}

// The queue returns its entries in order, put in any order.
func TestTheQueueIsInOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	var q queue
	var want []entry
	for i := range 500 {
		e := entry{float64(rng.IntN(40)), int32(rng.IntN(5)), int32(i)}
		q.push(e)
		want = append(want, e)
	}
	slices.SortFunc(want, compareEntries)
	if cost := q.drop(400); cost != want[400].cost {
		t.Errorf("the cheapest that went costs %v, want %v", cost, want[400].cost)
	}
	for i, e := range want[:400] {
		if got := q.pop(); got != e {
			t.Fatalf("entry %d is %v, want %v", i, got, e)
		}
	}
}
