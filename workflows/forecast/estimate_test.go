package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/audits/canaries/natural"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/plantest"
)

func TestLoadSecondsAddUp(t *testing.T) {
	t.Parallel()
	l := Load{Training: 3e12, Sentences: 4e12, Scoring: 2e12, Attacks: 1e12, Bytes: 5e8, Overhead: 3, Preparation: 5, Program: 7}
	want := ((3e12+4e12)/TrainingEfficiency+2e12/ScoringEfficiency+1e12/AttackEfficiency)/100e9 + 2 + 3 + 5 + 7 + TaskSeconds
	if got := l.Seconds(100); math.Abs(got-want) > 1e-9*want {
		t.Errorf("%g s, want %g", got, want)
	}
}

// A part reads the checkpoint, base and factors, and writes a sum of factors.
func TestAdapterPartWritesOnlySum(t *testing.T) {
	t.Parallel()
	const file = `
name: adapters
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}}
model: {kind: transformer, embedding: 4, units: 5, layers: 2, heads: 1, context: 20, adapters: {rank: 3}}
training: {rounds: 3, cohort: 6, chunks: 2, engine: pytorch}
audit: {utility: true}
`
	digest := storage.DigestOf(plantest.Text())
	spec, p := plantest.Resolve(t, file, []storage.Digest{digest}), plantest.Compiled(t, file, digest)
	s := &submission.Submission{Spec: spec, TokensPerExample: []float64{10}, TokensPerUser: []float64{100}, TrainTokens: []float64{1000}, TestTokens: []float64{50}}
	factors := 2 * 2 * (4*3 + 3*4)
	base := 24*4 + 20*4 + 2*(4*4+4*12+12+4*4+4+4*5+5+5*4+4) + 2*4 + 24
	for _, step := range LoadsOf(s, p, func(int) *Speed { return nil }).steps {
		if got := step.part.Bytes; got != float64(4*(base+2*factors)) {
			t.Errorf("a part moves %g bytes, want those of %d parameters and a sum of %d", got, base+factors, factors)
		}
	}
}

// Coins are laid out before the training and guessed after it, by a search for the least noise: the work
// is that of the guesses.
func TestOneRunAuditWorkIsGuessing(t *testing.T) {
	t.Parallel()
	const file = `
name: coins
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}}
model: {embedding: 4, units: 4}
training: {rounds: 3, cohort: 5, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3}}
audit: {one_run: {canaries: 20, trade_off: true}}
`
	digest := storage.DigestOf(plantest.Text())
	spec, p := plantest.Resolve(t, file, []storage.Digest{digest}), plantest.Compiled(t, file, digest)
	s := &submission.Submission{Spec: spec}
	for _, of := range []*[]float64{&s.TokensPerExample, &s.TokensPerUser, &s.TrainTokens, &s.TestTokens} {
		*of = []float64{1}
	}
	loads, found := LoadsOf(s, p, nil), map[string]float64{}
	for key, n := range p.Nodes {
		found[n.Kind] += loads.nodes[key].Attacks
	}
	if planted, guessed := found[onerun.Coins.Name], found[onerun.Bound.Name]; planted != 0 || guessed < 1e11 {
		t.Errorf("laying out takes %g FLOP and guessing %g", planted, guessed)
	}
}

// Users whose data a coin removes train nothing, and those whose data it replaces by canaries train on as many words
// as these have.
func TestCoinsReduceTrainingData(t *testing.T) {
	t.Parallel()
	const users, perUser = 100, 200
	step := func(sampling, audit string, canaries, words int) Load {
		file := fmt.Sprintf(`
name: coins
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 200}}
model: {embedding: 4, units: 4}
training: {rounds: 3, cohort: 5, sampling: %s, client: {learning_rate: 1}, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3}}
audit: {one_run: {canaries: %d, %s}}
`, sampling, canaries, audit)
		if words > 0 {
			file = strings.Replace(file, "one_run: {", fmt.Sprintf("one_run: {words: %d, ", words), 1)
		}
		spec := must.Get(experiment.Parse("coins.yaml", []byte(file), experiment.Options{}))(t)
		s := &submission.Submission{
			Spec: spec, TokensPerExample: []float64{20}, TokensPerUser: []float64{perUser},
			TrainTokens: []float64{users * perUser}, TestTokens: []float64{10},
		}
		c := newCosting(s, 0, must.Get(networkOf(&spec.Cells[0].Experiment))(t))
		return c.step(1, 0).join
	}
	none := step("poisson", "canaries_of: update", 60, 0)
	if removed := step("poisson", "delta: 1e-3", 60, 19); math.Abs(removed.Training/none.Training-0.7) > 1e-9 || removed.Overhead >= none.Overhead {
		t.Errorf("%+v with 30 of 100 users removed, %+v with all", removed, none)
	}
	fixed := step("fixed-size", "delta: 1e-3", 60, 19).Training
	if short := step("fixed-size", "delta: 1e-3", 60, 9).Training; math.Abs(fixed/none.Training-1) > 1e-9 || math.Abs(short/fixed-0.85) > 1e-9 {
		t.Errorf("%g FLOP with canaries of half the words in 30 of 100 users, %g with those of all, %g without", short, fixed, none.Training)
	}
}

// A projected update takes the time of the values of its projected layers, in the rounds that are recorded.
func TestProjectionTimeFollowsRecordedRounds(t *testing.T) {
	t.Parallel()
	seconds := func(record string) float64 {
		file := fmt.Sprintf(`
name: projected
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}, devices: {prior: random, size: 50%%}}
model: {embedding: 40, units: 40}
training: {rounds: 8, cohort: 5, client: {learning_rate: 1}, record: %s}
audit: {deanonymization: {attacks: [cosine]}}
`, record)
		spec := must.Get(experiment.Parse("projected.yaml", []byte(file), experiment.Options{}))(t)
		e := &spec.Cells[0].Experiment
		c := costing{experiment: e, model: must.Get(networkOf(e))(t), tokens: 10, perUser: 100}
		return c.step(1, 0).join.Overhead
	}
	none, all, half := seconds("{}"), seconds("{project: 64}"), seconds("{project: 64, every: 2}")
	if whole := seconds("{project: 1000000}"); whole != none {
		t.Errorf("%g s with layers shorter than their projection, %g s without one", whole, none)
	}
	if all <= none || math.Abs((all-none)-2*(half-none)) > 1e-9*all {
		t.Errorf("%g s with updates of all rounds projected, %g s with those of half, %g s with none", all, half, none)
	}
}

// Trainings that are shorter than a step of a chain have a cost: each of those of many_runs that of the cell.
func TestShortTrainingsOfAnAuditAreCounted(t *testing.T) {
	t.Parallel()
	const file = `
name: many
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}}
model: {embedding: 4, units: 4}
training: {algorithm: sgd, rounds: 5, cohort: 4, sampling: shuffled, client: {learning_rate: 1}, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3}}
audit: {many_runs: {runs: 40, canaries_of: gradient}, utility: false}
`
	digest := storage.DigestOf(plantest.Text())
	spec, p := plantest.Resolve(t, file, []storage.Digest{digest}), plantest.Compiled(t, file, digest)
	s := &submission.Submission{Spec: spec}
	for _, of := range []*[]float64{&s.TokensPerExample, &s.TokensPerUser, &s.TrainTokens, &s.TestTokens} {
		*of = []float64{10}
	}
	loads, trainings, flop := LoadsOf(s, p, nil), 0, 0.0
	for key, n := range p.Nodes {
		if n.Kind == training.DPSGD.Name {
			trainings++
			flop += loads.nodes[key].Training
		}
	}
	model := must.Get(networkOf(&spec.Cells[0].Experiment))(t)
	one := 5 * 4 * 10 * model.TrainingFLOPs() * 4 / 3
	if trainings < 41 || math.Abs(flop-float64(trainings)*one) > 1e-6*flop {
		t.Errorf("%d trainings take %g FLOP, want %g each", trainings, flop, one)
	}
	x := explain(t, storage.NewArchive(storagetest.NewMemory()), p)
	if got := CostOf(s, p, x).TrainingFLOP; math.Abs(got-flop) > 1e-6*flop {
		t.Errorf("the plan takes %g FLOP to train, want %g", got, flop)
	}
}

// Trainings of the prepare block, and scoring by their models, have the cost of these models. The server of a gan also
// trains its generator.
func TestPreparedModelsAndGeneratorsHaveTheirOwnCost(t *testing.T) {
	t.Parallel()
	const images = `
name: prepared
data: {source: digits.jsonl, level: image}
prepare: {classifier: {steps: 7, batch: 4, learning_rate: 0.1}}
model: {kind: gan, penalty: 0}
training: {rounds: 3, cohort: 5, client: {batch: 8}, generator: {steps: 6, batch: 3}}
audit: {generated_images: {count: 10}}
grid: {axes: {data.select: [{examples: misclassified}]}}
`
	const texts = `
name: prepared
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}, select: {examples: unlikely, percentile: 50%}}
prepare: {language_model: {steps: 7, batch: 4}, second_language_model: {steps: 9, batch: 2}}
model: {embedding: 4, units: 4}
training: {rounds: 3, cohort: 5, client: {learning_rate: 1}}
audit: {utility: true}
`
	const example, user, all = 10, 40, 1000
	for _, file := range []string{images, strings.Replace(images, "grid:", "# grid:", 1), texts} {
		digest := storage.DigestOf(plantest.Text())
		spec, p := plantest.Resolve(t, file, []storage.Digest{digest}), plantest.Compiled(t, file, digest)
		s := &submission.Submission{Spec: spec, TokensPerExample: []float64{example}, TokensPerUser: []float64{user}, TrainTokens: []float64{all}, TestTokens: []float64{1}}
		e := &spec.Cells[0].Experiment
		model, prepared := must.Get(networkOf(e))(t), 0.0
		clients := 5 * user * model.TrainingFLOPs()
		round, scored := clients, all*model.ScoringFLOPs()
		if gan, generates := model.(models.Generating); generates {
			classifier := must.Get(networkOf(e.Prepare.Classifier.ExperimentFor(e)))(t)
			round += 6 * 3 * gan.GeneratorFLOPs()
			prepared, scored = 7*4*example*classifier.TrainingFLOPs(), all*classifier.ScoringFLOPs()
		} else {
			prepared = (7*4 + 9*2) * example * model.TrainingFLOPs()
		}
		loads := LoadsOf(s, p, nil)
		for key, n := range p.Nodes {
			if load := loads.nodes[key]; (n.Kind == selection.Predictions.Name || n.Kind == training.Losses.Name) && load.Scoring+load.Sentences != scored {
				t.Errorf("%s takes %g FLOP, want %g", n.Label, load.Scoring+load.Sentences, scored)
			}
		}
		chain := loads.steps[p.Cells[0].Chain.Recipe]
		width := float64(p.Cells[0].Chain.Width)
		if got := width*chain.part.Training + chain.join.Training; math.Abs(got-round) > 1e-6*round || chain.join.Training != round-clients {
			t.Errorf("a round takes %g FLOP, of which the server %g; want %g and %g", got, chain.join.Training, round, round-clients)
		}
		x := explain(t, storage.NewArchive(storagetest.NewMemory()), p)
		if got, want := CostOf(s, p, x).TrainingFLOP, 3*round+prepared; math.Abs(got-want) > 1e-6*want {
			t.Errorf("the plan takes %g FLOP to train, want %g", got, want)
		}
	}
}

// A scan of the training text does not rank its findings: the ranking tasks share the work.
func TestNaturalScanHasNoScoringLoad(t *testing.T) {
	t.Parallel()
	const file = `
name: natural
data: {source: text.jsonl, level: byte, users: {words: 20}}
model: {embedding: 4, units: 4}
training: {rounds: 3, cohort: 5, client: {learning_rate: 1}}
audit: {natural: {}}
`
	digest := storage.DigestOf(plantest.Text())
	spec, p := plantest.Resolve(t, file, []storage.Digest{digest}), plantest.Compiled(t, file, digest)
	s := &submission.Submission{Spec: spec, TokensPerExample: []float64{1}, TokensPerUser: []float64{1}, TrainTokens: []float64{1}, TestTokens: []float64{1}}
	loads, scores := LoadsOf(s, p, nil), map[string][]float64{}
	for key, n := range p.Nodes {
		scores[n.Kind] = append(scores[n.Kind], loads.nodes[key].Scoring)
	}
	shares := scores[natural.Kind.Name]
	if len(shares) == 0 || slices.Min(shares) == 0 || slices.Min(shares) != slices.Max(shares) || scores[natural.Scan.Name][0] != 0 || scores[natural.Summary.Name][0] != 0 {
		t.Errorf("scoring by kind: %v; want equal shares of %s, and nothing else", scores, natural.Kind.Name)
	}
}

// A selection of a known share of the examples leaves users this share of their tokens.
func TestSelectionScalesTrainingTokens(t *testing.T) {
	t.Parallel()
	const example, user = 10, 400
	tokens := func(choice string) float64 {
		file := fmt.Sprintf(`
name: selected
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}, select: {%s}}
prepare: {language_model: {steps: 7}}
model: {embedding: 4, units: 4}
training: {rounds: 3, cohort: 5, client: {learning_rate: 1}}
audit: {utility: true}
`, choice)
		if !strings.Contains(choice, "unlikely") {
			file = strings.Replace(file, "prepare:", "# prepare:", 1)
		}
		spec := must.Get(experiment.Parse("selected.yaml", []byte(file), experiment.Options{}))(t)
		s := &submission.Submission{Spec: spec, TokensPerExample: []float64{example}, TokensPerUser: []float64{user}, TrainTokens: []float64{1e5}, TestTokens: []float64{1}}
		return newCosting(s, 0, must.Get(networkOf(&spec.Cells[0].Experiment))(t)).perUser
	}
	for choice, want := range map[string]float64{
		"examples: unlikely, percentile: 90%, at_least: 1": 40,
		"examples: unlikely, percentile: 99%, at_least: 2": 20,
		"examples: unlikely, above: 1":                     400,
		"examples: random, share: 25%":                     100,
		"examples: random, per_user: 3":                    30,
		"examples: random, per_user: 99":                   400,
	} {
		if got := tokens(choice); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: a user trains on %g tokens, want %g", choice, got, want)
		}
	}
}

// More units, clients or records take longer, in operations and beside them, and operations never take less
// than at the peak of the core.
func TestStepTimeGrowsWithUnitsClientsAndRecords(t *testing.T) {
	t.Parallel()
	const peak = 200
	step := func(training string, units, cohort int, perUser float64) Load {
		file := fmt.Sprintf(`
name: step
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}}
model: {embedding: 4, units: %d}
training: {rounds: 2, cohort: %d, %s}
audit: {utility: true}
`, units, cohort, training)
		spec := must.Get(experiment.Parse("step.yaml", []byte(file), experiment.Options{}))(t)
		e := &spec.Cells[0].Experiment
		c := costing{experiment: e, model: must.Get(networkOf(e))(t), tokens: 10, perUser: perUser}
		load := c.step(1, 0).join
		operations := Load{Training: load.Training}.Seconds(peak) - TaskSeconds
		if least := load.Training / (peak * 1e9); least == 0 || operations < least || load.Seconds(peak) <= operations+load.Overhead {
			t.Errorf("%s, %d units, cohort %d: operations take %g s of %g s, want at least %g s at the peak", training, units, cohort, operations, load.Seconds(peak), least)
		}
		return load
	}
	longer := func(a, b Load) bool { return a.Training > b.Training && a.Overhead > b.Overhead }
	for training, central := range map[string]bool{
		"client: {learning_rate: 1}":                 false,
		"algorithm: sgd, client: {learning_rate: 1}": true,
		"algorithm: sgd, client: {learning_rate: 1}, privacy: {noise_multiplier: 1, clip: 1, delta: 1e-3}": true,
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 30 {
			units, cohort, perUser := 1+rng.IntN(300), 1+rng.IntN(500), float64(10+rng.IntN(5000))
			base := step(training, units, cohort, perUser)
			if more := step(training, units+1+rng.IntN(50), cohort, perUser); !longer(more, base) {
				t.Errorf("%s: %+v with more than %d units, %+v with these", training, more, units, base)
			}
			if more := step(training, units, cohort+1, perUser); !longer(more, base) {
				t.Errorf("%s: %+v with more than a cohort of %d, %+v with it", training, more, cohort, base)
			}
			if more := step(training, units, cohort, perUser+10); !central && !longer(more, base) {
				t.Errorf("%s: %+v with a record more than %g tokens of a user, %+v with these", training, more, perUser, base)
			}
		}
	}
}

// Scoring takes longer with more states, tokens and units, and in a tree of sequences than in whole sentences.
func TestScoringTimeGrowsWithStatesAndModelSize(t *testing.T) {
	t.Parallel()
	seconds := func(kind string, layers, vocabulary int, states float64, sentences bool) float64 {
		file := fmt.Sprintf(`
name: scoring
data: {source: text.jsonl, vocabulary: {size: %d}, users: {words: 20}}
model: {kind: %s, embedding: 8, layers: %d}
training: {rounds: 2, cohort: 2, client: {learning_rate: 1}, engine: %s}
audit: {utility: true}
`, vocabulary, kind, layers, map[bool]string{true: "pytorch", false: "native"}[kind == "transformer"])
		spec := must.Get(experiment.Parse("scoring.yaml", []byte(file), experiment.Options{}))(t)
		e := &spec.Cells[0].Experiment
		c := costing{experiment: e, model: must.Get(networkOf(e))(t)}
		load := c.scoring(states, sentences)
		if operations := load.Sentences + load.Scoring; operations != states*c.model.ScoringFLOPs() {
			t.Errorf("%s: %g operations of %g states", kind, operations, states)
		}
		return load.Seconds(200)
	}
	for _, kind := range []string{"lstm", "gru", "transformer"} {
		base := seconds(kind, 1, 50, 1000, true)
		for what, more := range map[string]float64{
			"layers": seconds(kind, 2, 50, 1000, true), "tokens": seconds(kind, 1, 500, 1000, true),
			"states": seconds(kind, 1, 50, 2000, true), "a tree": seconds(kind, 1, 50, 1000, false),
		} {
			if more <= base {
				t.Errorf("%s: %g s with more %s, %g without", kind, more, what, base)
			}
		}
	}
}
