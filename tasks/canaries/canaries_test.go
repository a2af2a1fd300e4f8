package canaries

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// vocabularyOf has the ordinary words w0, w1, ….
func vocabularyOf(ordinary int) *text.Vocabulary {
	v := &text.Vocabulary{Words: []string{"<pad>", "<unk>", "<begin>", "<end>"}}
	for i := range ordinary {
		v.Words = append(v.Words, fmt.Sprintf("w%d", i))
	}
	return v
}

// draw runs Draw over a vocabulary of the given number of ordinary words.
func draw(t *testing.T, g *taskstest.Graph, ordinary int, p DrawParams) (*taskstest.Node, error) {
	t.Helper()
	content := strings.Join(vocabularyOf(ordinary).Words, "\n") + "\n"
	parts := g.Put(fmt.Sprint("vocabulary ", ordinary), map[string][]byte{text.VocabularyBlob: []byte(content)})
	return g.Try(Draw, p, taskstest.In(population.PartsInput, parts))
}

// drawn are the canaries that parameters ask for.
func drawn(t *testing.T, p *DrawParams, v *text.Vocabulary) []population.Canary {
	t.Helper()
	return must.Get(drawAll(p, v))(t)
}

func canariesOf(t *testing.T, node *taskstest.Node) []population.Canary {
	t.Helper()
	var list []population.Canary
	must.Do(t, json.Unmarshal(node.Blob(population.CanariesBlob), &list))
	return list
}

var grid = []Configuration{{UserProbability: "1/50", ExampleProbability: "1/100"}, {UserProbability: "1/50", ExampleProbability: "1/10"}, {UserProbability: "3/50", ExampleProbability: "1"}}

func TestDrawGivesEveryConfigurationItsCanaries(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	node := must.Get(draw(t, g, 100, DrawParams{Seed: 1, Configurations: grid, PerConfiguration: 4, Space: Space{Words: 5}, HeldBack: 3}))(t)
	list := canariesOf(t, node)
	if len(list) != 3*4+3 {
		t.Fatalf("%d canaries", len(list))
	}
	firsts := map[int32]bool{}
	for i, c := range list {
		want := Configuration{}
		if i < 12 {
			want = grid[i/4]
		}
		if ConfigurationOf(&c) != want || c.HeldBack != (i >= 12) || c.Number != i {
			t.Errorf("canary %d is %+v", i, c)
		}
		if len(c.Tokens) != 5 || firsts[c.Tokens[0]] {
			t.Errorf("canary %d, %v: want 5 words, the first unlike all others'", i, c.Tokens)
		}
		firsts[c.Tokens[0]] = true
		for j, w := range c.Tokens {
			if w < text.FirstWord || c.Words[j] != fmt.Sprintf("w%d", w-text.FirstWord) {
				t.Errorf("canary %d: token %d is not the ordinary word %q", i, w, c.Words[j])
			}
		}
	}
}

// 4,000 canaries of 5 words over 8,000 ordinary ones: 16,000 draws in 80 bins of equal size after
// the first words. Pearson's statistic with 79 degrees of freedom exceeds 160 with probability
// 2e-7. The first words, drawn without replacement, vary less; they are held to the same bound.
func TestWordsAreUniform(t *testing.T) {
	t.Parallel()
	const ordinary, bins, canaries = 8000, 80, 4000
	list := drawn(t, &DrawParams{Seed: 3, Configurations: grid[:1], PerConfiguration: canaries, Space: Space{Words: 5}}, vocabularyOf(ordinary))
	for name, positions := range map[string][]int{"first words": {0}, "other words": {1, 2, 3, 4}} {
		var counts [bins]float64
		for _, c := range list {
			for _, j := range positions {
				counts[int(c.Tokens[j]-text.FirstWord)*bins/ordinary]++
			}
		}
		expected := float64(canaries*len(positions)) / bins
		statistic := 0.0
		for _, n := range counts {
			statistic += (n - expected) * (n - expected) / expected
		}
		if statistic > 160 {
			t.Errorf("%s: chi-squared %.1f over %d bins", name, statistic, bins)
		}
	}
}

func TestDrawUsesTheWholeVocabularyIfItMust(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	p := DrawParams{Configurations: grid[:1], PerConfiguration: 7, Space: Space{Words: 1}, HeldBack: 3}
	if _, err := draw(t, g, 10, p); err != nil {
		t.Errorf("10 canaries over 10 words: %v", err)
	}
	_, err := draw(t, g, 9, p)
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "10 canaries need as many different first words, and the vocabulary has 9") {
		t.Errorf("10 canaries over 9 words: %v", err)
	}
}

func TestDrawRejectsBadParameters(t *testing.T) {
	t.Parallel()
	good := DrawParams{Configurations: grid, PerConfiguration: 1, Space: Space{Words: 5}}
	for want, change := range map[string]func(*DrawParams){
		"no configuration":                        func(p *DrawParams) { p.Configurations = nil },
		"per_configuration is 0":                  func(p *DrawParams) { p.PerConfiguration = 0 },
		"canaries of 0 words; expected 1 to 1000": func(p *DrawParams) { p.Words = 0 },
		"held_back is -1":                         func(p *DrawParams) { p.HeldBack = -1 },
		"(1/50, 1/10) is given twice":             func(p *DrawParams) { p.Configurations = append(grid[:2:2], grid[1]) },
		`user probability "2": expected`: func(p *DrawParams) {
			p.Configurations = []Configuration{{UserProbability: "2", ExampleProbability: "1"}}
		},
		`user probability "0"`: func(p *DrawParams) {
			p.Configurations = []Configuration{{UserProbability: "0", ExampleProbability: "1"}}
		},
		`example probability "2/4"`: func(p *DrawParams) {
			p.Configurations = []Configuration{{UserProbability: "1", ExampleProbability: "2/4"}}
		},
		`example probability "1e-400000000"`: func(p *DrawParams) {
			p.Configurations = []Configuration{{UserProbability: "1", ExampleProbability: "1e-400000000"}}
		},
		`example probability "1/0": expected a fract`: func(p *DrawParams) {
			p.Configurations = []Configuration{{UserProbability: "1", ExampleProbability: "1/0"}}
		},
	} {
		p := good
		change(&p)
		_, err := draw(t, taskstest.NewGraph(t), 100, p)
		if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestConfigurationsCompareByFrequencyThenUsers(t *testing.T) {
	t.Parallel()
	ordered := []Configuration{{UserProbability: "1/50000", ExampleProbability: "1/100"}, {UserProbability: "1/5000", ExampleProbability: "1/100"}, {UserProbability: "1/50000", ExampleProbability: "1"}, {UserProbability: "3/50000", ExampleProbability: "1/3"}, {UserProbability: "1/5000", ExampleProbability: "1/10"}}
	// (1/5000, 1/100) and (1/50000, 1/10) are inserted equally often.
	if (Configuration{UserProbability: "1/50000", ExampleProbability: "1/10"}).Compare(Configuration{UserProbability: "1/5000", ExampleProbability: "1/100"}) >= 0 {
		t.Error("of two that are equally frequent, the one with fewer users is lower")
	}
	if !slices.IsSortedFunc(ordered, Configuration.Compare) {
		t.Errorf("%v is not in order", ordered)
	}
	if first, same := ordered[0], ordered[0]; first.Compare(same) != 0 {
		t.Error("a configuration equals itself")
	}
}

// balancedUsers runs the tasks of package datasets over random text.
func balancedUsers(t *testing.T, g *taskstest.Graph, seed uint64) (parts, balanced *taskstest.Node) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, seed))
	var source strings.Builder
	for range 3000 {
		fmt.Fprintf(&source, `{"user":"u%d","text":"`, rng.IntN(20))
		for range 1 + rng.IntN(10) {
			fmt.Fprintf(&source, "w%d ", int(rng.ExpFloat64()*30))
		}
		source.WriteString(`."}` + "\n")
	}
	r := datasets.Recipe{Seed: seed, VocabularySize: 80, TestFraction: 0.2, Words: 40}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(source.String()))}})
	parts = g.Run(datasets.Encode, r.Encode(), taskstest.In(datasets.CorpusInput, corpus))
	return parts, g.Run(population.Balance, r.Balance(), taskstest.In(population.PartsInput, parts))
}

// inserted is the result of an insert node.
type inserted struct {
	parts, balanced, canaries, node *taskstest.Node
	index                           *population.Index
	list                            []population.Placement
	overlay                         population.Overlay
	metrics                         InsertMetrics
}

func insert(t *testing.T, g *taskstest.Graph, p DrawParams) inserted {
	t.Helper()
	var out inserted
	out.parts, out.balanced = balancedUsers(t, g, 5)
	out.canaries = g.Run(Draw, p, taskstest.In(population.PartsInput, out.parts))
	out.node = g.Run(Insert, InsertParams{Seed: p.Seed},
		taskstest.In(population.BalancedInput, out.balanced), taskstest.In(CanariesInput, out.canaries))
	task := g.Task(taskstest.In("node", out.node), taskstest.In("balanced", out.balanced))
	var err error
	if out.list, err = population.ReadPlacements(t.Context(), task, "node"); err != nil {
		t.Fatal(err)
	}
	if out.overlay, err = population.DecodeOverlay(out.node.Blob(population.OverlayBlob), len(out.list)); err != nil {
		t.Fatal(err)
	}
	if out.index, err = population.ReadIndex(t.Context(), task, "balanced", population.MembersIndexBlob); err != nil {
		t.Fatal(err)
	}
	out.node.DecodeMetrics(&out.metrics)
	return out
}

func TestInsertRecordsInsertions(t *testing.T) {
	t.Parallel()
	configurations := []Configuration{{UserProbability: "1/10", ExampleProbability: "1/10"}, {UserProbability: "1/2", ExampleProbability: "1/2"}, {UserProbability: "1/1000000000", ExampleProbability: "1"}}
	in := insert(t, taskstest.NewGraph(t), DrawParams{Seed: 2, Configurations: configurations, PerConfiguration: 3, Space: Space{Words: 5}, HeldBack: 2})
	sharers := map[int]bool{}
	for i, c := range in.list {
		holders := map[int]bool{}
		insertions := 0
		for _, r := range in.overlay {
			if r.Canary == i {
				holders[r.User] = true
				sharers[r.User] = true
				insertions++
			}
		}
		if c.Holders != len(holders) || c.Insertions != insertions || c.Users < c.Holders {
			t.Errorf("canary %d: recorded %d users, %d holders, %d copies; the overlay has %d holders, %d copies", i, c.Users, c.Holders, c.Insertions, len(holders), insertions)
		}
		if never := i >= 6; never != (insertions == 0) || c.HeldBack != (i >= 9) {
			t.Errorf("canary %d (%s, %s) has %d copies", i, c.UserProbability, c.ExampleProbability, insertions)
		}
	}
	want := InsertMetrics{
		ReplacedExamples: len(in.overlay), Examples: in.index.Counts().Examples, Collisions: in.metrics.Collisions,
		SecretSharers: len(sharers), Users: len(in.index.Extents), NeverInserted: 3,
	}
	if in.metrics != want || want.Collisions == 0 {
		t.Errorf("metrics %+v, want %+v, with collisions", in.metrics, want)
	}
}

func TestCertainCanaryTakesEveryExample(t *testing.T) {
	t.Parallel()
	in := insert(t, taskstest.NewGraph(t), DrawParams{Configurations: []Configuration{{UserProbability: "1", ExampleProbability: "1"}}, PerConfiguration: 1, Space: Space{Words: 5}})
	if in.metrics.ReplacedExamples != in.metrics.Examples || in.list[0].Users != len(in.index.Extents) {
		t.Errorf("got %+v", in.metrics)
	}
}

func TestTestPartHasNoCanary(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	in := insert(t, g, DrawParams{Seed: 4, Configurations: []Configuration{{UserProbability: "1", ExampleProbability: "1/2"}}, PerConfiguration: 5, Space: Space{Words: 5}})
	pop := g.Run(population.Partition, population.PartitionParams{Partition: population.IID, Words: 40},
		taskstest.In(population.BalancedInput, in.balanced), taskstest.In(population.PartsInput, in.parts), taskstest.In(population.InsertionsInput, in.node))
	framed := map[string]bool{}
	for _, c := range in.list {
		framed[fmt.Sprint(append(append([]int32{text.Begin}, c.Tokens...), text.End))] = true
	}
	task := g.Task(taskstest.In("parts", in.parts), taskstest.In("population", pop))
	test := must.Get(population.OpenPart(t.Context(), task, "parts", population.Test))(t)
	trained := must.Get(population.Open(t.Context(), task, "population", "population"))(t)
	if n := copies(t, test, framed); n > 0 {
		t.Errorf("%d canaries in the test part", n)
	}
	if n := copies(t, trained, framed); n < trained.Records()*9/10 {
		t.Errorf("%d canaries in a population of %d records; 31 of 32 were to be replaced", n, trained.Records())
	}
}

// copies counts the sentences that are one of the framed canaries.
func copies(t *testing.T, p *population.Population, framed map[string]bool) int {
	t.Helper()
	sentences := must.Get(p.ReadRecords(t.Context(), 0, p.Records()))(t)
	n := 0
	for _, s := range sentences {
		if framed[fmt.Sprint(s)] {
			n++
		}
	}
	return n
}

func TestCanaryDrawsDoNotDependOnOtherCanaries(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	_, balanced := balancedUsers(t, g, 6)
	task := g.Task(taskstest.In("balanced", balanced))
	index := must.Get(population.ReadIndex(t.Context(), task, "balanced", population.MembersIndexBlob))(t)
	third := population.Canary{Number: 2, UserProbability: "1/3", ExampleProbability: "1/4"}
	placesOfThird := func(others Configuration) population.Overlay {
		drawn := []population.Canary{
			{Number: 0, UserProbability: others.UserProbability, ExampleProbability: others.ExampleProbability},
			{Number: 1, HeldBack: true},
			third,
		}
		_, all, err := drawPlaces(t.Context(), task, 8, drawn, index)
		must.Do(t, err)
		return slices.DeleteFunc(all, func(r population.Replacement) bool { return r.Canary != 2 })
	}
	a, b := placesOfThird(Configuration{UserProbability: "1/2", ExampleProbability: "1"}), placesOfThird(Configuration{UserProbability: "1/9", ExampleProbability: "1/9"})
	if len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("%d places beside one canary, %d beside another, not the same", len(a), len(b))
	}
}

// Both numbers are binomial. A bound of 5 standard deviations is exceeded with
// probability below 6e-7 each.
func TestSharersAndExamplesArePoissonSampled(t *testing.T) {
	t.Parallel()
	const users, examples, p = 50000, 40000, 0.03
	within := func(what string, got, n int) {
		sd := math.Sqrt(float64(n) * p * (1 - p))
		if off := math.Abs(float64(got) - float64(n)*p); off > 5*sd {
			t.Errorf("%d %s of %d, %.1f standard deviations off", got, what, n, off/sd)
		}
	}
	within("sharers", len(drawSharers(1, 0, users, p)), users)
	within("examples", len(drawExamples(1, 0, 0, examples, p)), examples)
	if slices.Equal(drawSharers(1, 0, users, p), drawSharers(1, 1, users, p)) {
		t.Error("two canaries have the same sharers")
	}
}

// Two users, and two canaries, draw their examples apart: 64 coins are equal with a probability
// of 2^-64. The winner of a collision does not follow from those coins either.
func TestDrawsHaveSeparateStreams(t *testing.T) {
	t.Parallel()
	first := drawExamples(1, 0, 0, 64, 0.5)
	if slices.Equal(first, drawExamples(1, 0, 1, 64, 0.5)) {
		t.Error("two users draw the same examples")
	}
	if slices.Equal(first, drawExamples(1, 1, 0, 64, 0.5)) {
		t.Error("two canaries draw the same examples")
	}
	var all population.Overlay
	for e := range 64 {
		all = append(all, population.Replacement{User: 1, Example: e, Canary: 0}, population.Replacement{User: 1, Example: e, Canary: 1})
	}
	var won, drawn []int
	for e, r := range settle(1, all) {
		won = append(won, r.Canary)
		drawn = append(drawn, seeds.Stream(1, seeds.Insertions, 1, uint64(e)).IntN(2))
	}
	if slices.Equal(won, drawn) {
		t.Error("the winners follow from the stream of insertions")
	}
}

// Three canaries draw all of 3,000 examples. Pearson's statistic with 2 degrees
// of freedom exceeds 28 with probability 8e-7.
func TestACollisionGoesToOneCanaryUniformly(t *testing.T) {
	t.Parallel()
	const users, examples, canaries = 30, 100, 3
	var all population.Overlay
	for c := range canaries {
		for u := range users {
			for e := range examples {
				all = append(all, population.Replacement{User: u, Example: e, Canary: c})
			}
		}
	}
	placed := settle(1, all)
	if len(placed) != users*examples {
		t.Fatalf("%d examples replaced, want each of %d once", len(placed), users*examples)
	}
	var wins [canaries]float64
	for i, r := range placed {
		if r.User != i/examples || r.Example != i%examples {
			t.Fatalf("replacement %d is %+v", i, r)
		}
		wins[r.Canary]++
	}
	statistic := 0.0
	for _, n := range wins {
		expected := float64(len(placed)) / canaries
		statistic += (n - expected) * (n - expected) / expected
	}
	if statistic > 28 {
		t.Errorf("chi-squared %.1f: %v", statistic, wins)
	}
}

func TestGoldenDigests(t *testing.T) {
	t.Parallel()
	in := insert(t, taskstest.NewGraph(t), DrawParams{Seed: 2, Configurations: grid, PerConfiguration: 3, Space: Space{Words: 5}, HeldBack: 2})
	taskstest.Golden(t, in.canaries)
	taskstest.Golden(t, in.node)
}

func TestSeedsDecideTheCanaries(t *testing.T) {
	t.Parallel()
	p := &DrawParams{Configurations: grid, PerConfiguration: 2, Space: Space{Words: 5}}
	text := func(seed uint64) string {
		p := *p
		p.Seed = seed
		return fmt.Sprint(drawn(t, &p, vocabularyOf(50)))
	}
	if first, again := text(1), text(1); first != again || first == text(2) {
		t.Error("equal seeds must give equal canaries, other seeds others")
	}
}
