package linking

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/updates/observed/observedtest"
	"coalmine/tasks/audits/updates/pairs"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

// federation is of users who are all seen, each with an anonymous device and a shadow.
func federation(users, rounds, cohort int, own float64) (split []devices.Device, list []updates.Update) {
	return observedtest.Federation{Users: users, Rounds: rounds, Cohort: cohort, Own: own, Common: 5}.Make()
}

func linked(t *testing.T, p Params, split []devices.Device, list []updates.Update) (*Outcome, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	half := len(list) / 2
	v, _, err := auditstest.Measured[Outcome](g, Kind, p, observedtest.Inputs(g, observedtest.Layout, split, list[:half], list[half:])...)
	return v, err
}

// No more updates can be linked than anonymous devices send.
func TestWorkIsBoundedByRecordedUpdates(t *testing.T) {
	t.Parallel()
	s := &audits.Setting{Training: audits.Training{Rounds: 10, Cohort: 9}, Recorded: &audits.Recorded{Recording: updates.Recording{Every: 2}, Layout: observedtest.Layout}}
	work := func(updates int) float64 { return (&Fields{&Block{Updates: updates}}).Work(s) }
	if sent := s.RecordedUpdates() / 2; sent < 20 || work(2000) != work(1000) || work(10) <= 0 || math.Abs(work(2000)/work(10)-sent*sent/100) > 1e-9 {
		t.Errorf("%v updates: work %g of 2000, %g of 1000, %g of 10", sent, work(2000), work(1000), work(10))
	}
}

func TestDifferentDevicesAreLinked(t *testing.T) {
	t.Parallel()
	split, list := federation(12, 40, 8, 6)
	v := must.Get(linked(t, Params{Seed: 1, Updates: 1000, Pairs: 2000}, split, list))(t)
	if v.Devices != 12 || v.Updates != v.All || v.Updates >= len(list) {
		t.Errorf("outcome %+v counts wrongly", v)
	}
	if v.Pairs.AP.Value < 0.97 || v.Next.Share < 0.9 || v.Next.Chance > 0.2 || v.Clusters.RandIndex < 0.9 || v.Clusters.Clusters != 12 {
		t.Errorf("outcome %+v of devices that differ much", v)
	}
}

// Without anything of their own devices can't be followed. The interval of the area is one of
// 95%; the seed is fixed.
func TestEqualDevicesAreLinkedByChance(t *testing.T) {
	t.Parallel()
	split, list := federation(12, 60, 10, 0)
	v := must.Get(linked(t, Params{Seed: 1, Updates: 1000, Pairs: 4000}, split, list))(t)
	if v.Pairs.AUC.Low > 0.5 || v.Pairs.AUC.High < 0.5 || math.Abs(v.Pairs.AP.Value-0.5) > 0.05 {
		t.Errorf("pairs %+v of devices that are alike", v.Pairs)
	}
	sd := math.Sqrt(v.Next.Chance * (1 - v.Next.Chance) / float64(v.Next.Of))
	if math.Abs(v.Next.Share-v.Next.Chance) > 4*sd || math.Abs(v.Clusters.RandIndex) > 0.05 || math.Abs(v.Clusters.F1-v.Clusters.ChanceF1) > 0.05 {
		t.Errorf("outcome %+v of devices that are alike", v)
	}
}

func TestUpdatesAreBoundedByDevices(t *testing.T) {
	t.Parallel()
	split, list := federation(12, 40, 8, 6)
	p := Params{Seed: 1, Updates: 60, Pairs: 200}
	v := must.Get(linked(t, p, split, list))(t)
	if v.Updates > 60 || v.Updates < 40 || v.Devices >= 12 || v.Devices < 2 {
		t.Errorf("%d updates of %d devices were looked at", v.Updates, v.Devices)
	}
	p.Updates = 1
	if _, err := linked(t, p, split, list); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "raise audit.linking.updates") {
		t.Errorf("too few updates give %v", err)
	}
	if _, err := linked(t, Params{Seed: 1, Updates: 60, Pairs: 10}, split, list[:8]); err == nil || !strings.Contains(err.Error(), "more rounds") {
		t.Errorf("one round gives %v", err)
	}
}

// The columns that are in memory at a time change the sums by roundings alone.
func TestSimilaritiesMatchPlainLoop(t *testing.T) {
	t.Parallel()
	split, list := federation(6, 12, 7, 1)
	g := taskstest.NewGraph(t)
	task := g.Task(observedtest.Inputs(g, observedtest.Layout, split, list)...)
	p := Params{}
	r := must.Get(p.Open(t.Context(), task))(t)
	c := collection{reader: r}
	must.Do(t, c.choose(t.Context(), 1, 1000))
	got := must.Get(c.similarities(t.Context(), task))(t)
	want := plainSimilarities(split, list)
	if len(want) != got.n {
		t.Fatalf("%d updates, want %d", got.n, len(want))
	}
	for i := range want {
		for j := range i {
			if math.Abs(float64(got.at(i, j))-want[i][j]) > 1e-5 {
				t.Fatalf("similarity of %d and %d is %v, want %v", i, j, got.at(i, j), want[i][j])
			}
		}
	}
}

func plainSimilarities(split []devices.Device, list []updates.Update) [][]float64 {
	var rows [][]float64
	byRound := map[int][]int{}
	for _, u := range list {
		if split[u.Device].Shadow {
			continue
		}
		row, norm := make([]float64, observedtest.Values), 0.0
		for _, v := range u.Values {
			norm += float64(v) * float64(v)
		}
		for i, v := range u.Values {
			row[i] = float64(v) / math.Sqrt(norm)
		}
		byRound[u.Round] = append(byRound[u.Round], len(rows))
		rows = append(rows, row)
	}
	for _, members := range byRound {
		for i := range observedtest.Values {
			mean := 0.0
			for _, m := range members {
				mean += rows[m][i] / float64(len(members))
			}
			for _, m := range members {
				rows[m][i] -= mean
			}
		}
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	all := make([][]float64, len(rows))
	for i, a := range rows {
		for _, b := range rows[:i] {
			if product := dot(a, a) * dot(b, b); product > 1e-20 {
				all[i] = append(all[i], dot(a, b)/math.Sqrt(product))
			} else {
				all[i] = append(all[i], 0)
			}
		}
	}
	return all
}

// greedy merges the two most similar clusters again and again, by the mean similarity of
// their members.
func greedy(list []pairs.Update, s *square, count int) [][]int {
	var clusters [][]int
	for i := range list {
		clusters = append(clusters, []int{i})
	}
	similarity := func(a, b []int) float64 {
		sum := 0.0
		for _, i := range a {
			for _, j := range b {
				if list[i].Round == list[j].Round {
					return math.Inf(-1)
				}
				sum += float64(s.at(i, j))
			}
		}
		return sum / float64(len(a)*len(b))
	}
	for len(clusters) > count {
		bi, bj, best := 0, 0, math.Inf(-1)
		for i := range clusters {
			for j := range i {
				if v := similarity(clusters[i], clusters[j]); v > best {
					bi, bj, best = i, j, v
				}
			}
		}
		if math.IsInf(best, -1) {
			break
		}
		clusters[bj] = append(clusters[bj], clusters[bi]...)
		clusters = slices.Delete(clusters, bi, bi+1)
	}
	return clusters
}

func TestChainsOfNeighboursGiveTheGreedyClusters(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100 {
		n := 2 + rng.IntN(25)
		s, list := &square{n, make([]float32, n*n)}, make([]pairs.Update, n)
		for i := range n {
			list[i] = pairs.Update{User: int32(i), Round: int32(rng.IntN(2 * n))}
			for j := range i {
				s.set(i, j, rng.Float32()*2-1)
			}
		}
		count := 1 + rng.IntN(n)
		want := greedy(list, s, count)
		got := cluster(list, s, count)
		for _, members := range want {
			for _, m := range members {
				if got[m] != got[members[0]] {
					t.Fatalf("%v: updates %d and %d are apart, want clusters %v", got, m, members[0], want)
				}
			}
		}
		distinct := slices.Compact(slices.Sorted(slices.Values(got)))
		if len(distinct) != len(want) {
			t.Fatalf("%d clusters, want %d", len(distinct), len(want))
		}
	}
}

// The first two are examples of adjusted_rand_score in scikit-learn's documentation.
func TestClustersAreComparedByPairs(t *testing.T) {
	t.Parallel()
	of := func(users ...int32) (list []pairs.Update) {
		for i, u := range users {
			list = append(list, pairs.Update{User: u, Round: int32(i)})
		}
		return list
	}
	for _, c := range []struct {
		list                             []pairs.Update
		clusters                         []int
		index, precision, recall, chance float64
	}{
		{of(0, 0, 1, 2), []int{0, 0, 1, 1}, 0.5714285714, 0.5, 1, 2 * (2.0 / 6) / 3},
		{of(0, 0, 1, 1), []int{0, 0, 1, 2}, 0.5714285714, 1, 0.5, 2 * (2.0 / 6) / 3},
		{of(0, 0, 1, 1), []int{5, 5, 3, 3}, 1, 1, 1, 2 * (4.0 / 6) / 4},
		{of(0, 0, 0, 0), []int{0, 1, 2, 3}, 0, 0, 0, 0},
	} {
		got := compare(c.list, c.clusters)
		if math.Abs(got.RandIndex-c.index) > 1e-9 || got.Precision != c.precision || got.Recall != c.recall || math.Abs(got.ChanceF1-c.chance) > 1e-12 {
			t.Errorf("%v of %v: %+v, want %+v", c.clusters, c.list, got, c)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	split, list := federation(5, 10, 6, 1)
	g := taskstest.NewGraph(t)
	taskstest.Golden(t, g.Run(Kind, Params{Seed: 1, Updates: 1000, Pairs: 100}, observedtest.Inputs(g, observedtest.Layout, split, list)...))
}

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{}
	v.Pairs.Users = 30
	v.Pairs.AP.Value, v.Pairs.AP.Low = 0.9, 0.8
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.5: {"the AP of linked updates is 1.8 times chance; at least it is 1.6, above the limit of 1.5"},
		1.7: nil,
	})
}
