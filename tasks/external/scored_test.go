//go:build unix

package external_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"coalmine/internal/workspace"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/onerun"
	"coalmine/tasks/audits/randomsampling"
	"coalmine/tasks/audits/utility"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// scorer answers by its first argument for every pair, by the contract score.
const scorer = `while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
  *'"describe"'*) echo '{"id":'$id',"result":{"contract":"coalmine/score","version":1,"model":"m","longest_input":0,"deterministic":true,"methods":["loglikelihood"]}}';;
  *) printf '%s\n' "$line" | awk -v id="$id" -v p="$1" '{ n = gsub(/"\],\["/, "&") + 1; s = ""; for (i = 0; i < n; i++) s = s (i ? "," : "") "[" p ",true]"; print "{\"id\":" id ",\"result\":[" s "]}" }';;
  esac
done
`

// model is a training that has ended, and the code that its commands run.
func model(t *testing.T, g *taskstest.Graph, result string) (*taskstest.Node, external.ModelParams) {
	t.Helper()
	code, err := workspace.Pack(fstest.MapFS{"score.sh": {Data: []byte(scorer)}})
	if err != nil {
		t.Fatal(err)
	}
	return g.Put("model", map[string][]byte{external.ResultBlob: []byte(result)}), external.ModelParams{Code: g.Import(code)}
}

const bothModels = `{"score":"sh score.sh -2","initial_score":"sh score.sh -3"}`

// parts are twelve users' texts.
func parts(t *testing.T, g *taskstest.Graph) *taskstest.Node {
	t.Helper()
	var text strings.Builder
	for i := range 36 {
		fmt.Fprintf(&text, `{"user":"u%d","text":"w%d w%d and w%d"}`+"\n", i%12, i%4, 10+i%7, 20+i*i%5)
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text.String()))}})
	return g.Run(datasets.Encode, datasets.EncodeParams{Seed: 1, VocabularySize: 12, TestFraction: 0.2}, taskstest.In(datasets.CorpusInput, corpus))
}

func TestUtilityOfAScoredModel(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	m, params := model(t, g, bothModels)
	n := g.Run(utility.Scored, utility.ScoredParams{Words: 100, Model: params}, taskstest.In(audits.ModelInput, m), taskstest.In(utility.DataInput, parts(t, g)))
	var e models.Evaluation
	n.DecodeMetrics(&e)
	if e.All.Perplexity() != math.Exp(2) || e.All.Recall() != 1 || e.Counted.Tokens == 0 || e.Counted.Tokens >= e.All.Tokens {
		t.Errorf("%+v, want 2 nats a word, all guessed, and some words that do not count", e)
	}
	taskstest.Golden(t, n)
}

// Equal scores put a canary behind all of its references.
func TestRanksOfAScoredModel(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	m, params := model(t, g, bothModels)
	data, err := json.Marshal([]datasets.Placement{{Canary: datasets.Canary{Tokens: []int32{4, 5, 6}}}, {Canary: datasets.Canary{Number: 1, Tokens: []int32{4, 7, 9}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := g.Run(randomsampling.Scored, randomsampling.ScoredParams{
		Params: randomsampling.Params{Seed: 3, References: 50, Space: canaries.Space{Words: 3}, Prefix: 1, Count: 2}, Model: params,
	}, taskstest.In(audits.ModelInput, m), taskstest.In(audits.CanariesInput, g.Put("canaries", map[string][]byte{datasets.CanariesBlob: data})), taskstest.In(datasets.PartsInput, parts(t, g)))
	var ranks []randomsampling.Rank
	if err := json.Unmarshal(n.Blob(randomsampling.RanksBlob), &ranks); err != nil {
		t.Fatal(err)
	}
	for _, r := range ranks {
		if r != (randomsampling.Rank{LogPerplexity: 2, Rank: 51, Exact: true}) {
			t.Errorf("%+v, want rank 51", r)
		}
	}
	taskstest.Golden(t, n)
}

func TestCoinsOfAScoredModel(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	text := parts(t, g)
	balanced := g.Run(datasets.Balance, datasets.BalanceParams{}, taskstest.In(datasets.PartsInput, text))
	population := g.Run(datasets.Partition, datasets.PartitionParams{Partition: datasets.ByUser}, taskstest.In(datasets.PartsInput, text), taskstest.In(datasets.BalancedInput, balanced))
	coins := g.Run(onerun.Coins, onerun.CoinsParams{Seed: 1, Canaries: 8, Space: canaries.Space{Words: 2}, Unit: onerun.UserUnit, Neighbouring: privacy.ReplaceOne},
		taskstest.In(onerun.PopulationInput, population), taskstest.In(onerun.ShardsInput, text), taskstest.In(datasets.PartsInput, text))
	bound := onerun.BoundParams{KPlus: 2, KMinus: 2, Delta: 1e-5, Confidence: 0.9, Neighbouring: privacy.ReplaceOne}
	run := func(result string, plain bool) (*taskstest.Node, error) {
		m, params := model(t, g, result)
		return g.Try(onerun.Scored, onerun.ScoredParams{BoundParams: bound, Model: params, Plain: plain},
			taskstest.In(audits.ModelInput, m), taskstest.In(onerun.UnitsInput, coins), taskstest.In(datasets.PartsInput, text))
	}
	for plain, want := range map[bool]float64{false: 1, true: -2} {
		n, err := run(bothModels, plain)
		if err != nil {
			t.Fatal(err)
		}
		var v onerun.Verdict
		if err := json.Unmarshal(n.Blob(onerun.VerdictBlob), &v); err != nil {
			t.Fatal(err)
		}
		for _, u := range v.Units {
			if u.Score != want {
				t.Errorf("plain %v: a coin has the score %v, want %v", plain, u.Score, want)
			}
		}
		if !plain {
			taskstest.Golden(t, n)
		}
	}
	if _, err := run(`{"score":"sh score.sh -2"}`, false); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "names no initial_score") {
		t.Errorf("without an untrained model: %v", err)
	}
}

func TestAScorerHasTheTimeOfItsExperiment(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	code, err := workspace.Pack(fstest.MapFS{"never.sh": {Data: []byte("exec sleep 1000")}})
	if err != nil {
		t.Fatal(err)
	}
	m := g.Put("model", map[string][]byte{external.ResultBlob: []byte(`{"score":"sh never.sh"}`)})
	spec, err := tasks.NewSpec(utility.Scored, utility.ScoredParams{Words: 100, Model: external.ModelParams{Code: g.Import(code)}},
		tasks.Input{Name: audits.ModelInput, Key: m.Key}, tasks.Input{Name: utility.DataInput, Key: parts(t, g).Key})
	if err != nil {
		t.Fatal(err)
	}
	spec.Terms = json.RawMessage(`{"answer_seconds":0.5}`)
	if _, err = g.TrySpec(utility.Scored, spec); err == nil || !strings.Contains(err.Error(), "did not answer request 1 (describe) within 500ms") {
		t.Errorf("a scorer that never answers is given up with %v", err)
	}
	spec.Terms = json.RawMessage(`{"memory":1}`)
	if _, err = g.TrySpec(utility.Scored, spec); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "MiB of memory; expected at most 0") {
		t.Errorf("a scorer that is too large is given up with %v, want for good", err)
	}
}
