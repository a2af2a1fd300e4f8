package search

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

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
func TestASearchInPartsFindsWhatOneTaskFinds(t *testing.T) {
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

func TestASearchForWhatIsNotThereIsRefused(t *testing.T) {
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
