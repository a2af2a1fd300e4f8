package randomsampling

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/clientprograms/clientprogramstest"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// vocabularyNode has the given number of ordinary words.
func vocabularyNode(t *testing.T, g *taskstest.Graph, words int) *taskstest.Node {
	t.Helper()
	text := ""
	for i := range words {
		text += `{"user":"u","text":"w` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `"}` + "\n"
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text))}})
	return g.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: words}, taskstest.In(datasets.CorpusInput, corpus))
}

// A program that scores as is done here has the ranks of the audit, estimated ones as well.
func TestProgramRanksMatchAudit(t *testing.T) {
	t.Parallel()
	const words = 40
	g, asked := taskstest.NewGraph(t), new(clientprogramstest.Runner)
	g.Clients = asked
	model := g.Put("model", map[string][]byte{tasks.ModelBlob: encodedModel(t, words+text.FirstWord)})
	var placed []population.Placement
	for i, tokens := range [][]int32{{4, 5, 6, 7}, {9, 30, 4, 4}, {4, 8, 8, 21}} {
		placed = append(placed, population.Placement{Canary: population.Canary{Number: i, Tokens: tokens}})
	}
	data := must.Get(json.Marshal(placed))(t)
	edges := []taskstest.Edge{
		taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, g.Put("canaries", map[string][]byte{population.CanariesBlob: data})),
		taskstest.In(external.VocabularyInput, vocabularyNode(t, g, words)),
	}
	params := Params{Seed: 3, References: 300, Space: canaries.Space{Words: 4}, Prefix: 1, Count: 3}
	want := decodedRanks(t, g.Run(Kind, params, edges...))
	params.Program = &clientprograms.Program{Command: "p"}
	got := decodedRanks(t, g.Run(Kind, params, edges...))
	for i := range want {
		if got[i].Rank != want[i].Rank || got[i].Exact != want[i].Exact || math.Abs(got[i].LogPerplexity-want[i].LogPerplexity) > 1e-4 {
			t.Errorf("canary %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if asked.Lent != 1 || asked.Back != 1 {
		t.Errorf("it was lent %d times and given back %d times, want once", asked.Lent, asked.Back)
	}
	asked.Failure = errors.New("busy")
	if _, err := g.Try(Kind, params, edges...); !errors.Is(err, asked.Failure) || tasks.IsPermanent(err) {
		t.Errorf("got %v, want that it may be tried again", err)
	}
}

// encodedModel is a model whose predictions are far from uniform.
func encodedModel(t *testing.T, vocabulary int) []byte {
	t.Helper()
	m := must.Get(models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: vocabulary, Embedding: 7, Units: 9}))(t)
	params := m.Init(rand.New(rand.NewPCG(5, 1)))
	for i := range params {
		params[i] *= 4
	}
	return must.Get(checkpoints.Encode(m, params, nil))(t)
}

func decodedRanks(t *testing.T, n *taskstest.Node) (ranks []Rank) {
	t.Helper()
	must.Do(t, json.Unmarshal(n.Blob(RanksBlob), &ranks))
	return ranks
}
