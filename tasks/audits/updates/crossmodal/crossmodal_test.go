package crossmodal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/observed/observedtest"
	"coalmine/tasks/audits/updates/pairs"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

func params() pairs.Params {
	return pairs.Params{Seed: 1, Pairs: 2000, Units: 32, Epochs: 40, Batch: 32, LearningRate: 1e-3, Updates: 4000, Centre: true}
}

// otherForm returns vectors of 12 values, a random linear map of the mean of each user's
// updates: the user's signal in another form.
func otherForm(split []devices.Device, list []updates.Update) *Vectors {
	const values = 12
	rng := rand.New(rand.NewPCG(5, 1))
	means, counts := map[int][]float64{}, map[int]float64{}
	for _, u := range list {
		user := split[u.Device].User
		if means[user] == nil {
			means[user] = make([]float64, len(u.Values))
		}
		counts[user]++
		for i, x := range u.Values {
			means[user][i] += float64(x)
		}
	}
	matrix := make([]float64, values*observedtest.Values)
	for i := range matrix {
		matrix[i] = rng.NormFloat64()
	}
	v := &Vectors{Values: values}
	for user := range len(split) {
		if means[user] == nil {
			continue
		}
		v.Users = append(v.Users, user)
		for i := range values {
			sum := 0.0
			for j, x := range means[user] {
				sum += matrix[i*observedtest.Values+j] * x / counts[user]
			}
			v.rows = append(v.rows, float32(sum))
		}
	}
	return v
}

func match(t *testing.T, p pairs.Params, v *Vectors, split []devices.Device, list []updates.Update) (*Outcome, *taskstest.Node, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	data := must.Get(binary.Append(nil, binary.LittleEndian, v.rows))(t)
	users := must.Get(json.Marshal(v))(t)
	vectors := g.Put("vectors", map[string][]byte{UsersBlob: users, VectorsBlob: data})
	return auditstest.Measured[Outcome](g, Kind, p, append(observedtest.Inputs(g, observedtest.Layout, split, list), taskstest.In(VectorsInput, vectors))...)
}

// Also of users of whom the network has seen nothing before but updates that are not theirs.
func TestUpdatesAndVectorsAreMatched(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 150, Rounds: 150, Cohort: 40, Own: 4, Common: 1, Unseen: 30}.Make()
	v, _, err := match(t, params(), otherForm(split, list), split, list)
	if err != nil {
		t.Fatal(err)
	}
	if v.Users != 150 || v.Values != 12 || v.Learned.Users != 96 || v.Learned.ValidationUsers != 24 || len(v.Learned.Course) != 40 {
		t.Errorf("learned %+v of %d users", v.Learned, v.Users)
	}
	for what, m := range map[string]*pairs.Measurement{"anonymous": v.Anonymous, "seen": v.Seen, "unseen": v.Unseen} {
		if m == nil || m.AP.Low < 0.7 || m.AUC.Value < 0.75 || m.Pairs != 2000 || m.Same != 1000 {
			t.Errorf("%s: %+v", what, m)
		}
	}
	if len(v.Curve) != 100 || v.Curve[9] < 0.95 || v.Curve[99] > v.Curve[9] {
		t.Errorf("curve %v", v.Curve)
	}
}

// Vectors that say nothing of their users are told by chance of users that were not learned
// from. Four standard deviations, by the interval, are passed with probability 6e-5; the seed is
// fixed.
func TestUnrelatedVectorsAreMatchedByChance(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 60, Rounds: 100, Cohort: 20, Own: 3, Common: 1, Unseen: 24}.Make()
	v := otherForm(split, list)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range v.rows {
		v.rows[i] = float32(rng.NormFloat64())
	}
	p := params()
	p.Epochs = 5
	found, _, err := match(t, p, v, split, list)
	if err != nil {
		t.Fatal(err)
	}
	if m := found.Unseen; math.Abs(m.AUC.Value-0.5) > 4*(m.AUC.High-m.AUC.Low)/(2*1.96) {
		t.Errorf("unseen users: %+v", m)
	}
}

func TestMeasurementsMatchScoredPairs(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 12, Rounds: 40, Cohort: 10, Own: 2, Common: 1, Unseen: 3, HeldOut: 2}.Make()
	p := params()
	p.Pairs, p.Epochs = 300, 2
	v, n, err := match(t, p, otherForm(split, list), split, list)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Scored{}
	must.Do(t, json.Unmarshal(n.Blob(PairsBlob), &all))
	for what, m := range map[string]*pairs.Measurement{"anonymous": v.Anonymous, "seen": v.Seen, "unseen": v.Unseen} {
		s := all[what]
		var list []pairs.Pair
		for i := range s.Scores {
			list = append(list, pairs.Pair{A: s.Users[i], B: s.Vectors[i], Score: s.Scores[i]})
			if i%2 == 0 && s.Users[i] != s.Vectors[i] || i%2 == 1 && (s.Users[i] == s.Vectors[i] || s.Users[i] != s.Users[i-1]) {
				t.Errorf("%s: pair %d is of users %d and %d", what, i, s.Users[i], s.Vectors[i])
			}
		}
		if ap, err := pairs.AveragePrecision(list); err != nil || len(list) != 300 || ap != m.AP.Value {
			t.Errorf("%s: AP %g of %d stored pairs, %+v in the verdict", what, ap, len(list), m)
		}
	}
}

func TestCentredVectorsHaveNoMeanAndLengthOne(t *testing.T) {
	t.Parallel()
	v := &Vectors{Users: []int{0, 1}, Values: 2, rows: []float32{1, 5, 3, 5}}
	v.prepare(true, false)
	if !slices.Equal(v.rows, []float32{-1, 0, 1, 0}) {
		t.Errorf("centred vectors %v", v.rows)
	}
	v.rows = []float32{3, 4, 0, 0}
	v.prepare(false, false)
	if !slices.Equal(v.rows, []float32{0.6, 0.8, 0, 0}) {
		t.Errorf("normalized vectors %v", v.rows)
	}
	v.rows = []float32{3, 4, 0, 0}
	v.prepare(false, true)
	if !slices.Equal(v.rows, []float32{3, 4, 0, 0}) {
		t.Errorf("raw vectors %v", v.rows)
	}
}

func TestTooFewUsersAreRejected(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 3, Rounds: 30, Cohort: 4, Own: 1, Common: 1}.Make()
	_, _, err := match(t, params(), otherForm(split, list), split, list)
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "only 1 have sent") {
		t.Errorf("error %v", err)
	}
}

// population has four users, u0 to u3, with the given number of examples each.
func partitioned(t *testing.T, g *taskstest.Graph) (corpus, parts, users *taskstest.Node) {
	t.Helper()
	var text strings.Builder
	for i := range 12 {
		fmt.Fprintf(&text, `{"user":"u%d","text":"w%d w%d unknown"}`+"\n", i%4, i%4, i%3)
	}
	corpus = g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text.String()))}})
	parts = g.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: 4}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, parts))
	users = g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	return corpus, parts, users
}

func readAll(t *testing.T, g *taskstest.Graph, n *taskstest.Node) *Vectors {
	t.Helper()
	return must.Get(readVectors(t.Context(), g.Task(taskstest.In(VectorsInput, n))))(t)
}

func given(t *testing.T, lines string) (*taskstest.Graph, *taskstest.Node, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	corpus, parts, users := partitioned(t, g)
	n, err := g.Try(Given, GivenParams{Sources: []storage.Digest{g.Import([]byte(lines))}},
		taskstest.In(datasets.CorpusInput, corpus), taskstest.In(population.PartsInput, parts), taskstest.In(population.Input, users))
	return g, n, err
}

func TestGivenVectorsAreFoundByTheNamesOfUsers(t *testing.T) {
	t.Parallel()
	g, n, err := given(t, `{"user": "u3", "embedding": [1, 2]}
{"user": "nobody", "embedding": [9, 9]}
{"user": "u1", "embedding": [3, 4]}
{"user": "u3", "embedding": [2, 2]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if v := readAll(t, g, n); !slices.Equal(v.Users, []int{1, 3}) || v.Values != 2 || !slices.Equal(v.rows, []float32{3, 4, 1.5, 2}) {
		t.Errorf("vectors %+v", v)
	}
	taskstest.Golden(t, n)
}

func TestVectorsOfUnknownUsersAreRejected(t *testing.T) {
	t.Parallel()
	_, _, err := given(t, `{"user": "v", "embedding": [1, 2]}`)
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), `such as "v"`) || !strings.Contains(err.Error(), `such as "u0"`) {
		t.Errorf("error %v", err)
	}
}

// The definition once more, by loops over tokens.
func TestWordVectorsAreMeansOverTheWordsOfShadowDevices(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	_, parts, users := partitioned(t, g)
	split := []devices.Device{{User: 1, Set: devices.Seen}, {User: 1, Set: devices.Seen, Shadow: true}, {User: 0, Set: devices.Seen, Shadow: true}, {User: 2, Set: devices.Unseen}}
	list := must.Get(json.Marshal(split))(t)
	model := g.Run(training.Initial, training.InitialParams{Seed: 4, Model: models.Config{Kind: models.LSTM, Vocabulary: 8, Embedding: 3, Units: 3}})
	n := g.Run(OfWords, struct{}{}, taskstest.In(audits.ModelInput, model), taskstest.In(observed.DevicesInput, g.Put("split", map[string][]byte{devices.DevicesBlob: list})),
		taskstest.In(population.Input, users), taskstest.In(population.ShardsInput, parts))
	v := readAll(t, g, n)
	if !slices.Equal(v.Users, []int{0, 1}) || v.Values != 3 {
		t.Fatalf("vectors %+v", v)
	}
	m := must.Get(checkpoints.Decode(model.Blob(tasks.ModelBlob)))(t)
	devicesOf := must.Get(population.Open(t.Context(), g.Task(taskstest.In("p", users), taskstest.In("s", parts)), "p", "s"))(t)
	for i, device := range []int{2, 1} {
		examples := must.Get(devicesOf.ReadUser(t.Context(), device))(t)
		var words []int32
		for _, token := range slices.Concat(examples...) {
			if token >= text.FirstWord {
				words = append(words, token)
			}
		}
		for j, got := range v.Row(i) {
			want := 0.0
			for _, w := range words {
				want += float64(m.Params[3*int(w)+j]) / float64(len(words))
			}
			if len(words) == 0 || math.Abs(float64(got)-want) > 1e-7 {
				t.Errorf("user %d, value %d: %g, want %g, the mean over %d words", v.Users[i], j, got, want, len(words))
			}
		}
	}
	taskstest.Golden(t, n)
}

func TestOutcomeTextsFigureAndNote(t *testing.T) {
	t.Parallel()
	empty := new(Outcome)
	if texts := auditstest.Texts(&Audit, empty); !slices.Equal(texts, []string{"-", ""}) || empty.Figure(nil) != nil || !strings.HasPrefix(empty.Note(nil), "cross-modal: ") {
		t.Errorf("an empty verdict says %q, %q", texts, empty.Note(nil))
	}
	m := pairs.Measurement{Pairs: 10, Users: 30, AP: audits.Interval{Value: 0.76, Low: 0.7, High: 0.8}}
	unseen := m
	v := &Outcome{Anonymous: &m, Unseen: &unseen, Curve: []float64{1, 0.5}}
	v.Learned.Networks = audits.NewEstimate([]float64{0.7, 0.8})
	if rows := v.attackRows(); rows[0].NetworksAP == nil || *rows[0].NetworksAP != 0.75 || rows[len(rows)-1].NetworksAP != nil || auditstest.Value(&Audit, v, "cross_modal_networks_ap") != 0.75 {
		t.Errorf("rows %+v of two networks with APs of 0.7 and 0.8", rows)
	}
	if texts := auditstest.Texts(&Audit, v); !slices.Equal(texts, []string{"76.0", "76.0"}) || len(v.Figure(nil).Line) != 2 || !strings.Contains(v.Note(nil), "of unseen users: AP 76.0 (70.0 to 80.0)") {
		t.Errorf("a verdict says %q, %q", texts, v.Note(nil))
	}
	cell := &audits.Cell{Outcomes: []audits.Outcome{v}}
	if b := limits[0].Breaches(cell, new(1.3)); len(b) != 1 || b[0] != "the AP of updates and vectors is 1.52 times chance; at least it is 1.4, above the limit of 1.3" {
		t.Errorf("breaches %q", b)
	}
	if b := limits[0].Breaches(cell, new(1.5)); len(b) > 0 {
		t.Errorf("breaches %q", b)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 10, Rounds: 30, Cohort: 8, Own: 1, Common: 1, Unseen: 2, HeldOut: 3}.Make()
	p := params()
	p.Pairs, p.Epochs, p.Centre = 100, 2, false
	_, n, err := match(t, p, otherForm(split, list), split, list)
	if err != nil {
		t.Fatal(err)
	}
	taskstest.Golden(t, n)
}
