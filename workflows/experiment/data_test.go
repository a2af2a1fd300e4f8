package experiment

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets"
)

// plenty fits every experiment of these tests.
var plenty = Facts{
	Files: []storage.Digest{storage.DigestOf([]byte("text"))}, Users: 392_000, Examples: 93_000_000,
	DistinctWords: 500_000, TestExamples: 16_000_000,
}

func factsFor(s *Spec, f Facts) []Facts {
	facts := make([]Facts, len(s.Cells))
	for i := range facts {
		facts[i] = f
	}
	return facts
}

func TestEpochsBecomeRounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets []string
		want int
	}{
		{[]string{"training.epochs=100", "training.cohort=5000"}, 7840}, // Thakkar et al. 2020, section 4.2
		{[]string{"training.epochs=10", "training.cohort=5000"}, 784},
		{[]string{"training.epochs=1", "training.cohort=3"}, 130_667},                              // rounded up
		{[]string{"training.epochs=0.1", "training.cohort=392"}, 100},                              // exactly a tenth
		{[]string{"training.epochs=1", "training.cohort=32", "training.algorithm=sgd"}, 2_906_250}, // by examples
		{[]string{"training.epochs=1e-6", "training.cohort=5000", "training.algorithm=fedavg"}, 1}, // at least one
		{[]string{"training.epochs=null", "training.rounds=8000", "training.cohort=5000"}, 8000},   // as given
	} {
		spec := parse(t, minimal, append([]string{"training.rounds=null"}, c.sets...)...)
		must.Do(t, spec.Resolve(factsFor(spec, plenty)))
		if e := spec.Cells[0].Experiment; e.Training.Rounds != c.want || e.Data.SHA256 != plenty.Files[0].String() {
			t.Errorf("%v: got %d rounds of %s, want %d", c.sets, e.Training.Rounds, e.Data.SHA256, c.want)
		}
	}
}

func TestDataMismatchesAreReportedInPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sets  []string
		facts func(*Facts)
		want  string
	}{
		"cohort above the population": {
			nil, func(f *Facts) { f.Users = 49 },
			"x.yaml:3:20: training.cohort: is 50; expected at most 49, the balanced users of a.jsonl",
		},
		"minibatch above the examples": {
			[]string{"training.algorithm=sgd"}, func(f *Facts) { f.Examples = 49 },
			"x.yaml:3:20: training.cohort: is 50; expected at most 49, the training examples of a.jsonl",
		},
		"vocabulary above the words": {
			nil, func(f *Facts) { f.DistinctWords = 9_999 },
			"x.yaml:2:7: data.vocabulary.size: is 10000; expected at most 9999, the distinct words in the training part of a.jsonl",
		},
		"a vocabulary above the words, of which others are selected": {
			[]string{"data.level=byte", "data.select.words.outside=500", "data.vocabulary=null"}, func(f *Facts) { f.DistinctWords = 499 },
			"data.select.words.outside: is 500; expected at most 499, the distinct words in the training part of a.jsonl",
		},
		"nobody who uses a word that is selected": {
			[]string{"data.level=byte", "data.select.words.outside=500", "data.users.words=0"}, func(f *Facts) { f.Users = 0 },
			"data.select.words.outside: is 500, which leaves no training data: no user of a.jsonl uses a less frequent word; expected less",
		},
		"nobody large enough": {
			nil, func(f *Facts) { f.Users = 0 },
			"x.yaml:2:7: data.users.words: is 2000, but every user of a.jsonl has fewer words; expected a smaller number (0 sets no minimum)",
		},
		"empty test part": {
			[]string{"audit={}"}, func(f *Facts) { f.TestExamples = 0 },
			"x.yaml:2:7: data.test.fraction: is 10%, which leaves the test part of a.jsonl empty; raise it, or set audit.utility to false",
		},
		"words that the vocabulary lacks": {
			[]string{`canaries={format: "a # tofu", user_probability: 1/300, example_probability: 1}`}, func(f *Facts) { f.MissingWords = []string{"tofu"} },
			"canaries.format: needs words that the vocabulary of 10000 lacks: tofu; use words that are frequent in the training part of a.jsonl, or a larger data.vocabulary.size",
		},
		"more copies than examples": {
			[]string{"canaries={insertions: [10, 90], per_configuration: 2, formats: [{words: 5}, {words: 6}]}"}, func(f *Facts) { f.Examples = 399 },
			"canaries.insertions: make 400 copies in total; expected at most 399, the training examples of a.jsonl: use smaller numbers, or fewer canaries",
		},
		"changed source": {
			[]string{"data.sha256=" + strings.Repeat("cd", 32)}, func(*Facts) {},
			": restore the data, or correct the field",
		},
		"a budget below one round": {
			[]string{"training.privacy={clip: 1, noise_multiplier: 0.1, delta: 1e-7, budget: {epsilon: 0.5}}"}, func(*Facts) {},
			"training.privacy.budget: does not allow a single round, which costs epsilon_proved 253 at delta 1e-07; expected a larger epsilon, more noise or a smaller cohort",
		},
		"secret randomness without a key": {
			[]string{"training.privacy={clip: 1, noise_multiplier: 1, delta: 1e-7, randomness: secret}"}, func(*Facts) {},
			"is secret, but no key is given: name a key file with --secret-key or COALMINE_SECRET_KEY_FILE; a missing file is created",
		},
		"another key": {
			[]string{"training.privacy={clip: 1, noise_multiplier: 1, delta: 1e-7, randomness: secret, key: " + strings.Repeat("ab", 16) + "}"},
			func(f *Facts) { f.Key = strings.Repeat("cd", 16) },
			"but the given key is " + strings.Repeat("cd", 16) + "; restore the key in its file, name its file with --secret-key, or correct the field",
		},
		"too many rounds": {
			[]string{"training={rounds: null, epochs: 1000000}"}, func(*Facts) {},
			"which gives 7840000000 rounds; expected rounds from 1 to 1000000000",
		},
		"warm-up as long as the training": {
			[]string{"training={rounds: null, epochs: 0.1, client: {schedule: {kind: cosine, warm_up: 784}}}"}, func(*Facts) {},
			"784 steps with a warm-up of 784: want at least 2 after the warm-up, the first at the full rate and the last at the floor; the training has 784 rounds",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, facts := parse(t, minimal, c.sets...), plenty
			before := spec.Digest()
			c.facts(&facts)
			err := spec.Resolve(factsFor(spec, facts))
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			if spec.Digest() != before {
				t.Error("the spec changed although it does not fit")
			}
		})
	}
}

func TestRecordedSpecErrorHasNoFilePosition(t *testing.T) {
	t.Parallel()
	spec := must.Get(ReadSpec(parse(t, minimal).Canonical()))(t)
	facts := plenty
	facts.Users = 3
	err := spec.Resolve(factsFor(spec, facts))
	if want := "x: training.cohort: is 50; expected at most 3, the balanced users of a.jsonl"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestCanariesThatReplaceManyExamplesWarn(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]int{"canaries={insertions: 39, per_configuration: 100}": 0, "canaries={insertions: 40, per_configuration: 100}": 1} {
		spec, facts := parse(t, minimal, sets), plenty
		facts.Examples = 392_000
		must.Do(t, spec.Resolve(factsFor(spec, facts)))
		if got := spec.Cells[0].Warnings(); len(got) != want {
			t.Errorf("%s: got %q, want %d warnings", sets, got, want)
		}
	}
}

// Of the formats that the data have sequences of, those are named of which a canary may be one.
func TestFormatsPresentInDataWarn(t *testing.T) {
	t.Parallel()
	spec, facts := parse(t, minimal, "data.level=byte", `canaries={insertions: 1, per_configuration: 5, held_back: 5, formats: [{format: "pin ##", alphabet: digits}, {format: "no #####", alphabet: digits}]}`), plenty
	facts.Phrases = []int{30, 5}
	must.Do(t, spec.Resolve(factsFor(spec, facts)))
	got, want := spec.Cells[0].Warnings(), `a.jsonl already has 30 of the 100 sequences "pin ## over digits", among them about 3 of the 10 canaries of this format`
	if len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("got %q, want one that begins with %s", got, want)
	}
}

func TestSimilarUserNamesWarn(t *testing.T) {
	t.Parallel()
	spec, facts := parse(t, minimal), plenty
	facts.Similar = datasets.SimilarUsers{Names: 1, Name: "cafe\u0301", Other: "caf\u00e9"}
	must.Do(t, spec.Resolve(factsFor(spec, facts)))
	got, want := spec.Cells[0].Warnings(), `a.jsonl has 1 user name that`
	if len(got) != 1 || !strings.HasPrefix(got[0], want) || !strings.Contains(got[0], `"cafe\u0301" and "caf\u00e9"`) {
		t.Errorf("got %q, want one that begins with %s", got, want)
	}
}

// The experiment drops fields that insertions and formats replace, so that its record is
// one that a file gives.
func TestFormatsAndInsertionsReplaceOtherFields(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "canaries={user_probability: 1/9, example_probability: 1, words: 4}",
		"grid={axes: {canaries: [{insertions: [1, 4], formats: [{format: 'a # c'}, {words: 3}]}]}}")
	want := `"canaries":{"formats":[{"words":1,"format":"a # c"},{"words":3}],"per_configuration":10,"insertions":[1,4],"held_back":10}`
	if got := string(spec.Cells[0].Experiment.Canonical()); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	must.Do(t, spec.Resolve(factsFor(spec, plenty)))
	read := must.Get(ReadSpec(spec.Canonical()))(t)
	if err := read.Check(); err != nil {
		t.Error(err)
	}
}

func TestDoubtfulCanariesWarn(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{
		"{user_probability: [1/5000, 3/50000, 1/50000], example_probability: [1%, 10%, 100%]}": 0, // the paper's
		"{user_probability: 1/900, example_probability: 100%}":                                 1,
		"{user_probability: 1/50, example_probability: 1/1000}":                                1,
		"{user_probability: 1/50, example_probability: 100%}":                                  2,
	} {
		if got := parse(t, minimal, "canaries="+config).Cells[0].Warnings(); len(got) != want {
			t.Errorf("%s: got %q, want %d warnings", config, got, want)
		}
	}
}

// Few users and small probabilities leave no canary in the data.
func TestCanariesThatProbablyNobodyGetsWarn(t *testing.T) {
	t.Parallel()
	for probability, want := range map[string]bool{"1/100000": true, "1/5": false} {
		spec := parse(t, minimal, "canaries={per_configuration: 2, user_probability: "+probability+", example_probability: 100%}")
		few := plenty
		few.Users, few.Examples = 100, 1000
		must.Do(t, spec.Resolve(factsFor(spec, few)))
		got := strings.Join(spec.Cells[0].Warnings(), "\n")
		if strings.Contains(got, "probably no user (of 100) gets one") != want {
			t.Errorf("%s of %d users: %s", probability, few.Users, got)
		}
	}
}

// 100 users have 10 examples each. A canary that replaces all examples of its users is carried by its share of
// them, and copies are of as many users as drawing their places often finds.
func TestCarriersAreTheUsersWithACanary(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{
		"{per_configuration: 1, user_probability: 20%, example_probability: 100%}":        20,
		"{per_configuration: 2, user_probability: 50%, example_probability: 100%}":        75,
		"{per_configuration: 1, user_probability: [10%, 1/2], example_probability: 100%}": 55,
		"{per_configuration: 1, user_probability: 1, example_probability: 10%}":           65, // 1 - 0.9^10
		"{per_configuration: 4, insertions: [1, 4, 20]}":                                  65, // 100 of 1000 examples
		"{per_configuration: 1, insertions: [1]}":                                         1,
	} {
		e := parse(t, minimal, "canaries="+config).Cells[0].Experiment
		if got := e.Canaries.carriers(100, 1000); got != want {
			t.Errorf("%s: %d users carry a canary, want %d", config, got, want)
		}
	}
}

func TestUnfillableBatchWarns(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]bool{
		"training={algorithm: fedavg, cohort: 5, rounds: 3, client: {batch: 4}}":    true,
		"training={algorithm: fedavg, cohort: 5, rounds: 3, client: {batch: 1}}":    false,
		"training={algorithm: sgd, cohort: 5, rounds: 3, client: {optimizer: sgd}}": false,
	} {
		spec, facts := parse(t, minimal, sets), plenty
		facts.Sizes = map[int]int{1: 5, 8: 5}
		must.Do(t, spec.Resolve(factsFor(spec, facts)))
		got := strings.Join(spec.Cells[0].Warnings(), "\n")
		if strings.Contains(got, "5 of 10 clients have fewer examples") != want {
			t.Errorf("%s: warnings %q", sets, got)
		}
	}
}

// Canary clients of audit.one_shot join the 479 users that cohorts are drawn from.
func TestPowerlessAuditIsJudgedByThePopulationOfTheTraining(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "training={cohort: 100, rounds: 30, sampling: poisson, privacy: {clip: 20, noise_multiplier: 0.86, delta: 1e-5}}", "audit={one_run: {canaries: 400, guesses: {k_plus: 120, k_minus: 120}}, one_shot: {canaries: 200}}")
	facts := plenty
	facts.Users = 479
	must.Do(t, spec.Resolve(factsFor(spec, facts)))
	proved := must.Get(spec.Cells[0].Privacy())(t).EpsilonProved
	want := "audit.one_run is powerless against the proved epsilon of " + proved.String() + ":"
	if got := strings.Join(spec.Cells[0].Warnings(), "\n"); !strings.Contains(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}
}
