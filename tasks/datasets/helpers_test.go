package datasets

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// line is one record of a source that a test writes.
type line struct {
	User string `json:"user"`
	Text string `json:"text"`
}

func jsonLines(lines []line) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			panic(err)
		}
	}
	return out.Bytes()
}

// randomLines makes n examples of up to 12 users, interleaved, of up to 30 words
// over a skewed alphabet of a few hundred words.
func randomLines(rng *rand.Rand, n int) []line {
	var lines []line
	for range n {
		words := make([]string, 1+rng.IntN(30))
		for i := range words {
			words[i] = fmt.Sprintf("w%d", int(rng.ExpFloat64()*40))
		}
		user := fmt.Sprintf("user %d", int(rng.ExpFloat64()*4)%12)
		lines = append(lines, line{user, strings.Join(words, " ")})
	}
	return lines
}

func fileOf(name string, data []byte) source.File {
	return source.File{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// pipeline is a graph from the source to the balanced users.
type pipeline struct {
	*taskstest.Graph
	corpus, parts, balanced *taskstest.Node
	vocabulary              *taskstest.Node // of the source without faults; nil where it is that of the parts
}

// runPipeline runs the tasks of a recipe. more are further sources that it reads.
func runPipeline(t testing.TB, data []byte, r Recipe, more ...[]byte) pipeline {
	t.Helper()
	g := taskstest.NewGraph(t)
	p := pipeline{Graph: g}
	src := []storage.Digest{g.Import(data)}
	for _, file := range more {
		g.Import(file)
	}
	p.corpus = g.Run(Import, r.Import(src, source.Limits{}))
	inputs := []taskstest.Edge{taskstest.In(CorpusInput, p.corpus)}
	if clean, elsewhere := r.Vocabulary(); elsewhere {
		p.vocabulary = g.Run(Encode, clean.Encode(), taskstest.In(CorpusInput, g.Run(Import, clean.Import(src, source.Limits{}))))
		inputs = append(inputs, taskstest.In(VocabularyInput, p.vocabulary))
	}
	if r.selects() {
		p.parts = g.Run(OutOfVocabulary, r.OutOfVocabulary(), inputs...)
	} else {
		p.parts = g.Run(Encode, r.Encode(), inputs...)
	}
	p.balanced = g.Run(population.Balance, r.Balance(), taskstest.In(population.PartsInput, p.parts))
	return p
}

// facts returns the facts in the metrics of the tasks.
func (p pipeline) facts() (f Facts) {
	p.corpus.DecodeMetrics(&f.Source)
	p.parts.DecodeMetrics(&f.Parts)
	p.balanced.DecodeMetrics(&f.Balance)
	return f
}

// checkSurvey compares every number that a survey finds with those of the tasks, which it returns.
func checkSurvey(t *testing.T, data []byte, recipes []Recipe) (ran []pipeline) {
	t.Helper()
	facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, recipes))(t)
	for i, r := range recipes {
		ran = append(ran, runPipeline(t, data, r))
		if want := ran[i].facts(); !reflect.DeepEqual(facts[i], want) {
			t.Errorf("recipe %+v: surveyed %+v, the tasks found %+v", r, facts[i], want)
		}
	}
	return ran
}

func (p pipeline) partition(params population.PartitionParams, more ...taskstest.Edge) *taskstest.Node {
	edges := append([]taskstest.Edge{taskstest.In(population.BalancedInput, p.balanced), taskstest.In(population.PartsInput, p.parts)}, more...)
	return p.Run(population.Partition, params, edges...)
}

// open opens the population of a partition node.
func (p pipeline) open(t testing.TB, node *taskstest.Node, partition population.Partitioning) *population.Population {
	t.Helper()
	scheme := must.Get(population.FindPartition(partition))(t)
	shards := p.parts
	if scheme.Rewrites {
		shards = node
	}
	task := p.Task(taskstest.In("population", node), taskstest.In("shards", shards))
	return must.Get(population.Open(t.Context(), task, "population", "shards"))(t)
}

// insert writes the insertions of a node by hand: the canaries are runs of one
// token, four words long.
func (p pipeline) insert(t testing.TB, o population.Overlay, canaries int) *taskstest.Node {
	t.Helper()
	list := make([]population.Placement, canaries)
	for i := range list {
		token := int32(text.FirstWord + i)
		list[i] = population.Placement{Canary: population.Canary{Number: i, Tokens: []int32{token, token, token, token}, Words: []string{}}}
	}
	return p.Run(tasks.Kind{Name: "test/insert", Run: func(ctx context.Context, task *tasks.Task) error {
		return population.WritePlacements(ctx, task, list, o)
	}}, struct{}{})
}

// everySentence reads all users and joins each sentence to a string.
func everySentence(t testing.TB, ctx context.Context, p *population.Population) []string {
	t.Helper()
	var out []string
	for u := range p.Users() {
		sentences := must.Get(p.ReadUser(ctx, u))(t)
		out = append(out, sentencesText(sentences)...)
	}
	return out
}

func sentencesText(sentences [][]int32) []string {
	var out []string
	for _, s := range sentences {
		out = append(out, fmt.Sprint(s))
	}
	return out
}

var smallRecipe = Recipe{Seed: 7, VocabularySize: 40, TestFraction: 0.1, ValidationFraction: 0.05, Words: 60, HeldOutUsers: 0.1}

const annAndBob = `{"user":"ann","text":"Hello there."}` + "\n" + `{"id":7,"text":"Bye","user":"bob"}`
