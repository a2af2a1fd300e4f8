package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/lists"
	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/taskstest"
)

// random is a world of some users and reference models, in which those who trained a model have
// higher likelihoods under it.
func random(rng *rand.Rand, users, models int) *world {
	losses := make([]UserLoss, users)
	level := make([]float64, users)
	for i := range losses {
		level[i] = 2 + rng.Float64()
		losses[i] = UserLoss{Targets: 1 + rng.Int64N(40), Member: rng.IntN(3) > 0}
		if losses[i].Member && rng.IntN(4) == 0 {
			losses[i].Replaced = 1
		}
		losses[i].Loss = float64(losses[i].Targets) * loss(rng, level[i], losses[i].Member)
	}
	losses[0].Member, losses[0].Replaced, losses[1].Member = true, 0, false
	losses[2].Targets, losses[2].Loss = 0, 0
	w := newWorld(losses, 1)
	for model := range models {
		drawn, of := make([]bool, users), slices.Clone(losses)
		for u := range of {
			drawn[u] = (u+model)%2 == 0
			of[u].Loss = float64(of[u].Targets) * loss(rng, level[u], drawn[u])
		}
		if err := w.refer(of, drawn); err != nil {
			panic(err)
		}
	}
	return w
}

func loss(rng *rand.Rand, level float64, member bool) float64 {
	if member {
		level -= 0.1
	}
	return level + 0.05*rng.NormFloat64()
}

// The likelihood ratio is the one that densities of the normal distribution give.
func TestLiRAIsTheRatioOfNormalDensities(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for range 20 {
		w := random(rng, 30, 8)
		in, out := pooled(w, true), pooled(w, false)
		online, offline := w.lira(), w.liraOffline()
		for i := range w.users {
			with := distuv.Normal{Mu: meanOf(w, i, true), Sigma: in}
			without := distuv.Normal{Mu: meanOf(w, i, false), Sigma: out}
			if want := with.LogProb(w.target[i]) - without.LogProb(w.target[i]); math.Abs(online[i]-want) > 1e-9*math.Abs(want)+1e-9 {
				t.Errorf("user %d: online %v, want %v", i, online[i], want)
			}
			if want := without.CDF(w.target[i]); math.Abs(distuv.UnitNormal.CDF(offline[i])-want) > 1e-9 {
				t.Errorf("user %d: offline %v, want the quantile of %v", i, offline[i], want)
			}
		}
	}
}

func chosen(w *world, user int, in bool) (values []float64) {
	for m := range w.references {
		if w.in[m][user] == in {
			values = append(values, w.references[m][user])
		}
	}
	return values
}

func meanOf(w *world, user int, in bool) float64 { return mean(chosen(w, user, in)) }

// pooled is the standard deviation within users.
func pooled(w *world, in bool) float64 {
	sum, degrees := 0.0, 0
	for i := range w.users {
		values := chosen(w, i, in)
		sum += variance(values) * float64(len(values)-1)
		degrees += len(values) - 1
	}
	return math.Sqrt(sum / float64(degrees))
}

// RMIA is the definition: over all pairs of a user and another that is held out.
func TestRMIAComparesPairs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 0))
	for range 20 {
		w := random(rng, 25, 6)
		for _, which := range []func(bool) bool{everyModel, without} {
			got := w.rmia(which)
			for x := range w.users {
				lower, of := 0, 0
				for z := range w.users {
					if z == x || w.of[z].Member {
						continue
					}
					of++
					if ratio(w, x, which) > ratio(w, z, which) {
						lower++
					}
				}
				if want := float64(lower) / float64(max(1, of)); got[x] != want {
					t.Errorf("user %d: %v, want %v", x, got[x], want)
				}
			}
		}
	}
}

// Likelihoods whose exp has no float64, as of long texts or of models that are far off, are
// compared by their logarithms.
func TestRMIAComparesLikelihoodsBeyondExp(t *testing.T) {
	t.Parallel()
	near := random(rand.New(rand.NewPCG(5, 0)), 40, 6)
	for _, far := range []float64{1e4, -1e4} {
		w := random(rand.New(rand.NewPCG(5, 0)), 40, 6)
		for user := range w.users {
			w.target[user] -= far
			for _, likelihoods := range w.references {
				likelihoods[user] -= far
			}
		}
		for _, which := range []func(bool) bool{everyModel, without} {
			if got, want := w.rmia(which), near.rmia(which); !slices.Equal(got, want) {
				t.Errorf("%g nats off: %v, want %v", far, got, want)
			}
		}
	}
}

// References that differ by 1000 nats, or not at all, leave ratios finite: the largest dominates the
// mean, and equal ones rank users by the audited model alone.
func TestRMIAOfExtremeReferences(t *testing.T) {
	t.Parallel()
	for want, logs := range map[float64][]float64{
		-1000 - math.Ln2: {-1000, -2000}, 1000 - 2*math.Ln2: {0, 1000, -1000, -1e6}, -3: {-3, -3, -3}, -1e300: {-1e300},
	} {
		if got := logMeanExp(logs); math.Abs(got-want) > 1e-12 {
			t.Errorf("the logarithm of the mean of exp of %v is %v, want %v", logs, got, want)
		}
	}
	w := random(rand.New(rand.NewPCG(6, 0)), 40, 6)
	for _, likelihoods := range w.references {
		for user := range likelihoods {
			likelihoods[user] = -1000
		}
	}
	for _, which := range []func(bool) bool{everyModel, without} {
		scores := w.rmia(which)
		for x := range w.users {
			for z := range w.users {
				if w.of[x].Member == w.of[z].Member && w.target[x] < w.target[z] && scores[x] > scores[z] {
					t.Errorf("user %d of score %v is above user %d of score %v, whose likelihood is higher", x, scores[x], z, scores[z])
				}
			}
		}
	}
}

func ratio(w *world, user int, which func(bool) bool) float64 {
	sum, n := 0.0, 0
	for m := range w.references {
		if which(w.in[m][user]) {
			sum += math.Exp(w.references[m][user])
			n++
		}
	}
	return math.Exp(w.target[user]) / (sum / float64(n))
}

// Reference models tell users apart whose texts differ in how hard they are: the loss alone
// does not.
func TestReferenceModelsCalibrateTheLoss(t *testing.T) {
	t.Parallel()
	v := must.Get(random(rand.New(rand.NewPCG(3, 0)), 600, 16).outcome())(t)
	plain := v.of(Loss).Members.AUC.Value
	for _, attack := range attacks {
		if !attack.needs.references {
			continue
		}
		// Two normal distributions 2 deviations apart have an AUC of 0.92; the standard error
		// over 400 and 200 users is 0.02.
		if auc := v.of(attack.name).Members.AUC.Value; !(auc > 0.85 && auc > plain+0.1) {
			t.Errorf("%s has AUC %.3f, the loss %.3f", attack.name, auc, plain)
		}
	}
	if v.LeftOut != 1 || v.Members+v.Sharers+v.HeldOut != 599 || v.References != 16 {
		t.Errorf("%+v", v)
	}
}

// Reference models that all say the same divide nothing by 0.
func TestEqualReferenceModelsGiveFiniteScores(t *testing.T) {
	t.Parallel()
	losses := []UserLoss{{Targets: 1, Loss: 2, Member: true}, {Targets: 1, Loss: 3}, {Targets: 1, Loss: 2}}
	w := newWorld(losses, 1)
	for model := range 4 {
		must.Do(t, w.refer(losses, []bool{model%2 == 0, model%2 == 1, model%2 == 0}))
	}
	w.read(slices.Repeat([]UserText{NewUserText(nil, nil)}, len(losses)))
	for _, attack := range attacks {
		for _, s := range attack.scores(w) {
			if math.IsNaN(s) || math.IsInf(s, 0) {
				t.Errorf("%s: scores %v", attack.name, attack.scores(w))
			}
		}
	}
}

// lossesOf returns a blob of users with 3 targets each, the first half of whom trained.
func lossesOf(t *testing.T, users int) map[string][]byte {
	list := lists.Make(users, func(user int) UserLoss { return UserLoss{Targets: 3, Loss: float64(user), Member: user < users/2} })
	return map[string][]byte{LossesBlob: must.Get(json.Marshal(list))(t)}
}

func TestReferenceModelsOfOtherUsersAreRejected(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	audited := g.Put("audited", map[string][]byte{LossesBlob: []byte(`[{"targets":3,"loss":1,"member":true},{"targets":2,"loss":1}]`)})
	of := g.Put("other", lossesOf(t, 2))
	_, err := g.Try(Kind, Params{Shares: 1, References: 4}, taskstest.In(tasks.PartInput(0), audited), taskstest.In(ReferenceInput(0, 0), of))
	if want := "reference model 0: user 1 has 3 targets; expected 2, as under the audited model"; err == nil || !strings.Contains(err.Error(), want) || !tasks.IsPermanent(err) {
		t.Errorf("error %v, want a permanent one: %s", err, want)
	}
}

// A share of another length is damage of the store, even if another share makes up for it.
func TestSharesOfWrongLengthAreDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		audited, reference []int
		audit, each        string
	}{
		{[]int{2, 4}, []int{3, 3}, "part-0 ends with user 2 of 6; expected 3", "part-0 ends with user 2 of 6; expected 3"},
		{[]int{3, 3}, []int{2, 4}, "reference-0-part-0 ends with user 2 of 6; expected 3", "reference-0-part-0 has losses of 2 users; expected those of 3"},
		{[]int{3, 3}, []int{2, 3}, "reference model 0: losses of 5 users; expected those of 6", "reference-0-part-0 has losses of 2 users; expected those of 3"},
	} {
		g := taskstest.NewGraph(t)
		var edges []taskstest.Edge
		for share := range 2 {
			edges = append(edges, taskstest.In(tasks.PartInput(share), g.Put(fmt.Sprint("audited", share), lossesOf(t, c.audited[share]))),
				taskstest.In(ReferenceInput(0, share), g.Put(fmt.Sprint("reference", share), lossesOf(t, c.reference[share]))))
		}
		p := Params{Shares: 2, References: 4}
		_, audit := g.Try(Kind, p, edges...)
		each := p.EachUser(t.Context(), g.Task(edges...), func(User) error { return nil })
		wants := []string{c.audit, c.each}
		for i, err := range []error{audit, each} {
			if err == nil || !strings.Contains(err.Error(), wants[i]) || !errors.Is(err, storage.ErrCorrupt) || tasks.IsPermanent(err) {
				t.Errorf("shares of %v and %v users: error %v, want %s", c.audited, c.reference, err, wants[i])
			}
		}
	}
}

// The losses under reference models of a share's users are read after the users of the shares before it are done:
// those of all users may exceed the memory.
func TestEachUserReadsOneShareOfTheReferencesAtATime(t *testing.T) {
	t.Parallel()
	const shares, users = 3, 7
	g := taskstest.NewGraph(t)
	var edges []taskstest.Edge
	references := make([][]*taskstest.Node, shares)
	for share := range shares {
		first, end := (&utility.UserShare{Share: share, Shares: shares}).Users(users)
		edges = append(edges, taskstest.In(tasks.PartInput(share), g.Put(fmt.Sprint("audited", share), lossesOf(t, end-first))))
		for model := range 4 {
			node := g.Put(fmt.Sprint("reference", model, share), lossesOf(t, end-first))
			references[share] = append(references[share], node)
			edges = append(edges, taskstest.In(ReferenceInput(model, share), node))
		}
	}
	p, user := Params{Shares: shares, References: 4, Seed: 1}, 0
	must.Do(t, p.EachUser(t.Context(), g.Task(edges...), func(u User) error {
		for share, nodes := range references {
			first, end := (&utility.UserShare{Share: share, Shares: shares}).Users(users)
			for model, node := range nodes {
				if read := g.BytesRead(node, LossesBlob) > 0; read != (first <= user) {
					t.Errorf("user %d: share %d of reference model %d is read: %v", user, share, model, read)
				}
				if want := (ReferenceLoss{float64(user - first), p.trained(model, users)[user]}); first <= user && user < end && u.References[model] != want {
					t.Errorf("user %d, reference model %d: %v, want %v", user, model, u.References[model], want)
				}
			}
		}
		user++
		return nil
	}))
	if user != users {
		t.Errorf("%d users, want %d", user, users)
	}
}

// variance has one less than the number of values in the divisor; 0 of a single one.
func variance(values []float64) float64 {
	m, squares := mean(values), 0.0
	for _, v := range values {
		squares += (v - m) * (v - m)
	}
	return squares / float64(max(1, len(values)-1))
}
