package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

const preparedFile = `
name: prepared
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}, partition: iid, test: {fraction: 10%%}, share: %d%%}
canaries: {per_configuration: 2, user_probability: 1/20, example_probability: 1}
model: {embedding: 4, units: 4}
training: {rounds: %d, cohort: 6, chunks: 2, client: {learning_rate: 1}}
audit: {utility: true}
grid: {replicates: 2}
`

// prepared returns the plan of preparedFile, and the submission of a source with a number of words.
func prepared(t *testing.T, share, rounds, words int) (*submission.Submission, *plan.Plan) {
	t.Helper()
	file, digest := fmt.Sprintf(preparedFile, share, rounds), storage.DigestOf(plantest.Text())
	s := &submission.Submission{
		Spec: plantest.Resolve(t, file, []storage.Digest{digest}),
		Read: map[submission.Reading]population.Counts{{First: digest, Level: text.WordLevel}: {Users: 5, Examples: words / 10, Words: words}},
	}
	for _, of := range []*[]float64{&s.TokensPerExample, &s.TokensPerUser, &s.TrainTokens, &s.TestTokens} {
		*of = []float64{10, 10}
	}
	return s, plantest.Compiled(t, file, digest)
}

// preparation returns the seconds of the preparation of data, by kind.
func preparation(s *submission.Submission, p *plan.Plan) map[string]float64 {
	loads, seconds := LoadsOf(s, p, nil), map[string]float64{}
	for key, n := range p.Nodes {
		if load := loads.nodes[key].Preparation; load > 0 {
			seconds[n.Kind] += load
		}
	}
	return seconds
}

// Each task of the preparation takes a time, which grows in proportion to the source. A smaller share of the
// source shortens the tasks after the encoding, and no other.
func TestPreparationGrowsWithData(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		words := 1000 * (1 + rng.IntN(1000))
		once, twice, half := preparation(prepared(t, 100, 3, words)), preparation(prepared(t, 100, 3, 2*words)), preparation(prepared(t, 50, 3, words))
		for _, kind := range []string{"datasets/import", "datasets/encode", "datasets/balance", "datasets/partition", "canaries/insert"} {
			if once[kind] <= 0 || math.Abs(twice[kind]-2*once[kind]) > 1e-9*once[kind] {
				t.Errorf("%s takes %g s for %d words and %g for twice as many", kind, once[kind], words, twice[kind])
			}
			want := once[kind] / 2
			if kind == datasets.Import.Name || kind == datasets.Encode.Name {
				want = once[kind]
			}
			if math.Abs(half[kind]-want) > 1e-9*want {
				t.Errorf("%s takes %g s for half of the data, want %g", kind, half[kind], want)
			}
		}
	}
}

// A source is imported once for all cells, and every level takes its own time for a token.
func TestEveryLevelHasReadingRate(t *testing.T) {
	t.Parallel()
	for _, level := range text.Levels() {
		file := storage.DigestOf([]byte(level.Level))
		p := preparing{read: map[submission.Reading]population.Counts{{First: file, Level: level.Level}: {Examples: 2, Words: 1000}}}
		params := fmt.Sprintf(`{"sources":[%q],"level":%q}`, file, level.Level)
		n := &plan.Node{}
		n.Kind, n.Params = datasets.Import.Name, []byte(params)
		if got, want := p.seconds(n), 1000*readToken[level.Level]; got != want || got <= 0 {
			t.Errorf("%s: %g s, want %g", level.Level, got, want)
		}
	}
	s, p := prepared(t, 100, 3, 1000)
	if got, want := preparation(s, p)[datasets.Import.Name], 1000*readToken[text.WordLevel]; math.Abs(got-want) > 1e-12 {
		t.Errorf("the import for two cells takes %g s, want %g", got, want)
	}
}

// The time of a plan is the sum of the times of its tasks: on one core, the sum is the time; on two, the cores
// are at work for as long. More rounds, and more words, take longer.
func TestTimeIsSumOfTasks(t *testing.T) {
	t.Parallel()
	const peak = 1e-3 // GFLOP/s, so that the arithmetic of small models counts
	busy := func(rounds, words, cores int) float64 {
		s, p := prepared(t, 100, rounds, words)
		loads, sum := LoadsOf(s, p, nil), 0.0
		x := explain(t, storage.NewArchive(storagetest.NewMemory()), p)
		found := must.Get(Cluster{Cores: cores, Registry: compile.Registry(), Seconds: func(task *graph.Task) float64 {
			seconds := loads.Of(task).Seconds(peak)
			sum += seconds
			return seconds
		}}.Run(p, x))(t)
		if got := found.Time.Seconds() * found.Busy * float64(cores); math.Abs(got-sum) > 1e-3*sum {
			t.Errorf("%d rounds on %d cores: busy for %g s, and the tasks take %g", rounds, cores, got, sum)
		}
		if cores == 1 && math.Abs(found.Time.Seconds()-sum) > 1e-3*sum {
			t.Errorf("%d rounds on one core: %v, and the tasks take %g s", rounds, found.Time, sum)
		}
		return sum
	}
	one := busy(3, 10_000, 1)
	if two := busy(3, 10_000, 2); math.Abs(one-two) > 1e-9*one {
		t.Errorf("the tasks take %g s on one core, %g on two", one, two)
	}
	if more := busy(4, 10_000, 1); more <= one {
		t.Errorf("%g s with a round more, %g without", more, one)
	}
	if more := busy(3, 20_000, 1); more <= one {
		t.Errorf("%g s with more words, %g with fewer", more, one)
	}
}
