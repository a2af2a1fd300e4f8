package datasets

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/taskstest"
)

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
