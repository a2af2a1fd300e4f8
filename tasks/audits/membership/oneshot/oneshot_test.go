package oneshot

import (
	"encoding/json"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// population is one of some users.
func partitioned(t *testing.T) (g *taskstest.Graph, parts, pop *taskstest.Node) {
	t.Helper()
	g = taskstest.NewGraph(t)
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import(taskstest.Text(200))}})
	parts = g.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: 30}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{Words: 60}, taskstest.In(population.PartsInput, parts))
	pop = g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	return g, parts, pop
}

func TestCanaryClientsAreUsersWithoutData(t *testing.T) {
	t.Parallel()
	g, parts, before := partitioned(t)
	after := g.Run(Clients, ClientsParams{Clients: 7}, taskstest.In(PopulationInput, before))
	taskstest.Golden(t, after)
	open := func(n *taskstest.Node) *population.Population {
		return must.Get(population.Open(t.Context(), g.Task(taskstest.In("p", n), taskstest.In("s", parts)), "p", "s"))(t)
	}
	old, extended := open(before), open(after)
	if extended.Users() != old.Users()+7 || extended.Records() != old.Records() {
		t.Fatalf("%d users with %d records, and %d with %d before", extended.Users(), extended.Records(), old.Users(), old.Records())
	}
	var counts population.PartitionMetrics
	after.DecodeMetrics(&counts)
	if counts.Users != extended.Users() {
		t.Errorf("cohorts are drawn from %d users, and %d are accounted for", extended.Users(), counts.Users)
	}
	for user := range extended.Users() {
		examples, err := extended.ReadUser(t.Context(), user)
		if err != nil || (len(examples) == 0) != (user >= old.Users()) {
			t.Errorf("user %d of %d has %d examples (%v)", user, old.Users(), len(examples), err)
		}
	}
}

func TestClientsKeepCoinsOfOtherAudits(t *testing.T) {
	t.Parallel()
	g, _, before := partitioned(t)
	coins := []byte(`[{"canary":0,"user":1,"example":-1,"included":true}]`)
	blobs := map[string][]byte{audits.UnitsBlob: coins}
	for _, name := range []string{population.MembersIndexBlob, population.CanariesBlob, population.OverlayBlob} {
		blobs[name] = before.Blob(name)
	}
	planted := g.Put("planted", blobs)
	planted.Metrics = before.Metrics
	for _, with := range []bool{false, true} {
		n := g.Run(Clients, ClientsParams{Clients: 7, Coins: with}, taskstest.In(PopulationInput, planted))
		var units []audits.Unit
		must.Do(t, json.Unmarshal(n.Blob(audits.UnitsBlob), &units))
		if len(units) == 1 != with {
			t.Errorf("coins %v: %+v", with, units)
		}
	}
}

func TestAPopulationNeedsAClientMore(t *testing.T) {
	t.Parallel()
	g, _, before := partitioned(t)
	if _, err := g.Try(Clients, ClientsParams{}, taskstest.In(PopulationInput, before)); !tasks.IsPermanent(err) {
		t.Errorf("got %v, want a permanent error", err)
	}
}

// followed is a made-up checkpoint: initial weights of another seed and these cosines.
func followed(t *testing.T, g *taskstest.Graph, config models.Config, largest []float32) (initial, trained *taskstest.Node) {
	t.Helper()
	initial = g.Run(training.Initial, training.InitialParams{Seed: 3, Model: config})
	other := g.Run(training.Initial, training.InitialParams{Seed: 4, Model: config})
	data := must.Get(safetensors.Marshal([]safetensors.Tensor{{Name: canaries.LargestTensor, Shape: []int{len(largest)}, Float32: largest}}, nil))(t)
	return initial, g.Put("trained", map[string][]byte{tasks.ModelBlob: other.Blob(tasks.ModelBlob), canaries.LargestBlob: data})
}

func TestTheOutcomeRestsOnTheCosines(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	config := models.Config{Kind: models.CIFGLSTM, Vocabulary: 60, Embedding: 16, Units: 16}
	initial, trained := followed(t, g, config, []float32{0.1, 0.2, 0.15, 0.01, 0.02})
	n := g.Run(Estimator, EstimateParams{Seed: 9, Canaries: 3, Final: true, Watch: &canaries.Watch{Canaries: 3, Unseen: 2}, Delta: 1e-3, Unit: "user"},
		taskstest.In(audits.ModelInput, trained), taskstest.In(InitialInput, initial))
	taskstest.Golden(t, n)
	var v Outcome
	must.Do(t, json.Unmarshal(n.Blob(OutcomeBlob), &v))
	if len(v.Clients) != 5 || v.Clients[2].FinalCosine == nil || v.Clients[3].FinalCosine != nil || v.Clients[3].Seen || *v.Clients[1].LargestCosine != float64(float32(0.2)) {
		t.Errorf("clients %+v", v.Clients)
	}
	before, after := checkpoint(t, initial), checkpoint(t, trained)
	for i := range before {
		after[i] -= before[i]
	}
	for i, want := range (canaries.Directions{Seed: 9}).Cosines(after, 0, 3) {
		if got := *v.Clients[i].FinalCosine; got != want {
			t.Errorf("canary %d has the cosine %v, want %v", i, got, want)
		}
	}
	if v.Final.Epsilon < 0 || v.AllIterates.Epsilon < 10 || v.Dimension != len(before) {
		t.Errorf("outcome %+v %+v", v.Final, v.AllIterates)
	}
}

func checkpoint(t *testing.T, n *taskstest.Node) []float32 {
	t.Helper()
	m := must.Get(checkpoints.Decode(n.Blob(tasks.ModelBlob)))(t)
	return slices.Clone(m.Params)
}

func TestCosinesOfAnotherAuditAreRejected(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	initial, trained := followed(t, g, models.Config{Kind: models.CIFGLSTM, Vocabulary: 20, Embedding: 4, Units: 4}, make([]float32, 4))
	_, err := g.Try(Estimator, EstimateParams{Canaries: 3, Watch: &canaries.Watch{Canaries: 3, Unseen: 2}, Delta: 1e-3},
		taskstest.In(audits.ModelInput, trained), taskstest.In(InitialInput, initial))
	if !tasks.IsPermanent(err) {
		t.Errorf("got %v, want a permanent error", err)
	}
}
