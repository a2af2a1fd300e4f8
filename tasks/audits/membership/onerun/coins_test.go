package onerun

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
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// audited is a population with the coins of a one-run audit in it.
type audited struct {
	before, after *population.Population
	node          *taskstest.Node
	units         []audits.Unit
	metrics       population.PartitionMetrics
}

// bench is a by-user population with some canaries of the usual kind.
type bench struct {
	*taskstest.Graph
	t                 *testing.T
	parts, population *taskstest.Node
}

func newBench(t *testing.T) *bench {
	t.Helper()
	g := taskstest.NewGraph(t)
	parts, balanced := balancedUsers(g)
	drawn := g.Run(canaries.Draw, canaries.DrawParams{
		Seed: 2, Configurations: []canaries.Configuration{{UserProbability: "1/20", ExampleProbability: "1/2"}},
		PerConfiguration: 3, Space: canaries.Space{Words: 5}, HeldBack: 1,
	}, taskstest.In(population.PartsInput, parts))
	inserted := g.Run(canaries.Insert, canaries.InsertParams{Seed: 2},
		taskstest.In(population.BalancedInput, balanced), taskstest.In(canaries.CanariesInput, drawn))
	population := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced), taskstest.In(population.InsertionsInput, inserted))
	return &bench{g, t, parts, population}
}

// balancedUsers runs the tasks of package datasets over random text.
func balancedUsers(g *taskstest.Graph) (parts, balanced *taskstest.Node) {
	rng := rand.New(rand.NewPCG(5, 5))
	var source strings.Builder
	for range 3000 {
		fmt.Fprintf(&source, `{"user":"u%d","text":"`, rng.IntN(20))
		for range 1 + rng.IntN(10) {
			fmt.Fprintf(&source, "w%d ", int(rng.ExpFloat64()*30))
		}
		source.WriteString(`."}` + "\n")
	}
	r := datasets.Recipe{Seed: 5, VocabularySize: 80, TestFraction: 0.2, Words: 40}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(source.String()))}})
	parts = g.Run(datasets.Encode, r.Encode(), taskstest.In(datasets.CorpusInput, corpus))
	return parts, g.Run(population.Balance, r.Balance(), taskstest.In(population.PartsInput, parts))
}

func (b *bench) try(p CoinsParams) (*taskstest.Node, error) {
	b.t.Helper()
	return b.Try(Coins, p, taskstest.In(PopulationInput, b.population), taskstest.In(ShardsInput, b.parts), taskstest.In(population.PartsInput, b.parts))
}

func (b *bench) open(node *taskstest.Node) *population.Population {
	b.t.Helper()
	return must.Get(population.Open(b.t.Context(), b.Task(taskstest.In("p", node), taskstest.In("s", b.parts)), "p", "s"))(b.t)
}

func (b *bench) run(p CoinsParams) audited {
	b.t.Helper()
	node := must.Get(b.try(p))(b.t)
	out := audited{before: b.open(b.population), after: b.open(node), node: node}
	node.DecodeMetrics(&out.metrics)
	must.Do(b.t, json.Unmarshal(node.Blob(audits.UnitsBlob), &out.units))
	return out
}

func (b *bench) sentences(p *population.Population, user int) [][]int32 {
	b.t.Helper()
	return must.Get(p.ReadUser(b.t.Context(), user))(b.t)
}

func replaceUsers(n int) CoinsParams {
	return CoinsParams{Seed: 3, Canaries: n, Space: canaries.Space{Words: 4}, Unit: UserUnit, Neighbouring: privacy.ReplaceOne}
}

// The data of users who are no unit, and of units whose coin says out, stay; a
// unit that is in has nothing but its canary, or has it once, as one record.
func TestCoinsChangeTheirUnitsOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	record := CoinsParams{Seed: 3, Canaries: 40, Space: canaries.Space{Words: 4}, Unit: RecordUnit, Neighbouring: privacy.ReplaceOne}
	remove := replaceUsers(40)
	remove.Neighbouring = privacy.AddOrRemoveOne
	for name, p := range map[string]CoinsParams{"replaced users": replaceUsers(40), "removed users": remove, "records": record} {
		a := b.run(p)
		_, carried, err := audits.ReadUnits(t.Context(), b.Task(taskstest.In("units", a.node)), "units")
		if err != nil {
			t.Fatal(err)
		}
		units := map[int]audits.Unit{}
		for _, u := range a.units {
			units[u.User] = u
		}
		if a.after.Users() != a.before.Users() || a.metrics.Users != a.before.Users() || len(units) != p.Canaries {
			t.Errorf("%s: %d users of %d, %d of them carry %d canaries", name, a.metrics.Users, a.before.Users(), len(units), p.Canaries)
		}
		for user := range a.before.Users() {
			want := b.sentences(a.before, user)
			if u, ok := units[user]; ok {
				want = changed(want, u, p, carried[u.Canary-a.units[0].Canary].Tokens)
			}
			got, words := b.sentences(a.after, user), 0
			for _, s := range got {
				words += text.WordsOf(s)
			}
			if !slices.EqualFunc(got, want, slices.Equal[[]int32]) || words != a.after.Words(user) {
				t.Errorf("%s: user %d (%+v) has %d words in %v, the index says %d; want %v", name, user, units[user], words, got, a.after.Words(user), want)
			}
		}
	}
}

// changed returns a user's sentences after its unit's coin.
func changed(sentences [][]int32, u audits.Unit, p CoinsParams, canary []int32) [][]int32 {
	if !u.Included {
		if p.Neighbouring == privacy.AddOrRemoveOne {
			return nil
		}
		return sentences
	}
	framed := append(append([]int32{text.Begin}, canary...), text.End)
	out := slices.Clone(sentences)
	for i := range out {
		if u.Example < 0 || u.Example == i {
			out[i] = framed
		}
	}
	return out
}

func TestNoUserCarriesTwoCanaries(t *testing.T) {
	t.Parallel()
	a := newBench(t).run(replaceUsers(100))
	carries := map[int]bool{}
	for _, r := range a.before.Replacements() {
		carries[r.User] = true
	}
	if len(carries) == 0 {
		t.Fatal("no user carries a canary of the usual kind: the test shows nothing")
	}
	for _, u := range a.units {
		if carries[u.User] {
			t.Errorf("user %d carries two canaries", u.User)
		}
		carries[u.User] = true
	}
}

// 20 seeds of 100 coins: the number of heads is binomial(2000, 1/2), with a
// standard deviation of 22.4; five of them are missed with probability 6e-7.
// Neighbouring coins are alike as often as not, by the same bound. The carriers
// are uniform: see chi-squared below.
func TestCoinsAreFairAndIndependent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	heads, alike, tossed := 0, 0, 0
	var bins [10]float64
	for seed := range uint64(20) {
		p := replaceUsers(100)
		p.Seed = seed
		a := b.run(p)
		for i, u := range a.units {
			tossed++
			bins[u.User*len(bins)/a.before.Users()]++
			if u.Included {
				heads++
			}
			if u.Included == a.units[(i+1)%len(a.units)].Included {
				alike++
			}
		}
	}
	for what, n := range map[string]int{"heads": heads, "equal neighbours": alike} {
		if n < tossed/2-112 || n > tossed/2+112 {
			t.Errorf("%d %s of %d coins", n, what, tossed)
		}
	}
	// Users with other canaries, about a seventh, cannot carry these; the bins
	// therefore differ a little, and drawing without replacement evens them out.
	// With 9 degrees of freedom chi-squared exceeds 48 with probability 3e-7.
	chi, expected := 0.0, float64(tossed)/float64(len(bins))
	for _, n := range bins {
		chi += (n - expected) * (n - expected) / expected
	}
	if chi > 48 {
		t.Errorf("chi-squared %.1f over tenths of the users: %v", chi, bins)
	}
}

// Which record of a user is replaced does not follow from the draw of the user: over 2,000 units
// the correlation of both exceeds 0.11 with probability below 1e-6.
func TestPlacesAreIndependentOfUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var users, places []float64
	for seed := range uint64(20) {
		p := replaceUsers(100)
		p.Seed, p.Unit = seed, RecordUnit
		a := b.run(p)
		for _, u := range a.units {
			users = append(users, float64(u.User))
			places = append(places, float64(u.Example)/float64(a.before.Examples(u.User)))
		}
	}
	if r := correlation(users, places); math.Abs(r) > 0.11 {
		t.Errorf("users and places have correlation %.3f over %d units", r, len(users))
	}
}

// correlation is Pearson's.
func correlation(x, y []float64) float64 {
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
		sxx, syy, sxy = sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
}

// The draws of units, coins and records are those of docs/random-streams.md.
func TestDrawsFollowDocumentedStreams(t *testing.T) {
	t.Parallel()
	p := replaceUsers(40)
	p.Unit = RecordUnit
	a := newBench(t).run(p)
	coins, places := seeds.Stream(p.Seed, seeds.OneRunCoins), seeds.Stream(p.Seed, seeds.OneRunUnits, 1)
	holders, users := map[int]bool{}, []int{}
	for _, r := range a.before.Replacements() {
		holders[r.User] = true
	}
	for user := range a.before.Users() {
		if !holders[user] {
			users = append(users, user)
		}
	}
	carriers := seeds.Stream(p.Seed, seeds.OneRunUnits)
	for i, u := range a.units {
		j := i + carriers.IntN(len(users)-i)
		users[i], users[j] = users[j], users[i]
		if u.User != users[i] {
			t.Errorf("unit %d is user %d, want %d", i, u.User, users[i])
		}
		if included, place := coins.Uint64()&1 == 1, places.IntN(a.before.Examples(u.User)); u.Included != included || u.Example != place {
			t.Errorf("unit %d: record %d of user %d, included %v; want record %d, %v", i, u.Example, u.User, u.Included, place, included)
		}
	}
}

func TestUsersAndCoinsDoNotDependOnTheLengthOfCanaries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	short, long := replaceUsers(30), replaceUsers(30)
	long.Words = 9
	if x, y := b.run(short).units, b.run(long).units; !slices.Equal(x, y) {
		t.Errorf("units %v with 4 words, %v with 9", x, y)
	}
	if x, y := b.run(short).units, b.run(replaceUsers(60)).units; !slices.Equal(x, y[:30]) {
		t.Errorf("units %v alone, %v as the first of more", x, y[:30])
	}
}

func TestCoinsRejectBadParameters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, change := range map[string]func(*CoinsParams){
		"of 0 canaries":                  func(p *CoinsParams) { p.Canaries = 0 },
		"canaries of 21 words":           func(p *CoinsParams) { p.Words = 21 },
		"alphabet digits for a vocabula": func(p *CoinsParams) { p.Alphabet = canaries.Digits },
		"canaries of 0 words; expected ": func(p *CoinsParams) { p.Words = 0 },
		`unit "house"; expected "user"`:  func(p *CoinsParams) { p.Unit = "house" },
		`neighbouring "far"; expected`:   func(p *CoinsParams) { p.Neighbouring = "far" },
		"under replace-one alone; got a": func(p *CoinsParams) { p.Unit, p.Neighbouring = RecordUnit, privacy.AddOrRemoveOne },
		"needs as many users without":    func(p *CoinsParams) { p.Canaries = 1000 },
		"at most half of the 80 sequenc": func(p *CoinsParams) { p.Canaries, p.Words = 41, 1 },
	} {
		p := replaceUsers(10)
		change(&p)
		if _, err := b.try(p); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestGoldenCoins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	remove := replaceUsers(12)
	remove.Neighbouring = privacy.AddOrRemoveOne
	record := replaceUsers(12)
	record.Unit = RecordUnit
	var nodes []*taskstest.Node
	for _, p := range []CoinsParams{replaceUsers(12), remove, record} {
		nodes = append(nodes, b.run(p).node)
	}
	taskstest.Golden(t, append(nodes, imageNodes(t)...)...)
}
