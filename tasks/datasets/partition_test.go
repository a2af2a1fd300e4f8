package datasets

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// canaryEvery replaces every nth example of the balanced users, canaries in turn.
func canaryEvery(t *testing.T, balanced *taskstest.Node, n, canaries int) population.Overlay {
	t.Helper()
	index := must.Get(population.DecodeIndex(balanced.Blob(population.MembersIndexBlob)))(t)
	var o population.Overlay
	for i := 0; i < index.Counts().Examples; i += n {
		u, e := index.Find(i)
		o = append(o, population.Replacement{User: u, Example: e, Canary: len(o) % canaries})
	}
	return o
}

func testPipeline(t *testing.T, seed uint64) pipeline {
	t.Helper()
	return runPipeline(t, jsonLines(randomLines(rand.New(rand.NewPCG(seed, 2)), 700)), smallRecipe)
}

// checkWords compares the words that the index announces with those read.
func checkWords(t *testing.T, p *population.Population) {
	t.Helper()
	for u := range p.Users() {
		sentences := must.Get(p.ReadUser(t.Context(), u))(t)
		words := 0
		for _, s := range sentences {
			words += len(s) - 1
			if s[len(s)-1] == text.End {
				words--
			}
		}
		if words != p.Words(u) || len(sentences) != p.Examples(u) {
			t.Errorf("user %d has %d words in %d examples; the index says %d in %d", u, words, len(sentences), p.Words(u), p.Examples(u))
		}
	}
}

func TestByUserKeepsBalancedUsersAndLaysCanariesOver(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, 1)
	plain := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
	checkWords(t, plain)

	o := canaryEvery(t, p.balanced, 10, 3)
	node := p.partition(population.PartitionParams{Partition: population.ByUser}, taskstest.In(population.InsertionsInput, p.insert(t, o, 3)))
	if slices.ContainsFunc(node.Names(), func(name string) bool { return strings.HasPrefix(name, "train") }) {
		t.Errorf("by-user rewrote data: %v", node.Names())
	}
	population := p.open(t, node, population.ByUser)
	checkWords(t, population)
	want := everySentence(t, t.Context(), plain)
	got := everySentence(t, t.Context(), population)
	for i := range want {
		if i%10 == 0 {
			want[i] = [...]string{"[2 4 4 4 4 3]", "[2 5 5 5 5 3]", "[2 6 6 6 6 3]"}[i/10%3]
		}
	}
	if !slices.Equal(got, want) {
		t.Error("the population is not the balanced users with canaries in their places")
	}
	checkPlacements(t, p, node, population)
}

// checkPlacements recounts holders and insertions from the sentences.
func checkPlacements(t *testing.T, p pipeline, node *taskstest.Node, pop *population.Population) {
	t.Helper()
	list := must.Get(population.ReadPlacements(t.Context(), p.Task(taskstest.In("population", node)), "population"))(t)
	total := 0
	for _, c := range list {
		holders, insertions := 0, 0
		for u := range pop.Users() {
			sentences := must.Get(pop.ReadUser(t.Context(), u))(t)
			copies := 0
			for _, s := range sentences {
				if slices.Equal(s, text.Frame(nil, c.Tokens, text.SentenceWords)) {
					copies++
				}
			}
			insertions += copies
			holders += min(copies, 1)
		}
		if c.Holders != holders || c.Insertions != insertions {
			t.Errorf("canary %d: %d holders of %d copies recorded, found %d of %d", c.Number, c.Holders, c.Insertions, holders, insertions)
		}
		total += insertions
	}
	var m population.PartitionMetrics
	node.DecodeMetrics(&m)
	if m.ReplacedExamples != total || m.Users != pop.Users() || m.Examples != pop.Records() {
		t.Errorf("metrics %+v; found %d canaries in %d users", m, total, pop.Users())
	}
}

func TestIIDConservesRecordsWithTheirCanaries(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		p := testPipeline(t, 20+seed)
		insertions := taskstest.In(population.InsertionsInput, p.insert(t, canaryEvery(t, p.balanced, 7, 4), 4))
		byUser := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}, insertions), population.ByUser)
		node := p.partition(population.PartitionParams{Partition: population.IID, Words: smallRecipe.Words, Seed: seed}, insertions)
		iid := p.open(t, node, population.IID)
		checkWords(t, iid)
		checkPlacements(t, p, node, iid)

		for u := range iid.Users() {
			if w := iid.Words(u); w < smallRecipe.Words || w >= smallRecipe.Words+text.SentenceWords {
				t.Errorf("seed %d: synthetic user %d has %d words", seed, u, w)
			}
		}
		checkConserved(t, everySentence(t, t.Context(), byUser), everySentence(t, t.Context(), iid))
	}
}

// checkConserved: the shuffled records are the balanced users' but for the few
// that were left when the last user stayed short.
func checkConserved(t *testing.T, before, after []string) {
	t.Helper()
	left := map[string]int{}
	for _, s := range before {
		left[s]++
	}
	for _, s := range after {
		if left[s]--; left[s] < 0 {
			t.Fatalf("record %s appears more often than before", s)
		}
	}
	if gone := len(before) - len(after); gone >= smallRecipe.Words {
		t.Errorf("%d of %d records are gone; one unfinished user cannot hold that number", gone, len(before))
	}
	if slices.Equal(before[:len(after)], after) {
		t.Error("nothing was shuffled")
	}
}

func TestPartitionRejectsUnknownPartition(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, 3)
	for want, params := range map[string]population.PartitionParams{
		`partition "random": expected one of by-user, iid`:       {Partition: "random"},
		"neither words nor seed":                                 {Partition: population.ByUser, Words: 10},
		"users.words is -1; expected at least 1, or 0 for users": {Partition: population.IID, Words: -1},
		"do not fill one user of 1000000 words":                  {Partition: population.IID, Words: 1e6},
	} {
		_, err := p.Try(population.Partition, params, taskstest.In(population.BalancedInput, p.balanced), taskstest.In(population.PartsInput, p.parts))
		if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", params, err, want)
		}
	}
}

func TestRecordsAreTheUsersExamplesOneAfterAnother(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, 4)
	population := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
	want := everySentence(t, t.Context(), population)
	if population.Records() != len(want) {
		t.Fatalf("%d records of %d", population.Records(), len(want))
	}
	for i := range want {
		s := must.Get(population.ReadRecord(t.Context(), i))(t)
		if got := sentencesText([][]int32{s}); got[0] != want[i] {
			t.Fatalf("record %d is %s, want %s", i, got[0], want[i])
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		from := rng.IntN(len(want) + 1)
		to := from + rng.IntN(len(want)-from+1)
		got := must.Get(population.ReadRecords(t.Context(), from, to))(t)
		if !slices.Equal(sentencesText(got), want[from:to]) {
			t.Fatalf("records %d to %d differ", from, to)
		}
	}
	for _, outside := range []func() error{
		func() error { _, err := population.ReadRecord(t.Context(), len(want)); return err },
		func() error { _, err := population.ReadRecords(t.Context(), 3, 2); return err },
		func() error { _, err := population.ReadUser(t.Context(), -1); return err },
	} {
		if err := outside(); !tasks.IsPermanent(err) {
			t.Errorf("reading outside: %v", err)
		}
	}
}

func TestAClientReadsOnlyItsUsers(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, 5)
	pop := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
	before := p.BytesRead(p.parts, population.ShardBlob(population.Train, 0))
	want := int64(0)
	for _, u := range []int{1, 4, 1} {
		must.Get(pop.ReadUser(t.Context(), u))(t)
	}
	for _, u := range []int{1, 4} {
		want += pop.Index().Extents[u].Length
	}
	if got := p.BytesRead(p.parts, population.ShardBlob(population.Train, 0)) - before; got != want {
		t.Errorf("read %d bytes of the shard, the two users have %d", got, want)
	}
}

func TestReplayWritesTheSameBytes(t *testing.T) {
	t.Parallel()
	run := func() []*taskstest.Node {
		p := testPipeline(t, 6)
		insertions := taskstest.In(population.InsertionsInput, p.insert(t, canaryEvery(t, p.balanced, 5, 3), 3))
		return []*taskstest.Node{
			p.corpus, p.parts, p.balanced,
			p.partition(population.PartitionParams{Partition: population.ByUser}, insertions),
			p.partition(population.PartitionParams{Partition: population.IID, Words: 60, Seed: 9}, insertions),
		}
	}
	first, second := run(), run()
	for i := range first {
		if first[i].Digest() != second[i].Digest() {
			t.Errorf("%s wrote other bytes the second time", first[i].Kind)
		}
	}
}

func TestGoldenDigests(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, 99)
	insertions := taskstest.In(population.InsertionsInput, p.insert(t, canaryEvery(t, p.balanced, 5, 3), 3))
	taskstest.Golden(t, p.corpus)
	taskstest.Golden(t, p.parts)
	taskstest.Golden(t, p.balanced)
	taskstest.Golden(t, p.Run(population.ReferenceUsers, population.ReferenceParams{Seed: 9, Model: 1}, taskstest.In(population.BalancedInput, p.balanced)))
	taskstest.Golden(t,
		p.partition(population.PartitionParams{Partition: population.ByUser}, insertions),
		p.partition(population.PartitionParams{Partition: population.IID, Words: 60, Seed: 9}, insertions))
}

// Training reads shards from the node that the entry names, so the entry and its
// node must agree on them.
func TestPartitionsWriteShardsAsRegistered(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, 5)
	for _, s := range population.Partitions() {
		if s.Summary == "" || s.Source == "" || s.Unit == "" {
			t.Errorf("the entry of %s lacks a summary, a source or a unit", s.Partition)
		}
		params := s.Params(smallRecipe.Words, smallRecipe.Seed)
		if params.Partition != s.Partition {
			t.Errorf("%s: parameters %+v", s.Partition, params)
		}
		node := p.partition(params)
		if slices.Contains(node.Names(), population.ShardBlob(population.Train, 0)) != s.Rewrites {
			t.Errorf("%s: writes shards: %v, and its entry says %v", s.Partition, !s.Rewrites, s.Rewrites)
		}
		if users := p.open(t, node, s.Partition).Users(); users == 0 {
			t.Errorf("%s: no users", s.Partition)
		}
	}
}
