package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// linesOfSplits are lines of random users and texts, of which some are of each split; "extra" is
// one that nobody wants.
func linesOfSplits(seed uint64, examples int) []byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	var out bytes.Buffer
	for _, line := range randomLines(rng, examples) {
		split := []string{"train", "train", "train", "test", "heldout", "extra"}[rng.IntN(6)]
		fmt.Fprintf(&out, `{"user":%q,"text":%q,"subset":%q}`+"\n", line.User, line.Text, split)
	}
	return out.Bytes()
}

func bySubset(test, validation string) source.Reading {
	return source.Reading{Origin: source.Origin{Columns: forms.Columns{Split: "subset"}, TestSplit: test, ValidationSplit: validation}}
}

// TestSurveyMatchesTasksForSplits compares every number, with parts that are splits, that
// are drawn, and one of each.
func TestSurveyMatchesTasksForSplits(t *testing.T) {
	t.Parallel()
	data := linesOfSplits(1, 600)
	for i, r := range []Recipe{
		{Seed: 1, Reading: bySubset("test", "heldout"), VocabularySize: 30, Words: 50},
		{Seed: 2, Reading: bySubset("test", ""), VocabularySize: 30, ValidationFraction: 0.2, TrainShare: 0.7, HeldOutUsers: 0.2},
		{Seed: 3, Reading: bySubset("", "heldout"), VocabularySize: 30, TestFraction: 0.3, Words: 20},
		{Seed: 4, Reading: bySubset("", ""), VocabularySize: 30, TestFraction: 0.3, Words: 20},
		{Seed: 5, Reading: source.Reading{Level: text.ByteLevel, Origin: bySubset("test", "heldout").Origin}, Outside: Outside{Size: 10}},
	} {
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, []Recipe{r}))(t)
		facts[0].VocabularyWords = 0
		if want := runPipeline(t, data, r).facts(); !reflect.DeepEqual(facts[0], want) {
			t.Errorf("recipe %d: surveyed %+v, the tasks found %+v", i, facts[0], want)
		}
	}
}

func TestSplitsAreThePartsOfTheirExamples(t *testing.T) {
	t.Parallel()
	data := `{"user":"ann","text":"one one","subset":"train"}
{"user":"bob","text":"two","subset":"test"}
{"user":"ann","text":"three one","subset":"heldout"}
{"user":"cid","text":"four","subset":"extra"}
{"user":"ann","text":"one two","subset":"train"}
`
	r := Recipe{Reading: bySubset("test", "heldout"), VocabularySize: 2}
	g := taskstest.NewGraph(t)
	corpus := g.Run(Import, r.Import([]storage.Digest{g.Import([]byte(data))}, source.Limits{}))
	if got := corpus.Blob(SplitsBlob); !bytes.Equal(got, []byte{0, 1, 1, 1, 2, 1, 0, 1}) {
		t.Errorf("splits are %v", got)
	}
	parts := g.Run(Encode, r.Encode(), taskstest.In(CorpusInput, corpus))
	var m EncodeMetrics
	parts.DecodeMetrics(&m)
	want := EncodeMetrics{
		Train: population.Counts{Users: 1, Examples: 2, Words: 4}, Test: population.Counts{Users: 1, Examples: 1, Words: 1}, Validation: population.Counts{Users: 1, Examples: 1, Words: 2},
		DistinctWords: 2,
	}
	if m != want {
		t.Errorf("got %+v, want %+v", m, want)
	}
	if got := string(corpus.Blob(UsersBlob)); got != `["ann","bob"]` {
		t.Errorf("users %s; who is in no split that is read is none", got)
	}
}

// TestSplitsUseSameCoins draws a validation part from the training split:
// every example takes its coins, in any split.
func TestSplitsUseSameCoins(t *testing.T) {
	t.Parallel()
	coins, plain := newPartCoins(9, 0, 0.3, 0), newPartCoins(9, 0, 0.3, 0)
	for i := range 1000 {
		split := []partNumber{train, test}[i%2]
		if got, drawn := coins.next().within(split), plain.next(); split == train && got != drawn || split == test && got != test {
			t.Fatalf("example %d of split %d: %d, drawn %d", i, split, got, drawn)
		}
	}
}

func TestDamagedSplitsOfACorpusAreFound(t *testing.T) {
	t.Parallel()
	r := Recipe{Reading: bySubset("test", ""), VocabularySize: 1}
	for _, splits := range [][]byte{{}, {0, 1}, {0, 9}, {3, 2}, {0}, {0, 0xff}} {
		g := taskstest.NewGraph(t)
		plain := g.Run(Import, ImportParams{Sources: []storage.Digest{g.Import([]byte(annAndBob))}})
		blobs := map[string][]byte{SplitsBlob: splits}
		for _, name := range []string{population.ShardBlob(population.Corpus, 0), CorpusIndexBlob, DictionaryBlob, UsersBlob} {
			blobs[name] = plain.Blob(name)
		}
		if _, err := g.Try(Encode, r.Encode(), taskstest.In(CorpusInput, g.Put("corpus", blobs))); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("splits %v: got %v", splits, err)
		}
	}
}

// leafUsers is LEAF's JSON of users with a text each.
func leafUsers(users ...string) []byte {
	var data []string
	for _, u := range users {
		data = append(data, fmt.Sprintf(`%q:{"x":["to b"],"y":["e"]}`, u))
	}
	return []byte(`{"users":[],"user_data":{` + strings.Join(data, ",") + `}}`)
}

func TestFilesMayBeOfOneSplitEach(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][3][]byte{
		"LEAF":       {leafUsers("a", "b"), leafUsers("a"), leafUsers("c")},
		"JSON lines": {[]byte(annAndBob), []byte(`{"user":"a","text":"to be"}`), []byte(`{"user":"c","text":"to be"}`)},
	} {
		r := Recipe{Reading: source.Reading{Origin: source.Origin{TestSplit: "test"}}, VocabularySize: 1}
		files := []source.File{fileOf("a", data[0]), fileOf("b", data[1]), fileOf("c", data[2])}
		for i, split := range []string{"train", "test", "valid"} {
			files[i].Split = split
		}
		facts := must.Get(Survey(t.Context(), files, source.Limits{}, []Recipe{r}))(t)
		r.Files = source.FileSplits([]string{"train", "test", "valid"})
		g := taskstest.NewGraph(t)
		corpus := g.Run(Import, r.Import([]storage.Digest{g.Import(data[0]), g.Import(data[1]), g.Import(data[2])}, source.Limits{}))
		var m EncodeMetrics
		g.Run(Encode, r.Encode(), taskstest.In(CorpusInput, corpus)).DecodeMetrics(&m)
		if m != facts[0].Parts || m.Train.Examples != 2 || m.Test.Examples != 1 {
			t.Errorf("%s: the tasks found %+v, the survey %+v", name, m, facts[0].Parts)
		}
	}
}

func TestFileSplitsMustMatchSource(t *testing.T) {
	t.Parallel()
	for files, says := range map[string]string{"train\ntest": "splits of 2 files, and the source has 1", "valid": "no split \"train\""} {
		r := Recipe{Reading: source.Reading{Origin: source.Origin{Split: "train", Files: files}}, VocabularySize: 1}
		g := taskstest.NewGraph(t)
		_, err := g.Try(Import, r.Import([]storage.Digest{g.Import([]byte(annAndBob))}, source.Limits{}))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", files, err)
		}
		_, err = Survey(t.Context(), []source.File{fileOf("a", []byte(annAndBob))}, source.Limits{}, []Recipe{r})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q, surveyed: %v", files, err)
		}
	}
}

// A named column takes precedence over the names of files.
func TestAColumnOfSplitsGoesBeforeNamesOfFiles(t *testing.T) {
	t.Parallel()
	file := fileOf("train-00000-of-00001.jsonl", []byte(`{"user":"a","text":"one","part":"test"}`+"\n"+`{"user":"a","text":"two","part":"train"}`))
	file.Split = "train"
	column := source.Origin{TestSplit: "test", Columns: forms.Columns{Split: "part"}}
	facts, err := Survey(t.Context(), []source.File{file}, source.Limits{}, []Recipe{{Reading: source.Reading{Origin: column}, VocabularySize: 1}})
	if err != nil || facts[0].Parts.Train.Examples != 1 || facts[0].Parts.Test.Examples != 1 {
		t.Errorf("%+v, %v", facts, err)
	}
	column.Files = "train"
	for _, o := range []source.Origin{column, {Files: "train"}} {
		if err := o.Check(false); err == nil || !strings.Contains(err.Error(), "expected a split to read") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// stateOfTheUnion is the data set that the project ships.
func stateOfTheUnion() source.File {
	path := filepath.Join("..", "..", "examples", "data", "state-of-the-union.jsonl.gz")
	return source.File{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// TestStateOfTheUnionIsWhole pins the numbers of examples/data/README.md and
// docs/data.md, and that Survey and the tasks agree on it.
func TestStateOfTheUnionIsWhole(t *testing.T) {
	t.Parallel()
	recipe := Recipe{Seed: 1, VocabularySize: 5000, TestFraction: 0.1, Words: 400}
	facts := must.Get(Survey(t.Context(), []source.File{stateOfTheUnion()}, source.Limits{}, []Recipe{recipe}))(t)
	source := facts[0].Source
	t.Logf("%+v", facts[0])
	if source.Users != 43 || source.Examples != 63239 || source.Words != 1125627 {
		t.Errorf("the source holds %+v", source)
	}
	if testing.Short() {
		return
	}
	f := must.Get(stateOfTheUnion().Open())(t)
	defer f.Close()
	data := must.Get(io.ReadAll(f))(t)
	if want := runPipeline(t, data, recipe).facts(); !reflect.DeepEqual(facts[0], want) {
		t.Errorf("surveyed %+v, the tasks found %+v", facts[0], want)
	}
}

func BenchmarkSurvey(b *testing.B) {
	recipe := Recipe{Seed: 1, VocabularySize: 5000, TestFraction: 0.1, Words: 400}
	for b.Loop() {
		must.Get(Survey(b.Context(), []source.File{stateOfTheUnion()}, source.Limits{}, []Recipe{recipe}))(b)
	}
}

// BenchmarkSurveyOfManyRecipes surveys the recipes of a grid of seeds.
func BenchmarkSurveyOfManyRecipes(b *testing.B) {
	recipes := make([]Recipe, 1000)
	for i := range recipes {
		recipes[i] = Recipe{Seed: uint64(i), VocabularySize: 5000, TestFraction: 0.1, Words: 400}
	}
	for b.Loop() {
		must.Get(Survey(b.Context(), []source.File{stateOfTheUnion()}, source.Limits{}, recipes))(b)
	}
}

func BenchmarkPipeline(b *testing.B) {
	f := must.Get(stateOfTheUnion().Open())(b)
	defer f.Close()
	data := must.Get(io.ReadAll(f))(b)
	recipe := Recipe{Seed: 1, VocabularySize: 5000, TestFraction: 0.1, Words: 400}
	g := taskstest.NewGraph(b)
	p := pipeline{Graph: g}
	source := ImportParams{Sources: []storage.Digest{g.Import(data)}}
	for _, stage := range []struct {
		name string
		run  func()
	}{
		{"import", func() { p.corpus = g.Run(Import, source) }},
		{"encode", func() { p.parts = g.Run(Encode, recipe.Encode(), taskstest.In(CorpusInput, p.corpus)) }},
		{"balance", func() {
			p.balanced = g.Run(population.Balance, recipe.Balance(), taskstest.In(population.PartsInput, p.parts))
		}},
		{"iid", func() { p.partition(population.PartitionParams{Partition: population.IID, Words: 400, Seed: 1}) }},
	} {
		b.Run(stage.name, func(b *testing.B) {
			for b.Loop() {
				stage.run()
			}
		})
	}
}
