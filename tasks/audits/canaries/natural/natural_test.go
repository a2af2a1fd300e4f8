package natural

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// letters are the matches of a scan in the letters of four users, of which a canary
// replaces one. The card numbers are ones for tests.
func letters(t *testing.T, g *taskstest.Graph) *taskstest.Node {
	t.Helper()
	content := must.Get(os.ReadFile("testdata/letters.jsonl"))(t)
	r := datasets.Recipe{Seed: 1, Reading: source.Reading{Level: text.ByteLevel}, Words: 60}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import(content)}, Reading: r.Shortest()})
	parts := g.Run(datasets.Encode, r.Encode(), taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, r.Balance(), taskstest.In(population.PartsInput, parts))
	drawn := g.Run(canaries.Draw, canaries.DrawParams{
		Seed: 1, Configurations: []canaries.Configuration{{Times: 1}}, PerConfiguration: 1,
		Space: canaries.Space{Words: 5, Alphabet: canaries.Listed, Symbols: "24", Format: "pin #"}, HeldBack: 0,
	}, taskstest.In(population.PartsInput, parts))
	inserted := g.Run(canaries.Insert, canaries.InsertParams{Seed: 4}, taskstest.In(population.BalancedInput, balanced), taskstest.In(canaries.CanariesInput, drawn))
	pop := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.BalancedInput, balanced), taskstest.In(population.PartsInput, parts), taskstest.In(population.InsertionsInput, inserted))
	return g.Run(Scan, everything, taskstest.In(population.Input, pop), taskstest.In(population.ShardsInput, parts))
}

var everything = ScanParams{Patterns: []filters.Pattern{filters.Card, filters.SSN, filters.Phone, filters.Email}, Own: []string{"ref-[0-9]{4}"}, MaxFindings: 100}

func findingsOf(t *testing.T, node *taskstest.Node) map[string]Finding {
	t.Helper()
	var list []Finding
	must.Do(t, json.Unmarshal(node.Blob(FindingsBlob), &list))
	byText := map[string]Finding{}
	for _, f := range list {
		byText[textOf(f.Secret)] = f
	}
	return byText
}

// The canary replaces any one of the sentences.
func TestScanFindsSecretsOfOriginalText(t *testing.T) {
	t.Parallel()
	node := letters(t, taskstest.NewGraph(t))
	found := findingsOf(t, node)
	card := found["4111 1111 1111 1111"]
	if card.Pattern != filters.Card || card.Occurrences < 2 || card.Users < 1 || card.Users > 2 {
		t.Errorf("the card was found as %+v", card)
	}
	if context := textOf(card.Context); context != "my card is " && context != "again " {
		t.Errorf("before the card stands %q", context)
	}
	if _, wrong := found["4111 1111 1111 1112"]; wrong {
		t.Error("a number whose Luhn sum is wrong was found")
	}
	var m ScanMetrics
	node.DecodeMetrics(&m)
	if m.Found != len(found) || m.Found < 4 || m.Occurrences < m.Found {
		t.Errorf("metrics %+v of %d findings", m, len(found))
	}
	// "pin 4" is in the text; "pin 2" is not.
	var first population.Canary
	for _, c := range []string{"pin 4", "pin 2"} {
		first.Tokens = tokensOf(c)
		l := newLookedFor([]population.Placement{{Canary: first}})
		l.in("the canary pin 4242 stands here")
		if there := len(l.found()) == 1; there != (c == "pin 4") {
			t.Errorf("%q is in the data: %v", c, there)
		}
	}
}

func TestSecretIsRankedAmongSequencesOfItsPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern         filters.Pattern
		secret, example string
		sequences       float64
	}{
		{filters.Card, "4111 1111 1111 1111", `^\d{4} \d{4} \d{4} \d{4}$`, 1e15},
		{filters.SSN, "078-05-1120", `^\d{3}-\d\d-\d{4}$`, 1e9},
		{filters.Phone, "+1 (212) 555-0142", `^\+\d \(\d{3}\) \d{3}-\d{4}$`, 1e11},
		{filters.Email, "Jo.doe7@example1.org", `^[A-Z][a-z]\.[a-z]{3}\d@example1\.org$`, math.Pow(26, 5) * 10},
		{"ref-[0-9]{4}", "ref-1234", `^[a-z]{3}-\d{4}$`, 26 * 26 * 26 * 1e4},
	} {
		s := newSpace(c.pattern, c.secret)
		if s.sequences() != c.sequences {
			t.Errorf("%s: %v sequences, want %v", c.secret, s.sequences(), c.sequences)
		}
		form := must.Get(filters.NewPatterns(nil, []string{c.example}))(t)
		card := must.Get(filters.NewPatterns([]filters.Pattern{filters.Card}, nil))(t)
		for _, drawn := range s.references(seeds.Stream(1, seeds.NaturalReferences), c.secret, 300) {
			if len(form.Find(drawn)) != 1 || drawn == c.secret {
				t.Fatalf("%q was drawn in place of %q", drawn, c.secret)
			}
			if c.pattern == filters.Card && len(card.Find(drawn)) != 1 {
				t.Fatalf("the Luhn sum of %q is wrong", drawn)
			}
		}
	}
	if n := len(newSpace("x+", "!?").references(nil, "!?", 10)); n != 0 {
		t.Errorf("%d others of a form without holes", n)
	}
	small := newSpace("[0-9]", "7").references(seeds.Stream(1, seeds.NaturalReferences), "7", 100)
	if len(small) != 9 {
		t.Errorf("%d references of 9 others", len(small))
	}
}

// The last digits of 5,000 cards, which follow from the others, are uniform: Pearson's
// statistic with 9 degrees of freedom exceeds 40 with probability 8e-6.
func TestCardsAreUniform(t *testing.T) {
	t.Parallel()
	var counts [10]float64
	for _, card := range newSpace(filters.Card, "4111111111111111").references(seeds.Stream(2, seeds.NaturalReferences), "", 5000) {
		counts[card[15]-'0']++
	}
	statistic := 0.0
	for _, n := range counts {
		statistic += (n - 500) * (n - 500) / 500
	}
	if statistic > 40 {
		t.Errorf("chi-squared %.1f of %v", statistic, counts)
	}
}

// A model with weights as they are drawn ranks all secrets as scoring each reference by
// itself does. The text is in the outcome only if it was asked for.
func TestRanksMatchSingleReferenceScores(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	findings := letters(t, g)
	model := auditstest.Untrained(g, text.Bytes+text.FirstWord)
	inputs := []taskstest.Edge{taskstest.In(FindingsInput, findings)}
	var parts []*taskstest.Node
	for share := range 2 {
		part := g.Run(Kind, Params{Seed: 5, References: 200, Share: share, Shares: 2}, taskstest.In(audits.ModelInput, model), taskstest.In(FindingsInput, findings))
		inputs, parts = append(inputs, taskstest.In(tasks.PartInput(share), part)), append(parts, part)
	}
	for _, show := range []bool{false, true} {
		summary := g.Run(Summary, SummaryParams{Shares: 2, Show: show}, inputs...)
		var v Outcome
		must.Do(t, json.Unmarshal(summary.Blob(audits.OutcomeBlob), &v))
		if shown := strings.Contains(string(summary.Blob(audits.OutcomeBlob)), "4111"); shown != show {
			t.Errorf("the text is shown: %v, asked for: %v", shown, show)
		}
		if !strings.Contains(v.Note(nil), fmt.Sprintf("natural secrets: %d at", v.Found)) || len(v.Secrets) != v.Found {
			t.Errorf("%+v: %s", v, v.Note(nil))
		}
	}
	scorer := must.Get(checkpoints.ReadScorer(t.Context(), g.Task(taskstest.In(audits.ModelInput, model)), audits.ModelInput))(t)
	var list []Finding
	must.Do(t, json.Unmarshal(findings.Blob(FindingsBlob), &list))
	for i := range list {
		checkRank(t, g, model, findings, scorer, i, &list[i])
	}
	taskstest.Golden(t, findings)
	taskstest.Golden(t, parts...)
	taskstest.Golden(t, g.Run(Summary, SummaryParams{Shares: 2}, inputs...))
}

// checkRank compares the rank of a finding with one by brute force.
func checkRank(t *testing.T, g *taskstest.Graph, model, findings *taskstest.Node, scorer *models.Scorer, number int, f *Finding) {
	t.Helper()
	secret := textOf(f.Secret)
	references := newSpace(f.Pattern, secret).references(seeds.Stream(5, seeds.NaturalReferences, uint64(number)), secret, 200)
	tree := scorer.Tabulate().NewTreeScorer()
	state := must.Get(audits.PrefixState(scorer, f.Context))(t)
	cost := func(text string) float64 {
		return must.Get(audits.LogPerplexity(t.Context(), tree, state, tokensOf(text)))(t)
	}
	own, rank := cost(secret), int64(1)
	for _, r := range references {
		if cost(r) <= own {
			rank++
		}
	}
	p := Params{Seed: 5, References: 200}
	got := must.Get(p.rank(t.Context(), g.Task(taskstest.In(audits.ModelInput, model), taskstest.In(FindingsInput, findings)), number, f))(t)
	if got.Rank.Rank != rank || got.Rank.LogPerplexity != own || got.References != 200 {
		t.Errorf("%q: rank %+v among %d, want %d at %v", secret, got.Rank, got.References, rank, own)
	}
}

func TestOnlyTheMostFrequentAreRanked(t *testing.T) {
	t.Parallel()
	set := must.Get(filters.NewPatterns(nil, []string{"[a-z]+"}))(t)
	s := scanner{set: set, known: map[string]*Finding{}}
	for user, text := range []string{"a b b b", "c a"} {
		s.sentence(user, text)
	}
	users := func(f *Finding) int { return f.Users }
	if got := []int{users(s.found[0]), users(s.found[1]), users(s.found[2])}; !slices.Equal(got, []int{2, 1, 1}) || s.found[1].Occurrences != 3 || s.metrics.Occurrences != 6 {
		t.Errorf("found by %v users, %+v", got, s.metrics)
	}
}

func TestDamagedFindingsAreNotRead(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	for _, blob := range []string{`{`, `[{"secret":[]}]`, `[{"secret":[1]}]`, `[{"secret":[10],"context":[999]}]`} {
		task := g.Task(taskstest.In(FindingsInput, g.Put(blob, map[string][]byte{FindingsBlob: []byte(blob)})))
		if _, err := readFindings(t.Context(), task, FindingsInput); err == nil {
			t.Errorf("%s was read", blob)
		}
	}
}

// Of a hundred numbers of two digits a search extracts the one that scoring each of them finds to
// be the most likely, and no other; one node is too few to find any.
func TestASearchExtractsTheLikeliestOfItsForm(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	findings := letters(t, g)
	model := auditstest.Untrained(g, text.Bytes+text.FirstWord)
	task := g.Task(taskstest.In(audits.ModelInput, model), taskstest.In(FindingsInput, findings))
	tables := must.Get(audits.ReadTables(t.Context(), task))(t)
	form := newSpace(filters.SSN, "pin 12")
	likeliest, least := "", math.Inf(1)
	for n := range 100 {
		secret := tokensOf(fmt.Sprintf("pin %02d", n))
		rank := must.Get(randomsampling.RankAmong(t.Context(), tables, tokensOf("my "), secret, [][]int32{secret}))(t)
		if rank.LogPerplexity < least {
			likeliest, least = textOf(secret), rank.LogPerplexity
		}
	}
	other := "pin 00"
	if likeliest == other {
		other = "pin 99"
	}
	for secret, want := range map[string]bool{likeliest: true, other: false} {
		f := Finding{Context: tokensOf("my "), Secret: tokensOf(secret)}
		found := must.Get((&Params{Search: 1000}).search(t.Context(), task, form, &f))(t)
		if found.Extracted != want || found.Expanded < 5 || found.Expanded > 20 {
			t.Errorf("%s, the likeliest is %s: %+v, want extracted %v", secret, likeliest, found, want)
		}
		if cut, err := (&Params{Search: 1}).search(t.Context(), task, form, &f); err != nil || cut.Extracted {
			t.Errorf("%s after one node: %+v, %v", secret, cut, err)
		}
	}
}
