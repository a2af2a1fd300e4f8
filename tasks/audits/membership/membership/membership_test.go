package membership

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// bench has users that train, with canaries, held-out ones, and models that were not trained.
type bench struct {
	*taskstest.Graph
	parts, balanced, insertions *taskstest.Node
}

const vocabulary = 20

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{Graph: taskstest.NewGraph(t)}
	var lines strings.Builder
	for i := range 400 {
		words := make([]string, 2+i%7)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", (i*(j+3)+j*j*7)%37)
		}
		fmt.Fprintf(&lines, `{"user":"u%d","text":%q}`+"\n", i%23, strings.Join(words, " "))
	}
	corpus := b.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{b.Import([]byte(lines.String()))}})
	b.parts = b.Run(datasets.Encode, datasets.EncodeParams{Seed: 1, VocabularySize: vocabulary}, taskstest.In(datasets.CorpusInput, corpus))
	b.balanced = b.Run(population.Balance, population.BalanceParams{Seed: 1, HeldOutUsers: 0.4}, taskstest.In(population.PartsInput, b.parts))
	drawn := b.Run(canaries.Draw, canaries.DrawParams{
		Seed: 1, Configurations: []canaries.Configuration{{UserProbability: "1/4", ExampleProbability: "1/2"}}, PerConfiguration: 2, Space: canaries.Space{Words: 4},
	}, taskstest.In(population.PartsInput, b.parts))
	b.insertions = b.Run(canaries.Insert, canaries.InsertParams{Seed: 1}, taskstest.In(population.BalancedInput, b.balanced), taskstest.In(canaries.CanariesInput, drawn))
	return b
}

func (b bench) model(seed uint64) *taskstest.Node {
	return b.Run(training.Initial, training.InitialParams{Seed: seed, Model: models.Config{
		Kind: models.CIFGLSTM, Vocabulary: vocabulary + text.FirstWord, Embedding: 5, Units: 7,
	}})
}

func (b bench) inputs(model *taskstest.Node) []taskstest.Edge {
	return []taskstest.Edge{taskstest.In(audits.ModelInput, model), taskstest.In(population.BalancedInput, b.balanced), taskstest.In(population.PartsInput, b.parts)}
}

// losses are those of all users under a model, with canaries or without.
func (b bench) losses(model *taskstest.Node, shares int, more ...taskstest.Edge) (nodes []*taskstest.Node, all []UserLoss) {
	return b.measured(model, shared(shares, false), more...)
}

func shared(shares int, byToken bool) LossParams {
	return LossParams{UserShare: utility.UserShare{Shares: shares, ByToken: byToken}}
}

func (b bench) measured(model *taskstest.Node, p LossParams, more ...taskstest.Edge) (nodes []*taskstest.Node, all []UserLoss) {
	for p.Share = range p.Shares {
		node := b.Run(Losses, p, append(b.inputs(model), more...)...)
		var some []UserLoss
		if err := json.Unmarshal(node.Blob(LossesBlob), &some); err != nil {
			panic(err)
		}
		nodes, all = append(nodes, node), append(all, some...)
	}
	return nodes, all
}

func (b bench) texts() *taskstest.Node {
	return b.Run(Texts, struct{}{}, taskstest.In(population.BalancedInput, b.balanced), taskstest.In(population.PartsInput, b.parts), b.insertion())
}

func (b bench) insertion() taskstest.Edge {
	return taskstest.In(population.InsertionsInput, b.insertions)
}

// outcome attacks a model with some reference models.
func (b bench) outcome(t *testing.T, references int) (*taskstest.Node, *Outcome) {
	t.Helper()
	const shares = 3
	var edges []taskstest.Edge
	add := func(seed uint64, byToken bool, name func(share int) string) {
		nodes, _ := b.measured(b.model(seed), shared(shares, byToken), b.insertion())
		for share, node := range nodes {
			edges = append(edges, taskstest.In(name(share), node))
		}
	}
	add(1, true, tasks.PartInput)
	for model := range references {
		add(uint64(10+model), false, func(share int) string { return ReferenceInput(model, share) })
	}
	edges = append(edges, taskstest.In(TextsInput, b.texts()))
	node := b.Run(Kind, Params{Shares: shares, Texts: true, References: references, Seed: 1}, edges...)
	var v Outcome
	must.Do(t, json.Unmarshal(node.Blob(audits.OutcomeBlob), &v))
	return node, &v
}

// Without canaries the users' losses add up to the utility audit's loss on the training
// part; shares cover all users once.
func TestUserLossesSumToUtilityLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	model := b.model(1)
	_, one := b.losses(model, 1)
	_, many := b.losses(model, 11)
	if !slices.Equal(one, many) {
		t.Errorf("in one share %v, in eleven %v", one, many)
	}
	part := b.Run(utility.Part, utility.PartParams{Data: population.Train, Shares: 1}, taskstest.In(audits.ModelInput, model), taskstest.In(utility.DataInput, b.parts))
	var want models.Evaluation
	part.DecodeMetrics(&want)
	targets, sum, members := int64(0), 0.0, 0
	for _, l := range one {
		targets, sum = targets+l.Targets, sum+l.Loss
		if l.Member {
			members++
		}
	}
	if targets != want.All.Tokens || math.Abs(sum-want.All.Loss) > 1e-9*sum || len(one) != 23 || members != 14 {
		t.Errorf("%d targets and loss %v of %d users, %d members; want %+v, of 23 and 14", targets, sum, len(one), members, want.All)
	}
}

// Scoring by token gives the same losses, and three scores more.
func TestLossesByTokenAreTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, plain := b.losses(b.model(1), 3)
	_, byToken := b.measured(b.model(1), shared(3, true))
	for user, l := range byToken {
		if !l.ByToken || l.MinK >= 0 || l.MinKPlusPlus == 0 || l.Curvature == 0 {
			t.Errorf("user %d: %+v", user, l)
		}
		if l.ByToken, l.MinK, l.MinKPlusPlus, l.Curvature = false, 0, 0, 0; l != plain[user] {
			t.Errorf("user %d: %+v, want %+v", user, l, plain[user])
		}
	}
}

// Losses of other texts do not depend on the share that a user is in, and change no other loss.
// Neighbours cost an untrained model about as much as the texts; the users whose texts are the
// prefix have no loss after it.
func TestRescoringDoesNotDependOnShares(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, plain := b.measured(b.model(1), shared(1, true))
	p := shared(1, true)
	p.PrefixUsers, p.NeighbourTexts, p.Seed = 2, 3, 1
	_, one := b.measured(b.model(1), p)
	p.Shares = 3
	_, three := b.measured(b.model(1), p)
	if !slices.Equal(one, three) {
		t.Errorf("in one share %+v, in three %+v", one, three)
	}
	heldOut := 0
	for user, l := range one {
		if !l.Member {
			heldOut++
		}
		if aside := !l.Member && heldOut <= 2; l.Aside != aside || (l.Prefixed == 0) != aside || l.Prefixed == l.Loss || l.Neighbours == l.Loss || math.Abs(l.Neighbours/l.Loss-1) > 0.1 {
			t.Errorf("user %d: %+v", user, l)
		}
		if l.Prefixed, l.Neighbours, l.Aside = 0, 0, false; l != plain[user] {
			t.Errorf("user %d: %+v, want %+v", user, l, plain[user])
		}
	}
}

// What canaries replaced counts for nobody, and the other users are as without canaries.
func TestSharersAreMeasuredWithoutCanaries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, before := b.losses(b.model(1), 1)
	_, after := b.losses(b.model(1), 1, b.insertion())
	sharers := 0
	for u := range after {
		switch {
		case after[u].Replaced == 0:
			if after[u] != before[u] {
				t.Errorf("user %d: %+v without a canary, and %+v", u, after[u], before[u])
			}
		case !after[u].Member || after[u].Targets >= before[u].Targets || after[u].Loss >= before[u].Loss:
			t.Errorf("user %d: %+v, without canaries %+v", u, after[u], before[u])
		default:
			sharers++
		}
	}
	_, v := b.outcome(t, 0)
	if sharers == 0 || v.Sharers != sharers || v.Members != 14-sharers || v.HeldOut != 9 || len(v.Attacks) != 5 || v.Attacks[0].Sharers.Users != sharers {
		t.Errorf("%d sharers; %+v", sharers, v)
	}
}

// A model that nobody trained tells nobody: 0.5 lies in the intervals, seed by seed fixed.
func TestUntrainedModelHasChanceAUC(t *testing.T) {
	t.Parallel()
	_, v := newBench(t).outcome(t, 4)
	if len(v.Attacks) != len(attacks)-2 || v.References != 4 {
		t.Fatalf("%+v", v)
	}
	for _, o := range v.Attacks {
		if a := o.Members.AUC; a.Low > 0.5 || a.High < 0.5 {
			t.Errorf("%s: %+v", o.Attack, a)
		}
	}
	if a := v.Blind.Members.AUC; a.Low > 0.5 || a.High < 0.5 {
		t.Errorf("blind: %+v", a)
	}
}

// Canaries shorten the texts of their users, and zlib would tell lengths: no gate takes that for a leak, or misses it.
func TestZlibDoesNotCompareUsersWithCanaries(t *testing.T) {
	t.Parallel()
	_, v := newBench(t).outcome(t, 0)
	for _, o := range v.Attacks {
		if without := o.Attack == Zlib; (o.Sharers == nil) != without || o.Members == nil {
			t.Errorf("%s: %+v", o.Attack, o)
		}
	}
	if reasons := v.missing("the AUC", true); reasons != nil {
		t.Errorf("missing are %q", reasons)
	}
	s := &audits.Setting{}
	without := numbers(s)
	s.Canaries = &audits.Canaries{}
	if n := numbers(s); n != 2*without-1 {
		t.Errorf("%d numbers with canaries, %d without", n, without)
	}
}

func TestBadParametersAreRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, references := range []int{-2, 2, 5} {
		_, err := b.Try(Kind, Params{Shares: 1, References: references})
		if err == nil || !strings.Contains(err.Error(), "expected 0, or an even number from 4") {
			t.Errorf("%d references: error %v", references, err)
		}
	}
	members := b.Put("members", map[string][]byte{LossesBlob: []byte(`[{"targets":1,"loss":1,"member":true}]`)})
	for want, node := range map[string]*taskstest.Node{
		"membership of 1 users that trained and 0 held-out ones": members,
		"losses of part-0: unexpected end":                       b.Put("cut", map[string][]byte{LossesBlob: []byte(`[{`)}),
	} {
		_, err := b.Try(Kind, Params{Shares: 1}, taskstest.In(tasks.PartInput(0), node))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	losses, _ := b.losses(b.model(1), 1, b.insertion())
	taskstest.Golden(t, losses...)
	taskstest.Golden(t, b.texts())
	node, _ := b.outcome(t, 4)
	taskstest.Golden(t, node)
}
