package datasets

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// selecting is a recipe of the words outside of a vocabulary.
func selecting(seed uint64, outside Outside, sequence, words int) Recipe {
	return Recipe{
		Seed: seed, Reading: source.Reading{Level: text.ByteLevel, Sequence: sequence}, Outside: outside,
		TestFraction: 0.2, ValidationFraction: 0.1, TrainShare: 0.8, Words: words,
	}
}

// outsideByHand are the words outside of the vocabulary by part and user, from the source
// and the definition alone.
func outsideByHand(lines []line, r Recipe) map[population.Part]map[string][]string {
	clean, faulty := make([][]string, len(lines)), make([][]string, len(lines))
	hit := make([]bool, len(lines))
	if len(r.Faults) > 0 {
		hit = drawn(&r.Faults[0], r.Seed, 0, lines)
	}
	coins := newPartCoins(r.Seed, r.TestFraction, r.ValidationFraction, r.TrainShare)
	parts := make([]partNumber, len(lines))
	counts := map[string]int{}
	for i, l := range lines {
		parts[i] = coins.next()
		clean[i] = text.Tokenize(l.Text)
		if faulty[i] = clean[i]; hit[i] && len(clean[i]) > 1 {
			faulty[i] = append([]string{clean[i][0] + " " + clean[i][1]}, clean[i][2:]...)
		}
		clean[i] = clean[i][:min(len(clean[i]), r.Outside.Sequence)]
		for _, w := range clean[i] {
			if parts[i] == train || parts[i] == unused {
				counts[w]++
			}
		}
	}
	var ranked []string
	for w := range counts {
		ranked = append(ranked, w)
	}
	slices.SortFunc(ranked, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	found := map[population.Part]map[string][]string{population.Train: {}, population.Test: {}, population.Validation: {}}
	for i, l := range lines {
		for _, w := range faulty[i][:min(len(faulty[i]), r.Outside.Sequence)] {
			if parts[i] != unused && !slices.Contains(ranked[:r.Outside.Size], w) {
				part := population.Parts[parts[i]]
				found[part][l.User] = append(found[part][l.User], w[:min(len(w), r.Reading.Sequence)])
			}
		}
	}
	return found
}

func TestWordsOutsideOfTheVocabularyBecomeExamples(t *testing.T) {
	t.Parallel()
	lines := faultyLines(300)
	for _, list := range [][]faults.Planted{nil, {{Fault: faults.JoinWords, Examples: 0.3}}} {
		r := selecting(4, Outside{Size: 30, Sequence: 12}, 5, 0)
		r.Faults = list
		p := runPipeline(t, jsonLines(lines), r)
		var names []string
		must.Do(t, json.Unmarshal(p.corpus.Blob(UsersBlob), &names))
		want := outsideByHand(lines, r)
		for _, part := range population.Parts {
			got := map[string][]string{}
			for u, sentences := range partSentences(t, p, part) {
				for _, s := range sentences {
					got[names[u]] = append(got[names[u]], bytesOf(t, s))
				}
			}
			if !reflect.DeepEqual(got, want[part]) || len(got) == 0 {
				t.Errorf("%v, %s: got %v, want %v", list, part, got, want[part])
			}
		}
		var m EncodeMetrics
		p.parts.DecodeMetrics(&m)
		if m.Train.Users != len(want[population.Train]) {
			t.Errorf("%d users have words to train on, %d were counted", len(want[population.Train]), m.Train.Users)
		}
		var b population.BalanceMetrics
		p.balanced.DecodeMetrics(&b)
		if b.Balanced.Users != len(want[population.Train]) {
			t.Errorf("%d users are selected, %d train", len(want[population.Train]), b.Balanced.Users)
		}
	}
}

func TestSurveyMatchesTasksForSelectedWords(t *testing.T) {
	t.Parallel()
	data := jsonLines(faultyLines(400))
	var recipes []Recipe
	for i := range 12 {
		r := selecting(uint64(i%4), Outside{Size: 20 + 10*i}, 3*i, 7*(i%3))
		if r.HeldOutUsers = 0.2; i%2 == 1 {
			r.Faults = []faults.Planted{{Fault: faults.JoinWords, Examples: 0.5}, {Fault: faults.Latin1, Users: 0.5}}
		}
		plain := smallRecipe
		plain.Seed = uint64(i)
		recipes = append(recipes, r, plain)
	}
	for name, memory := range map[string]surveyMemory{"kept": {kept: 1 << 30}, "read again": {states: 1}} {
		facts := must.Get(survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, recipes, memory))(t)
		for i, r := range recipes {
			if want := factsOf(t, runPipeline(t, data, r), r); !reflect.DeepEqual(facts[i], want) {
				t.Errorf("%s, %+v: surveyed %+v, the tasks found %+v", name, r, facts[i], want)
			}
		}
	}
}

func TestPlacedWordsMatchTheirExamples(t *testing.T) {
	t.Parallel()
	lines := faultyLines(120)
	r := selecting(4, Outside{Size: 30, Sequence: 12}, 50, 0)
	p := runPipeline(t, jsonLines(lines), r)
	params := r.OutOfVocabulary()
	task := p.Task(taskstest.In(CorpusInput, p.corpus), taskstest.In(VocabularyInput, p.vocabulary), taskstest.In(population.PartsInput, p.parts))
	got, left := map[population.Part]int{}, 0
	err := EachPlacedWord(t.Context(), task, &params, func(x PlacedExample) error {
		if x.Part == population.Unused {
			left++
			return nil
		}
		got[x.Part]++
		if w := bytesOf(t, x.Sentence); !slices.Contains(text.Tokenize(lines[x.Example].Text), w) {
			return fmt.Errorf("example %d has no word %q", x.Example, w)
		}
		return nil
	})
	want := map[population.Part]int{}
	for part, users := range outsideByHand(lines, r) {
		for _, words := range users {
			want[part] += len(words)
		}
	}
	if err != nil || !reflect.DeepEqual(got, want) || left == 0 {
		t.Errorf("%v; %v words are placed, want %v; %d are unused", err, got, want, left)
	}
}

func TestWordsThatCannotBeSelectedAreRejected(t *testing.T) {
	t.Parallel()
	data := jsonLines(randomLines(rand.New(rand.NewPCG(4, 4)), 20))
	p := runPipeline(t, data, Recipe{VocabularySize: 5, Words: 1})
	bytes := p.Run(Import, ImportParams{Sources: []storage.Digest{p.Import(data)}, Reading: source.Reading{Level: text.ByteLevel}})
	for want, c := range map[string]struct {
		params OutOfVocabularyParams
		corpus *taskstest.Node
	}{
		"was imported at the byte level; expected words": {OutOfVocabularyParams{}, bytes},
		"sequences of 1001 words; expected 1 to 1000":    {OutOfVocabularyParams{Sequence: 1001}, p.corpus},
		"test fraction is 1; expected at least 0":        {OutOfVocabularyParams{TestFraction: 1}, p.corpus},
	} {
		_, err := p.Try(OutOfVocabulary, c.params, taskstest.In(CorpusInput, c.corpus), taskstest.In(VocabularyInput, p.parts))
		if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", c.params, err, want)
		}
	}
	r := selecting(1, Outside{Size: 5}, 0, 1)
	r.Level = text.WordLevel
	if _, err := Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, []Recipe{r}); err == nil {
		t.Error("words are selected at the word level")
	}
}

func TestGoldenOutOfVocabulary(t *testing.T) {
	t.Parallel()
	taskstest.Golden(t, runPipeline(t, jsonLines(faultyLines(200)), selecting(4, Outside{Size: 30}, 0, 0)).parts)
}
