package datasets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// timedLine is a record with a time, and its place in the source as its text.
type timedLine struct {
	user, example int
	at            float64
}

func randomTimes(rng *rand.Rand, n int) (lines []timedLine, source []byte) {
	var out strings.Builder
	for i := range n {
		l := timedLine{rng.IntN(4), i, float64(rng.IntN(n)) - float64(n/2)}
		lines = append(lines, l)
		fmt.Fprintf(&out, `{"user":"u%d","text":"%d","time":%g}`+"\n", l.user, i, l.at)
	}
	return lines, []byte(out.String())
}

// Users' examples follow their time, those of equal times the source, and every example is in
// the part that it is in without times.
func TestExamplesFollowTheirTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		lines, src := randomTimes(rand.New(rand.NewPCG(seed, 0)), 200)
		recipe := Recipe{Seed: seed, Reading: source.Reading{Level: text.ByteLevel}, TestFraction: 0.2, ValidationFraction: 0.1}
		parts := examplesByPart(t, src, recipe)
		recipe.Timed = true
		for part, found := range examplesByPart(t, src, recipe) {
			want := slices.Clone(parts[part])
			slices.SortStableFunc(want, func(a, b int) int {
				return cmp.Or(cmp.Compare(lines[a].user, lines[b].user), cmp.Compare(lines[a].at, lines[b].at))
			})
			slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(lines[a].user, lines[b].user) })
			if !slices.Equal(found, want) {
				t.Errorf("seed %d: the part %s has the examples %v, want %v", seed, part, found, want)
			}
		}
	}
}

// examplesByPart are the places in the source, which the texts hold, of each part's examples.
func examplesByPart(t *testing.T, source []byte, r Recipe) map[population.Part][]int {
	t.Helper()
	p := runPipeline(t, source, r)
	params := r.Encode()
	found := map[population.Part][]int{}
	must.Do(t, EachPlaced(t.Context(), p.Task(taskstest.In(CorpusInput, p.corpus), taskstest.In(population.PartsInput, p.parts)), params, func(x PlacedExample) error {
		var content []byte
		for _, token := range x.Sentence[1 : 1+text.WordsOf(x.Sentence)] {
			content = append(content, byte(token-text.FirstWord))
		}
		if string(content) != fmt.Sprint(x.Example) {
			t.Errorf("example %d of the source is %s in the part %s", x.Example, content, x.Part)
		}
		found[x.Part] = append(found[x.Part], x.Example)
		return nil
	}))
	return found
}

func TestTimeKeysAreOrderedAsNumbers(t *testing.T) {
	t.Parallel()
	numbers := []float64{-math.MaxFloat64, -1e9, -1, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 1, 1e9, math.MaxFloat64}
	if !slices.IsSortedFunc(numbers, func(a, b float64) int { return cmp.Compare(timeKey(a), timeKey(b)) }) {
		t.Error("keys are not in the order of the numbers")
	}
	if timeKey(math.Copysign(0, -1)) != timeKey(0) {
		t.Error("there are two zeros")
	}
}

// A line without a time is named where times are wanted, by the survey and by the import.
func TestALineWithoutATimeIsNamed(t *testing.T) {
	t.Parallel()
	src := []byte(`{"user":"a","text":"x","time":1}` + "\n" + `{"user":"a","text":"y"}` + "\n")
	recipe := Recipe{Reading: source.Reading{Level: text.ByteLevel, Timed: true}}
	_, err := Survey(t.Context(), []source.File{fileOf("s.jsonl", src)}, source.Limits{}, []Recipe{recipe})
	const want = `s.jsonl, line 2: "time" is missing; expected {"user": "…", "text": "…"} on every line (and "time"`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the survey says %v, want %s", err, want)
	}
	g := taskstest.NewGraph(t)
	params := recipe.Import([]storage.Digest{g.Import(src)}, source.Limits{})
	if _, err := g.Try(Import, params); err == nil || !strings.Contains(err.Error(), `line 2: "time" is missing`) {
		t.Errorf("the import says %v", err)
	}
}

func TestSurveyMatchesTasksForTimes(t *testing.T) {
	t.Parallel()
	_, src := randomTimes(rand.New(rand.NewPCG(3, 0)), 300)
	recipe := Recipe{Seed: 4, Reading: source.Reading{Level: text.ByteLevel, Timed: true}, TestFraction: 0.1, HeldOutUsers: 0.3, Members: true}
	facts := must.Get(Survey(t.Context(), []source.File{fileOf("s", src)}, source.Limits{}, []Recipe{recipe}))(t)
	p := runPipeline(t, src, recipe)
	var balance population.BalanceMetrics
	p.balanced.DecodeMetrics(&balance)
	if !reflect.DeepEqual(facts[0].Balance, balance) {
		t.Errorf("the survey has %+v, the task %+v", facts[0].Balance, balance)
	}
	recipe.Words = 10
	_, err := Survey(t.Context(), []source.File{fileOf("s", src)}, source.Limits{}, []Recipe{recipe})
	must.Say(t, err, "balanced users of 10 words")
}

// Members are those of the population, in its order.
func TestMembersAreTheUsersThatTrain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		src := jsonLines(randomLines(rng, 300))
		recipe := Recipe{Seed: seed, VocabularySize: 20, TestFraction: 0.2, Words: []int{0, 70}[seed%2], HeldOutUsers: 0.3 * float64(rng.IntN(2)), Members: true}
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("s", src)}, source.Limits{}, []Recipe{recipe}))(t)
		p := runPipeline(t, src, recipe)
		population := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
		names := userNames(t, p, population)
		if len(facts[0].Members) != population.Users() {
			t.Fatalf("seed %d: %d members of %d users", seed, len(facts[0].Members), population.Users())
		}
		for user, m := range facts[0].Members {
			if m.Examples != population.Examples(user) || m.Name != names[user] {
				t.Errorf("seed %d: member %d is %+v, and user %s has %d examples", seed, user, m, names[user], population.Examples(user))
			}
		}
	}
}

// userNames are those of a by-user population, by where their examples stand.
func userNames(t *testing.T, p pipeline, pop *population.Population) []string {
	t.Helper()
	index := must.Get(population.DecodeIndex(p.parts.Blob(population.IndexBlob(population.Train))))(t)
	var all, names []string
	must.Do(t, json.Unmarshal(p.corpus.Blob(UsersBlob), &all))
	for _, e := range pop.Index().Extents {
		owner := slices.IndexFunc(index.Extents, func(o population.Extent) bool { return o.Offset <= e.Offset && e.Offset < o.Offset+o.Length })
		names = append(names, all[owner])
	}
	return names
}
