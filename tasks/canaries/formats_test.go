package canaries

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// times are configurations with chosen numbers of insertions.
func times(numbers ...int) []Configuration {
	var all []Configuration
	for _, n := range numbers {
		all = append(all, Configuration{Times: n})
	}
	return all
}

func TestFormatsAreContiguousAndFirstIsIndependent(t *testing.T) {
	t.Parallel()
	pin, hex := Space{Words: 9, Alphabet: Digits, Format: "pin #####"}, Space{Words: 6, Alphabet: Listed, Symbols: "0123456789abcdef"}
	p := DrawParams{Seed: 3, Configurations: times(1, 2), PerConfiguration: 2, Space: pin, HeldBack: 1}
	v := &text.Vocabulary{Words: byteVocabulary()}
	alone := drawn(t, &p, v)
	p.More = []Space{hex}
	both := drawn(t, &p, v)
	for i, c := range both {
		space, n := p.Spaces()[i/5], i%5
		if c.Number != i || c.HeldBack != (n == 4) || len(c.Tokens) != space.Words || c.Format != space.String() {
			t.Errorf("canary %d: %+v", i, c)
		}
		if want := []int{1, 1, 2, 2, 0}[n]; c.InsertedTimes != want {
			t.Errorf("canary %d is inserted %d times, want %d", i, c.InsertedTimes, want)
		}
		if i < 5 && !slices.Equal(c.Tokens, alone[i].Tokens) {
			t.Errorf("canary %d is another beside a second format", i)
		}
		if i >= 5 && strings.Trim(strings.Join(c.Words, ""), "0123456789abcdef") != "" {
			t.Errorf("canary %q has other symbols than those listed", c.Words)
		}
	}
}

func TestFormatsThatOverlapShareNoCanary(t *testing.T) {
	t.Parallel()
	p := DrawParams{
		Configurations: times(1), PerConfiguration: 40, Space: Space{Words: 2, Alphabet: Digits},
		More: []Space{{Words: 2, Alphabet: Listed, Symbols: "0123456789"}},
	}
	seen := map[string]bool{}
	for _, c := range drawn(t, &p, &text.Vocabulary{Words: byteVocabulary()}) {
		seen[fmt.Sprint(c.Tokens)] = true
	}
	if len(seen) != 80 {
		t.Errorf("%d different canaries of 80", len(seen))
	}
}

func TestWordFormatFixesNamedWords(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	for _, symbols := range []string{"", "w7 w3 w12 w5"} {
		space := Space{Words: 5, Format: "w1 w2 # w9 #", Symbols: symbols}
		node := must.Get(draw(t, g, 60, DrawParams{Seed: 2, Configurations: grid[:1], PerConfiguration: 5, Space: space, HeldBack: 2}))(t)
		choices := must.Get(ReadChoices(t.Context(), g.Task(taskstest.In(CanariesInput, node)), CanariesInput, space, 60))(t)
		for _, c := range canariesOf(t, node) {
			if c.Words[0] != "w1" || c.Words[1] != "w2" || c.Words[3] != "w9" {
				t.Errorf("canary %q does not follow the format", c.Words)
			}
			if symbols != "" && !slices.Contains(strings.Fields(symbols), c.Words[2]) {
				t.Errorf("canary %q has a word that is not listed", c.Words)
			}
			for i, token := range c.Tokens {
				if !slices.Contains(choices[i], token) {
					t.Errorf("token %d of %v is not among the choices", token, c.Tokens)
				}
			}
		}
		if n := float64(len(choices[2]) * len(choices[4])); n != space.Sequences(60, 0) {
			t.Errorf("%v sequences by the choices, %v by the space", n, space.Sequences(60, 0))
		}
	}
}

func TestWordsThatTheVocabularyLacksAreNamed(t *testing.T) {
	t.Parallel()
	_, err := draw(t, taskstest.NewGraph(t), 60, DrawParams{
		Configurations: grid[:1], PerConfiguration: 2, Space: Space{Words: 4, Format: "w1 lasagne # tofu"},
	})
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "have words that the vocabulary of 60 lacks: lasagne, tofu; use other words") {
		t.Errorf("got %v", err)
	}
}

func TestListedSymbolsAreChecked(t *testing.T) {
	t.Parallel()
	for want, space := range map[string]Space{
		"alphabet listed without symbols":                   {Words: 5, Alphabet: Listed},
		`symbols "ab" beside the alphabet digits`:           {Words: 5, Alphabet: Digits, Symbols: "ab"},
		`one symbol, "a"; expected at least two`:            {Words: 5, Alphabet: Listed, Symbols: "a"},
		`symbol "a" is listed twice`:                        {Words: 5, Alphabet: Listed, Symbols: "aba"},
		`have the byte 0x`:                                  {Words: 5, Alphabet: Listed, Symbols: "aé"},
		"canaries \"5 words over digits\" are asked for tw": {Words: 5, Alphabet: Digits},
	} {
		p := DrawParams{Configurations: grid[:1], PerConfiguration: 1, Space: space, More: []Space{{Words: 5, Alphabet: Digits}}}
		if _, err := drawBytes(t, p); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", space, err, want)
		}
	}
}

func TestDamagedSpacesAreNotRead(t *testing.T) {
	t.Parallel()
	g, space := taskstest.NewGraph(t), Space{Words: 2, Format: "w1 #"}
	for name, blob := range map[string][]Resolved{
		"another space":     {{Space: Space{Words: 2, Format: "w2 #"}, Fixed: []int32{5, AnySymbol}}},
		"too short":         {{Space: space, Fixed: []int32{5}}},
		"a token too large": {{Space: space, Fixed: []int32{5, AnySymbol}, Random: []int32{5, 99}}},
		"a special token":   {{Space: space, Fixed: []int32{1, AnySymbol}}},
	} {
		data := must.Get(json.Marshal(blob))(t)
		task := g.Task(taskstest.In(CanariesInput, g.Put(name, map[string][]byte{SpacesBlob: data})))
		if _, err := ReadChoices(t.Context(), task, CanariesInput, space, 60); err == nil || !strings.Contains(err.Error(), storage.ErrCorrupt.Error()) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAChosenNumberOfInsertionsIsExact(t *testing.T) {
	t.Parallel()
	p := DrawParams{Seed: 5, Configurations: times(1, 3, 200), PerConfiguration: 3, Space: Space{Words: 5}, HeldBack: 2}
	in := insert(t, taskstest.NewGraph(t), p)
	for i, c := range in.list {
		users := map[int]bool{}
		for _, r := range in.overlay {
			if r.Canary == i {
				users[r.User] = true
			}
		}
		if c.Insertions != c.InsertedTimes || c.Users != len(users) || c.Holders != len(users) {
			t.Errorf("canary %d has %d copies at %d users, recorded as %d; want %d copies at %d", i, c.Insertions, c.Holders, c.Users, c.InsertedTimes, len(users))
		}
	}
	if in.metrics.ReplacedExamples != 3*(1+3+200) || in.metrics.Collisions != 0 || in.metrics.NeverInserted != 0 {
		t.Errorf("metrics %+v", in.metrics)
	}
}

// 300 canaries go into 40 of the examples each. Pearson's statistic over 20 equal bins of
// the examples has at most 19 degrees of freedom, since places are drawn without
// replacement, and exceeds 56 with probability below 2e-5.
func TestChosenPlacesAreUniform(t *testing.T) {
	t.Parallel()
	const bins, canaries, each = 20, 300, 40
	var users []population.Extent
	for u := range 1000 {
		users = append(users, population.Extent{Examples: 1 + u%39})
	}
	index := new(population.Index).WithExtents(users)
	list := make([]population.Placement, canaries)
	for i := range list {
		list[i].Canary = population.Canary{Number: i, InsertedTimes: each}
	}
	chosen := must.Get(choosePlaces(7, list, index))(t)
	if alone := must.Get(choosePlaces(7, list[1:2], index))(t); alone[0].User == chosen[0].User && alone[0].Example == chosen[0].Example {
		t.Error("two canaries draw their places from one stream")
	}
	first, total := make([]int, len(index.Extents)), 0
	for u, x := range index.Extents {
		first[u], total = total, total+x.Examples
	}
	var counts [bins]float64
	for _, r := range chosen {
		if r.Example >= index.Extents[r.User].Examples {
			t.Fatalf("user %d has no example %d", r.User, r.Example)
		}
		counts[(first[r.User]+r.Example)*bins/total]++
	}
	statistic, expected := 0.0, float64(canaries*each)/bins
	for _, n := range counts {
		statistic += (n - expected) * (n - expected) / expected
	}
	if statistic > 56 {
		t.Errorf("chi-squared %.1f of %v", statistic, counts)
	}
}

func TestMoreInsertionsThanExamplesAreRejected(t *testing.T) {
	t.Parallel()
	index := new(population.Index).WithExtents([]population.Extent{{Examples: 3}, {Examples: 2}})
	list := []population.Placement{{Canary: population.Canary{InsertedTimes: 5}}, {Canary: population.Canary{Number: 1, InsertedTimes: 1}}}
	if _, err := choosePlaces(1, list, index); err == nil || !strings.Contains(err.Error(), "inserted 6 times in all, and the balanced users have 5 examples") {
		t.Errorf("got %v", err)
	}
	chosen, err := choosePlaces(1, list[:1], index)
	if chosen.Sort(); err != nil || len(chosen) != 5 || chosen[4] != (population.Replacement{User: 1, Example: 1}) {
		t.Errorf("five copies in five examples stand at %v (%v)", chosen, err)
	}
}

func TestConfigurationsCompareByInsertionCount(t *testing.T) {
	t.Parallel()
	if !slices.IsSortedFunc(times(1, 2, 4, 10_000), Configuration.Compare) || times(2)[0].Compare(times(2)[0]) != 0 {
		t.Error("numbers of insertion are not in their order")
	}
}

func TestDrawRejectsMixedConfigurations(t *testing.T) {
	t.Parallel()
	both := Configuration{UserProbability: "1/5", ExampleProbability: "1", Times: 2}
	for want, list := range map[string][]Configuration{
		`inserted 2 times and by the probabilities "1/5", "1"`: {both},
		"configurations (2 times) and (1/50, 1/100) together":  {times(2)[0], grid[0]},
		"configuration (2 times) is given twice":               times(2, 2),
		"is inserted -1 times":                                 times(-1),
	} {
		_, err := draw(t, taskstest.NewGraph(t), 100, DrawParams{Configurations: list, PerConfiguration: 1, Space: Space{Words: 5}})
		if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The secret of a pair stands in both texts, or in the target alone.
func TestCanaryPairsHoldOneSecret(t *testing.T) {
	t.Parallel()
	both := Space{Words: len("pin ##-#") + 1 + len("## und #"), Alphabet: Digits, Format: "pin ##-#", Target: "## und #"}
	alone := Space{Words: len("my pin?") + 1 + len("## und #"), Alphabet: Digits, Format: "my pin?", Target: "## und #"}
	node := must.Get(drawBytes(t, DrawParams{Seed: 1, Configurations: grid[:2], PerConfiguration: 20, Space: both, HeldBack: 9, More: []Space{alone}}))(t)
	want := map[string]*regexp.Regexp{
		both.String():  regexp.MustCompile(`^pin \d\d-\d<end>\d\d und \d$`),
		alone.String(): regexp.MustCompile(`^my pin\?<end>\d\d und \d$`),
	}
	for _, c := range canariesOf(t, node) {
		content := strings.Join(c.Words, "")
		if !want[c.Format].MatchString(content) {
			t.Errorf("canary %q of %q", content, c.Format)
		}
		if source, target, _ := strings.Cut(content, "<end>"); c.Format == both.String() && digitsOf(source) != digitsOf(target) {
			t.Errorf("canary %q has two secrets", content)
		}
		if c.Tokens[both.SourceWords()-1] != text.Separator && c.Tokens[alone.SourceWords()-1] != text.Separator {
			t.Errorf("canary %q: the separator is not where the source ends", content)
		}
	}
	if !both.Echoes() || alone.Echoes() || both.Sequences(text.Bytes, 0) != 1000 || alone.Sequences(text.Bytes, 0) != 1000 {
		t.Errorf("echoes %v and %v, %v and %v sequences", both.Echoes(), alone.Echoes(), both.Sequences(text.Bytes, 0), alone.Sequences(text.Bytes, 0))
	}
	if both.DefaultPrefix() != len("pin ") || alone.DefaultPrefix() != alone.SourceWords() || alone.SourceWords() != len("my pin?")+1 {
		t.Errorf("prefixes %d and %d", both.DefaultPrefix(), alone.DefaultPrefix())
	}
}

func digitsOf(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, text)
}

func TestAPairOfWordsResolvesItsSeparator(t *testing.T) {
	t.Parallel()
	v := &text.Vocabulary{Words: []string{"<pad>", "<unk>", "<begin>", "<end>", "one", "two", "my", "pin", "mein"}}
	s := Space{Words: 8, Format: "my pin # #", Target: "mein # #", Symbols: "one two"}
	if named := s.Named(); !slices.Equal(named, []string{"mein", "my", "one", "pin", "two"}) {
		t.Errorf("named words %q", named)
	}
	r := must.Get(s.Resolve(v))(t)
	if !slices.Equal(r.Fixed, []int32{6, 7, -1, -1, 3, 8, -1, -1}) || !r.fits(5) {
		t.Errorf("fixed %v", r.Fixed)
	}
	tokens := []int32{4, 5, 3, 8, 0, 0}
	s.CompletePair(tokens, 2)
	if !slices.Equal(tokens, []int32{4, 5, 3, 8, 4, 5}) {
		t.Errorf("echoed %v", tokens)
	}
}

func TestPairsThatDoNotMatchAreRejected(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Space{
		`has 2 random symbols and its target "c #" has 1`: {Words: 8, Alphabet: Digits, Format: "a ##", Target: "c #"},
		`has 1 random symbols and its target "c" has 0`:   {Words: 5, Alphabet: Digits, Format: "a #", Target: "c"},
		"without the format of a source":                  {Words: 3, Alphabet: Digits, Target: "c #"},
		"expected as many, at least one of them":          {Words: 4, Alphabet: Digits, Format: "a#", Target: "c#"},
	} {
		if err := s.Check(text.Bytes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", s, err, want)
		}
	}
}
