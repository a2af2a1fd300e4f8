//go:build unix

package external_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/audits/models/accuracyperuser"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/canaries"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
	"coalmine/tasks/selection"
	"coalmine/tasks/taskstest"
)

// scorer answers by its first argument for every pair, less its second one for each before it in the
// request, by the contract score.
const scorer = `while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
  *'"describe"'*) echo '{"id":'$id',"result":{"contract":"coalmine/score","version":1,"model":"m","longest_input":0,"deterministic":true,"methods":["loglikelihood"]}}';;
  *) printf '%s\n' "$line" | awk -v id="$id" -v p="$1" -v d="$2" '{ n = gsub(/"\],\["/, "&") + 1; s = ""; for (i = 0; i < n; i++) s = s (i ? "," : "") "[" p - d * i ",true]"; print "{\"id\":" id ",\"result\":[" s "]}" }';;
  esac
done
`

// model is a training that has ended, and the code that its commands run.
func model(t *testing.T, g *taskstest.Graph, result string) (*taskstest.Node, external.ModelParams) {
	t.Helper()
	code := must.Get(clientprograms.PackCode(fstest.MapFS{"score.sh": {Data: []byte(scorer)}}, nil))(t)
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
	if e.Counted.Perplexity() != math.Exp(2) || e.Counted.Recall() != 1 || e.Counted.Tokens == 0 || e.All.Tokens != 0 {
		t.Errorf("%+v, want 2 nats a word, all guessed, and nothing said of ends, for which nobody asks", e)
	}
	taskstest.Golden(t, n)
}

// Scores of the words after one text that are no logarithms of probabilities would look like a model that
// predicts well.
func TestUtilityRejectsImproperProbabilities(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	m, params := model(t, g, `{"score":"sh score.sh -1.2 0.01","initial_score":"sh score.sh -3"}`)
	_, err := g.Try(utility.Scored, utility.ScoredParams{Words: 100, Model: params}, taskstest.In(audits.ModelInput, m), taskstest.In(utility.DataInput, parts(t, g)))
	const want = "10 continuations of \"w0 <unk>\" that exclude each other have probabilities that add up to 2.85; expected at most 1"
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A program that gives every text the same probability does not predict bytes, because a text would be the
// less probable the longer it is. Its accuracy is not known, its perplexity is that of whole texts.
func TestAccuracyIsUnknownUnlessModelPredictsBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	m, params := model(t, g, bothModels)
	r := datasets.Recipe{Reading: source.Reading{Level: text.ByteLevel}, Seed: 1, TestFraction: 0.5}
	text := strings.Repeat(`{"user":"u1","text":"eight le"}`+"\n"+`{"user":"u2","text":"eight me"}`+"\n", 10)
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text))}, Reading: r.Reading})
	encoded := g.Run(datasets.Encode, r.Encode(), taskstest.In(datasets.CorpusInput, corpus))
	scores := g.Run(utility.Scored, utility.ScoredParams{Words: 1000, Model: params}, taskstest.In(audits.ModelInput, m), taskstest.In(utility.DataInput, encoded))
	v := new(utility.Outcome)
	g.Run(utility.Sum, utility.SumParams{Shares: 1}, taskstest.In(tasks.PartInput(0), scores)).DecodeMetrics(v)
	if v.Perplexity != numbers.Float(math.Exp(2./8)) || v.Tokens%8 != 0 || v.Tokens == 0 {
		t.Errorf("%+v, want 2 nats for each text of 8 bytes", v)
	}
	if note := v.Note(nil); v.RecallUnknown == "" || auditstest.Texts(&utility.Audit, v)[0] != "" || !strings.Contains(note, "no accuracy: the program does not predict bytes: its texts cost 0.25 nats a byte as wholes, and 2 character by character") {
		t.Errorf("%+v, noted as %q, want no accuracy", v, note)
	}
	if data, err := json.Marshal(v); err != nil || strings.Contains(string(data), "recall_at_1") {
		t.Errorf("%s, %v, want no recall", data, err)
	}
}

// imageScorer answers for every image: of four classes the last two have the same probability, and the
// others e^-3 and e^-2.
const imageScorer = `while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
  *'"describe"'*) echo '{"id":'$id',"result":{"contract":"coalmine/score","version":1,"model":"m","longest_input":0,"deterministic":true,"methods":["classify"]}}';;
  *) n=${line#*'"shape":['}; n=${n%%,*}; row=ROW; rows=$row; while [ $n -gt 1 ]; do rows=$rows,$row; n=$((n-1)); done; echo '{"id":'$id',"result":['$rows']}';;
  esac
done
`

const evenRow = "[-3,-2,-0.8985,-0.8985]"

// classifier is a training of images that has ended, whose model gives every image a row.
func classifier(t *testing.T, g *taskstest.Graph, row string) (*taskstest.Node, external.ModelParams) {
	t.Helper()
	code := must.Get(clientprograms.PackCode(fstest.MapFS{"score.sh": {Data: []byte(strings.Replace(imageScorer, "ROW", row, 1))}}, nil))(t)
	return g.Put("model", map[string][]byte{external.ResultBlob: []byte(`{"score":"sh score.sh"}`)}),
		external.ModelParams{Code: g.Import(code), Image: images.Shape{Width: 3, Height: 2, Channels: 1, Classes: 4}}
}

// images are those of twelve users, of class 2 and every other one of class 0; one in five has no label.
func encodedImages(t *testing.T, g *taskstest.Graph, m images.Shape) *taskstest.Node {
	t.Helper()
	var lines strings.Builder
	for i := range 60 {
		label := fmt.Sprintf(`"label":%d,`, i%2*2)
		if i%5 == 0 {
			label = ""
		}
		fmt.Fprintf(&lines, `{"user":"u%d",%s"pixels":"AQIDBAUG"}`+"\n", i%12, label)
	}
	r := datasets.Recipe{Reading: source.Reading{Level: text.ImageLevel, Image: m, Unlabelled: true}, Seed: 1, TestFraction: 0.5}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(lines.String()))}, Reading: r.Reading})
	return g.Run(datasets.Encode, r.Encode(), taskstest.In(datasets.CorpusInput, corpus))
}

// Of images the labels are predicted of those that have one.
func TestUtilityOfAModelThatClassifies(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	m, params := classifier(t, g, evenRow)
	n := g.Run(utility.Scored, utility.ScoredParams{Words: 1, Model: params}, taskstest.In(audits.ModelInput, m), taskstest.In(utility.DataInput, encodedImages(t, g, params.Image)))
	var e models.Evaluation
	n.DecodeMetrics(&e)
	twos := e.All.Hits
	if want := 0.8985*float64(twos) + 3*float64(e.All.Tokens-twos); e.All != e.Counted || e.All.Tokens < 15 || e.All.Tokens > 29 || twos < 5 || math.Abs(e.All.Loss-want) > 1e-9 {
		t.Errorf("%+v, want the loss %v of the labels that are known", e, want)
	}
}

// Each user's images are classified, those of the test part here.
func TestAccuracyOfUsersUnderAModelThatClassifies(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	m, params := classifier(t, g, "[-3,-2,-0.8984,-0.8986]")
	n := g.Run(accuracyperuser.Scored, accuracyperuser.Params{Part: accuracyperuser.Test, UserShare: utility.UserShare{Shares: 1, Model: &params}},
		taskstest.In(audits.ModelInput, m), taskstest.In(population.PartsInput, encodedImages(t, g, params.Image)))
	var users []selection.UserAccuracy
	must.Do(t, json.Unmarshal(n.Blob(accuracyperuser.UsersBlob), &users))
	examples := 0
	for i, u := range users {
		if want := u.Examples * (i % 2); u.Correct != want { // every other user has images of class 2 alone
			t.Errorf("user %d: %+v, want %d correct", i, u, want)
		}
		examples += u.Examples
	}
	if len(users) != 12 || examples < 15 || examples > 29 {
		t.Errorf("%d users with %d images", len(users), examples)
	}
	taskstest.Golden(t, n)
}

func TestClassifierErrorsNameTheirRule(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	for row, want := range map[string]string{
		"[-3,-2,-1]":      "its answer to image 1 has 3 log-probabilities; expected one for each of 4 classes (rule 15",
		"[-3,-2,-1,-9]":   "the probabilities of image 1 add up to 0.5531; expected 1 (rule 15",
		"[-3,-2,-1,0.5]":  "0.5 stands for a log-probability; expected a natural logarithm, which is not above 0 nor below -1e+100 (rule 5",
		"[-3,-2,-1,null]": "\"null\" stands for a log-probability; expected a finite number, or \"-inf\" for the logarithm of 0 (rule 5",
		"7":               "cannot unmarshal",
	} {
		m, params := classifier(t, g, row)
		_, err := g.Try(utility.Scored, utility.ScoredParams{Words: 1, Model: params}, taskstest.In(audits.ModelInput, m), taskstest.In(utility.DataInput, encodedImages(t, g, params.Image)))
		if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q and no other try", row, err, want)
		}
	}
	m, params := model(t, g, bothModels) // which scores texts
	params.Image = images.Shape{Width: 3, Height: 2, Channels: 1, Classes: 4}
	_, err := g.Try(utility.Scored, utility.ScoredParams{Words: 1, Model: params}, taskstest.In(audits.ModelInput, m), taskstest.In(utility.DataInput, encodedImages(t, g, params.Image)))
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), `its methods are ["loglikelihood"]; expected "classify" among them`) {
		t.Errorf("a model of texts is asked about images: %v", err)
	}
}

// The losses of users are those of their texts' words, or of the labels of their images.
func TestUserLossesOfScoredModel(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	losses := func(m *taskstest.Node, params external.ModelParams, data *taskstest.Node) (list []membership.UserLoss, n *taskstest.Node) {
		balanced := g.Run(population.Balance, population.BalanceParams{Seed: 1, HeldOutUsers: 0.4}, taskstest.In(population.PartsInput, data))
		n = g.Run(membership.ScoredLosses, utility.UserShare{Shares: 1, Model: &params},
			taskstest.In(audits.ModelInput, m), taskstest.In(population.BalancedInput, balanced), taskstest.In(population.PartsInput, data))
		must.Do(t, json.Unmarshal(n.Blob(membership.LossesBlob), &list))
		return list, n
	}
	m, params := model(t, g, bothModels)
	texts, n := losses(m, params, parts(t, g))
	taskstest.Golden(t, n)
	members, examples := 0, 0.0
	for _, u := range texts {
		examples += u.Loss / 2            // of 2 nats for each text
		if u.Targets != int64(u.Loss*2) { // texts of four words
			t.Errorf("%+v, want four words a text", u)
		}
		if u.Member {
			members++
		}
	}
	if len(texts) != 12 || members < 5 || members > 9 || examples < 25 {
		t.Errorf("%d users of %v texts, %d of them members", len(texts), examples, members)
	}
	m, params = classifier(t, g, evenRow)
	found, _ := losses(m, params, encodedImages(t, g, params.Image))
	targets := int64(0)
	for _, u := range found {
		targets += u.Targets
		if loss := float64(u.Targets); u.Loss < 0.898*loss || u.Loss > 3*loss+1e-9 {
			t.Errorf("%+v, want 0.9 to 3 nats a label", u)
		}
	}
	if targets < 19 || targets > 33 {
		t.Errorf("%d labels", targets)
	}
}

// tokenScorer gives every text two tokens, which are likelier after another text: of -1 and -3, or of -0.5 and -2.5.
const tokenScorer = `while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
  *'"describe"'*) echo '{"id":'$id',"result":{"contract":"coalmine/score","version":1,"model":"m","longest_input":0,"deterministic":true,"methods":["loglikelihood","token_logprobs"]}}';;
  *'"token_logprobs"'*) printf '%s\n' "$line" | awk -v id="$id" '{ sub(/.*"pairs":\[\["/, ""); n = split($0, pairs, /"\],\["/); s = ""
    for (i = 1; i <= n; i++) s = s (i > 1 ? "," : "") (substr(pairs[i], 1, 3) == "\",\"" ? "[-1,-3]" : "[-0.5,-2.5]")
    print "{\"id\":" id ",\"result\":[" s "]}" }';;
  esac
done
`

// A command with token_logprobs gives Min-K%, and reads texts after others for ReCaLL; it has no whole
// distribution for Min-K%++.
func TestUserLossesByTokenOfScoredModel(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	code := must.Get(clientprograms.PackCode(fstest.MapFS{"score.sh": {Data: []byte(tokenScorer)}}, nil))(t)
	params := external.ModelParams{Code: g.Import(code)}
	m, data := g.Put("model", map[string][]byte{external.ResultBlob: []byte(`{"score":"sh score.sh"}`)}), parts(t, g)
	balanced := g.Run(population.Balance, population.BalanceParams{Seed: 1, HeldOutUsers: 0.4}, taskstest.In(population.PartsInput, data))
	n := g.Run(membership.ScoredLosses, membership.LossParams{UserShare: utility.UserShare{Shares: 1, Model: &params, ByToken: true}, Rescoring: membership.Rescoring{PrefixUsers: 1}},
		taskstest.In(audits.ModelInput, m), taskstest.In(population.BalancedInput, balanced), taskstest.In(population.PartsInput, data))
	var users []membership.UserLoss
	must.Do(t, json.Unmarshal(n.Blob(membership.LossesBlob), &users))
	aside := 0
	for i, u := range users {
		texts := float64(u.Targets) / 4 // of four words
		want := membership.UserLoss{Targets: u.Targets, Loss: 4 * texts, ByToken: true, LogProbsAlone: true, MinK: -3, Prefixed: 3 * texts, Member: u.Member}
		if u.Aside {
			aside++
			want.Aside, want.Prefixed = true, 0
		}
		if u != want || texts == 0 {
			t.Errorf("user %d: %+v, want %+v", i, u, want)
		}
	}
	if len(users) != 12 || aside != 1 {
		t.Errorf("%d users, %d of them aside; want 12 and 1", len(users), aside)
	}
}

// Equal scores put a canary behind all of its references. Many of them are an error: no canary
// would look memorized.
func TestRanksOfAScoredModel(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	m, params := model(t, g, bothModels)
	data := must.Get(json.Marshal([]population.Placement{{Canary: population.Canary{Tokens: []int32{4, 5, 6}}}, {Canary: population.Canary{Number: 1, Tokens: []int32{4, 7, 9}}}}))(t)
	ranked := func(references int) (*taskstest.Node, error) {
		return g.Try(randomsampling.Scored, randomsampling.ScoredParams{
			Params: randomsampling.Params{Seed: 3, References: references, Space: canaries.Space{Words: 3}, Prefix: 1, Count: 2}, Model: params,
		}, taskstest.In(audits.ModelInput, m), taskstest.In(audits.CanariesInput, g.Put("canaries", map[string][]byte{population.CanariesBlob: data})), taskstest.In(population.PartsInput, parts(t, g)))
	}
	if _, err := ranked(50); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "different texts alike") {
		t.Errorf("a constant: %v", err)
	}
	n := must.Get(ranked(20))(t)
	var ranks []randomsampling.Rank
	must.Do(t, json.Unmarshal(n.Blob(randomsampling.RanksBlob), &ranks))
	for _, r := range ranks {
		if r != (randomsampling.Rank{LogPerplexity: 2, Rank: 21, Exact: true}) {
			t.Errorf("%+v, want rank 21", r)
		}
	}
	taskstest.Golden(t, n)
}

func TestCoinsOfAScoredModel(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	text := parts(t, g)
	balanced := g.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, text))
	pop := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser}, taskstest.In(population.PartsInput, text), taskstest.In(population.BalancedInput, balanced))
	coins := g.Run(onerun.Coins, onerun.CoinsParams{Seed: 1, Canaries: 8, Space: canaries.Space{Words: 2}, Unit: onerun.UserUnit, Neighbouring: privacy.ReplaceOne},
		taskstest.In(onerun.PopulationInput, pop), taskstest.In(onerun.ShardsInput, text), taskstest.In(population.PartsInput, text))
	bound := onerun.BoundParams{KPlus: 2, KMinus: 2, Delta: 1e-5, Confidence: 0.9, Neighbouring: privacy.ReplaceOne}
	run := func(result string, plain bool) (*taskstest.Node, error) {
		m, params := model(t, g, result)
		bound.Model, bound.Plain = &params, plain
		return g.Try(onerun.Scored, bound,
			taskstest.In(audits.ModelInput, m), taskstest.In(onerun.UnitsInput, coins), taskstest.In(population.PartsInput, text))
	}
	for plain, want := range map[bool]float64{false: 1, true: -2} {
		n := must.Get(run(bothModels, plain))(t)
		var v onerun.Outcome
		must.Do(t, json.Unmarshal(n.Blob(onerun.OutcomeBlob), &v))
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
	code, err := clientprograms.PackCode(fstest.MapFS{"never.sh": {Data: []byte("exec sleep 1000")}}, nil)
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

func TestScorerThatExitsAtStartIsNotRestarted(t *testing.T) {
	t.Parallel()
	for line, permanent := range map[string]bool{"echo no torch >&2; exit 1": true, "kill -9 $$": false} {
		g := taskstest.NewGraph(t)
		m, params := model(t, g, fmt.Sprintf(`{"score":%q}`, line))
		_, err := g.Try(utility.Scored, utility.ScoredParams{Words: 100, Model: params},
			taskstest.In(audits.ModelInput, m), taskstest.In(utility.DataInput, parts(t, g)))
		if err == nil || tasks.IsPermanent(err) != permanent {
			t.Errorf("%s: permanent %v, want %v: %v", line, tasks.IsPermanent(err), permanent, err)
		}
	}
}
