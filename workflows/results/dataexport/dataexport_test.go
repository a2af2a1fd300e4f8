package dataexport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	. "coalmine/workflows/results/dataexport"
)

const small = `
name: small
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 100}, validation: {fraction: 5%}}
canaries: {words: 3, per_configuration: 2, user_probability: 5%, example_probability: [1/3, 1], held_back: 2}
model: {embedding: 3, units: 4}
training: {rounds: 3, cohort: 5, chunks: 2}
audit: {random_sampling: {references: 300}}
`

// stored is a cell of which everything is stored that its tables are made from.
type stored struct {
	Cell
	executor *localexec.Executor
}

// store resolves an experiment of one cell and runs the tasks that its tables need.
func store(t *testing.T, sets ...string) *stored {
	t.Helper()
	source := taskstest.Text(1500)
	spec := must.Get(experiment.Parse("small.yaml", []byte(small), experiment.Options{Sets: sets}))(t)
	facts := experiment.Facts{Files: []storage.Digest{storage.DigestOf(source)}, Users: 90, HeldOutUsers: 30, Examples: 1200, DistinctWords: 98, TestExamples: 150}
	must.Do(t, spec.Resolve([]experiment.Facts{facts}))
	p := must.Get(compile.Plan(spec))(t)
	s := &stored{
		Cell:     Cell{Archive: storage.NewArchive(storagetest.NewMemory()), Plan: p, Cell: &p.Cells[0], Experiment: &spec.Cells[0].Experiment},
		executor: localexec.New(p, compile.Registry(), source),
	}
	nodes, _ := p.Needed(p.Cells[0].Population)
	for _, n := range nodes {
		s.commit(t, n)
	}
	return s
}

// commit executes a node and stores its outputs.
func (s *stored) commit(t *testing.T, n *plan.Node) {
	t.Helper()
	commit := must.Get(s.executor.Execute(t.Context(), plan.Ref{Key: n.Key}))(t)
	commit.Attempt = "of the test"
	for i, b := range commit.Blobs {
		data, err := s.executor.Blob(t.Context(), n.Key, b.Name)
		if err == nil {
			commit.Blobs[i], err = s.Archive.PutBlob(t.Context(), n.Key, b.Name, data, storage.Durable)
		}
		must.Do(t, err)
	}
	if _, _, err := s.Archive.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
}

func (s *stored) metrics(t *testing.T, kind tasks.Kind, into any) {
	t.Helper()
	for key, n := range s.Plan.Nodes {
		if n.Kind != kind.Name {
			continue
		}
		c, err := s.Archive.Committed(t.Context(), key)
		if err == nil {
			err = json.Unmarshal(c.Metrics, into)
		}
		must.Do(t, err)
	}
}

// rows are those of a table, read from both formats, which must have the same.
func rows[Row any](t *testing.T, s *stored, table Table) []Row {
	t.Helper()
	var lines, file bytes.Buffer
	for format, w := range map[Format]io.Writer{JSONLines: &lines, Parquet: &file} {
		must.Do(t, s.Write(t.Context(), table, format, w))
	}
	fromParquet := must.Get(parquet.Read[Row](bytes.NewReader(file.Bytes()), int64(file.Len())))(t)
	var out []Row
	for line := range strings.Lines(lines.String()) {
		var row Row
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		must.Do(t, decoder.Decode(&row))
		out = append(out, row)
	}
	if len(out) != len(fromParquet) {
		t.Fatalf("%s: %d lines and %d rows of Parquet", table, len(out), len(fromParquet))
	}
	for i := range out {
		if a, b := fmt.Sprint(asJSON(t, out[i])), fmt.Sprint(asJSON(t, fromParquet[i])); a != b {
			t.Fatalf("%s, row %d: %s as a line, %s in Parquet", table, i, a, b)
		}
	}
	return out
}

// asJSON is a row without the difference between an empty list and none.
func asJSON(t *testing.T, row any) string {
	t.Helper()
	text := must.Get(json.Marshal(row))(t)
	return strings.ReplaceAll(string(text), "null", "[]")
}

func TestTablesOfCellFollowExperiment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets []string
		more []Table
	}{
		{nil, []Table{Canaries, References, Cohorts}},
		{[]string{"canaries=null", "audit.random_sampling=null"}, []Table{Cohorts}},
		{[]string{"canaries=null", "audit={random_sampling: null, one_run: {canaries: 20}}"}, []Table{Canaries, Cohorts}},
		{[]string{"canaries=null", "audit={random_sampling: null, one_shot: {canaries: 20, norm: 1}}", "model={embedding: 16, units: 16}"}, []Table{Cohorts}},
		{[]string{"audit={random_sampling: null, beam_search: {}}"}, []Table{Canaries, Cohorts}},
		{sgd, []Table{Canaries, References}},
		{[]string{"training.privacy={clip: 1, noise_multiplier: 1, delta: 1e-5, randomness: secret}"}, []Table{Canaries, References}},
		{recorded, []Table{Cohorts, Devices, Updates}},
		{audited, []Table{Cohorts, Memberships}},
	} {
		spec, err := experiment.Parse("small.yaml", []byte(small), experiment.Options{Sets: c.sets})
		if err != nil {
			t.Fatalf("%s: %v", c.sets, err)
		}
		want := append([]Table{Vocabulary, Parts, Population}, c.more...)
		if got := Tables(&spec.Cells[0].Experiment); !slices.Equal(got, want) {
			t.Errorf("%s: tables %v, want %v", c.sets, got, want)
		}
	}
}

var (
	sgd     = []string{"training={algorithm: sgd, rounds: 5, cohort: 8, chunks: null, steps_per_task: 2}"}
	oneRun  = []string{"audit.one_run={canaries: 10, guesses: {k_plus: 5, k_minus: 5}}", "canaries.user_probability=1%"}
	iid     = []string{"data.partition=iid"}
	poisson = []string{"training.sampling=poisson"}
)

func TestEveryExampleIsInOnePart(t *testing.T) {
	t.Parallel()
	s := store(t)
	words, examples := rows[Word](t, s, Vocabulary), rows[Example](t, s, Parts)
	if len(words) != 64 || words[text.Begin].Text != "<begin>" || words[63].Token != 63 {
		t.Errorf("%d tokens: %v", len(words), words)
	}
	var counted datasets.EncodeMetrics
	s.metrics(t, datasets.Encode, &counted)
	seen, parts := map[int64]bool{}, map[string]int{}
	for _, x := range examples {
		seen[x.Example] = true
		parts[x.Part]++
		// taskstest.Text: example i is of user i^2 mod 37 and has 6 + i mod 7 words and a point.
		if want := fmt.Sprintf("u%d", x.Example*x.Example%37); x.User != want || text.WordsOf(x.Tokens) != int(7+x.Example%7) {
			t.Errorf("example %d is of %s and has %d words", x.Example, x.User, text.WordsOf(x.Tokens))
		}
	}
	want := map[string]int{"train": counted.Train.Examples, "test": counted.Test.Examples, "validation": counted.Validation.Examples}
	if len(seen) != 1500 || len(examples) != 1500 || !reflect.DeepEqual(parts, want) {
		t.Errorf("%d examples, %d of them different, in parts %v; want 1500 in %v", len(examples), len(seen), parts, want)
	}
}

func TestCanaryPlacesMatchPopulation(t *testing.T) {
	t.Parallel()
	for name, sets := range map[string][]string{
		"by-user": nil, "iid": iid, "sgd": sgd, "coins about users": oneRun, "coins about users, iid": append(iid, oneRun...),
		"coins about records": append(sgd, oneRun...), "coins about users who are not there": append(poisson, oneRun...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, sets...)
			list, trained := rows[Canary](t, s, Canaries), rows[Trained](t, s, Population)
			at := map[Place]Trained{}
			marked := 0
			for _, x := range trained {
				at[Place{x.User, x.Example}] = x
				if x.Canary != nil {
					marked++
				}
			}
			for _, c := range list {
				marked -= len(c.Copies)
				for _, place := range c.Copies {
					x := at[place]
					if x.Canary == nil || *x.Canary != c.Number || !slices.Equal(x.Tokens[1:len(x.Tokens)-1], c.Tokens) {
						t.Errorf("canary %d %v is not at %+v: %+v", c.Number, c.Tokens, place, x)
					}
				}
				checkCoin(t, &c)
			}
			var counted population.PartitionMetrics
			s.metrics(t, s.populationKind(), &counted)
			if marked != 0 || counted.ReplacedExamples == 0 || len(trained) != counted.Examples || len(at) != len(trained) {
				t.Errorf("%d more examples marked than copies, %d examples, want %+v", marked, len(trained), counted)
			}
		})
	}
}

// populationKind is the kind of node that the cell trains on.
func (s *stored) populationKind() tasks.Kind {
	return compile.Registry()[s.Plan.Nodes[s.Cell.Cell.Population.Key].Kind]
}

// checkCoin compares a coin with the copies of its canary.
func checkCoin(t *testing.T, c *Canary) {
	t.Helper()
	if c.Coin == nil {
		return
	}
	if c.Coin.Included != (len(c.Copies) > 0) || c.Coin.Example >= 0 && len(c.Copies) > 1 {
		t.Errorf("canary %d has %d copies, its coin %+v", c.Number, len(c.Copies), c.Coin)
	}
	for _, place := range c.Copies {
		if place.User != c.Coin.User || c.Coin.Example >= 0 && place.Example != c.Coin.Example {
			t.Errorf("a copy of canary %d is at %+v, its coin %+v", c.Number, place, c.Coin)
		}
	}
}

// The metric rows of a training count its clients' data.
func TestCohortsMatchTrainedRounds(t *testing.T) {
	t.Parallel()
	for name, sets := range map[string][]string{"fixed-size": nil, "poisson": poisson, "iid": iid} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, sets...)
			examples, tokens := map[int32]int64{}, map[int32]int64{}
			for _, x := range rows[Trained](t, s, Population) {
				examples[int32(x.User)]++
				tokens[int32(x.User)] += int64(len(x.Tokens) - 1)
			}
			cohorts, measured := rows[Cohort](t, s, Cohorts), s.train(t)
			if len(cohorts) != 3 || len(measured) != 3 {
				t.Fatalf("%d cohorts and %d rounds, want 3", len(cohorts), len(measured))
			}
			for i, row := range measured {
				var have checkpoints.Row
				for _, user := range cohorts[i].Users {
					have.Clients++
					have.Examples += examples[user]
					have.Tokens += tokens[user]
				}
				if cohorts[i].Round != row.Round || have.Clients != row.Clients || have.Examples != row.Examples || have.Tokens != row.Tokens {
					t.Errorf("round %d: cohort %v has %+v, trained were %+v", row.Round, cohorts[i].Users, have, row)
				}
			}
		})
	}
}

// train runs the cell's training and returns its metric rows.
func (s *stored) train(t *testing.T) []checkpoints.Row {
	t.Helper()
	must.Do(t, s.executor.Reach(t.Context(), s.Cell.Cell.Model))
	data := must.Get(s.executor.Blob(t.Context(), s.Cell.Cell.Model.Key, tasks.RowsBlob))(t)
	return must.Get(checkpoints.DecodeRows(data))(t)
}

func TestReferencesExcludeCanaries(t *testing.T) {
	t.Parallel()
	s := store(t)
	references := rows[Reference](t, s, References)
	suffixes := map[string]bool{}
	for _, c := range rows[Canary](t, s, Canaries) {
		suffixes[fmt.Sprint(c.Tokens[1:])] = true
	}
	for i, r := range references {
		if r.Number != int64(i) || len(r.Tokens) != 2 || suffixes[fmt.Sprint(r.Tokens)] || slices.Min(r.Tokens) < text.FirstWord || slices.Max(r.Tokens) >= 64 {
			t.Errorf("reference %d is %+v", i, r)
		}
	}
	if len(references) != 300 || len(suffixes) != 6 {
		t.Errorf("%d references, %d canaries", len(references), len(suffixes))
	}
}

var recorded = []string{
	"data.devices={unseen: 1/4}", "data.users.words=0", "canaries=null", "audit.random_sampling=null",
	"training.record={layers: [output.bias, cell]}",
}

func TestDevicesMatchPopulation(t *testing.T) {
	t.Parallel()
	s := store(t, recorded...)
	examples := map[int64]int64{}
	for _, x := range rows[Trained](t, s, Population) {
		examples[x.User]++
	}
	list := rows[Device](t, s, Devices)
	users := map[int64]int{}
	for i, d := range list {
		if d.Device != int64(i) || d.Examples != examples[d.Device] || d.Set == "unseen" && d.Shadow {
			t.Errorf("device %d of %d examples is %+v", i, examples[int64(i)], d)
		}
		users[d.User]++
	}
	// taskstest.Text has 19 users, the number of squares mod 37. A quarter of them is
	// unseen.
	if len(list) != len(examples) || len(users) != 19 || len(list) != 2*19-5 {
		t.Errorf("%d devices of %d users, %d with examples; want 33 of 19", len(list), len(users), len(examples))
	}
}

func TestUpdatesMatchRecordedUpdates(t *testing.T) {
	t.Parallel()
	s := store(t, recorded...)
	s.train(t)
	var want []Update
	for _, gathered := range s.Cell.Cell.Recorded {
		s.reach(t, plan.Ref{Key: gathered})
		want = append(want, s.decoded(t, gathered)...)
	}
	if got := rows[Update](t, s, Updates); len(got) != 3*5*4 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d rows, recorded were %d of 5 devices in 3 rounds", len(got), len(want))
	}
}

// reach executes a node after all that it needs, and stores it.
func (s *stored) reach(t *testing.T, r plan.Ref) {
	t.Helper()
	must.Do(t, s.executor.Reach(t.Context(), r))
	s.commit(t, s.Plan.Nodes[r.Key])
}

// decoded are the updates of a gather node, layer by layer.
func (s *stored) decoded(t *testing.T, key storage.Key) (list []Update) {
	t.Helper()
	data := must.Get(s.executor.Blob(t.Context(), key, updates.ShardBlob(0)))(t)
	shard := must.Get(updates.Decode(data))(t)
	for i := range shard.Len() {
		u := shard.At(i)
		values := slices.Clone(u.Values)
		for _, layer := range shard.Layout.Layers {
			list = append(list, Update{int64(u.Round), int64(u.Device), layer.Name, values[:layer.Values]})
			values = values[layer.Values:]
		}
	}
	return list
}

var audited = []string{
	"data.held_out_users.fraction=30%", "data.users.words=0", "canaries=null", "training.cohort=3",
	"audit={random_sampling: null, membership: {reference_models: 4}}",
}

// auc is the share of pairs of a member and another user in which the member scores higher, half
// of those with one score.
func auc(list []Membership, score func(Membership) float64) float64 {
	higher, pairs := 0.0, 0.0
	for _, a := range list {
		for _, b := range list {
			if !a.Member || b.Member {
				continue
			}
			pairs++
			switch x, y := score(a), score(b); {
			case x > y:
				higher++
			case x == y:
				higher += 0.5
			}
		}
	}
	return higher / pairs
}

// The exported losses give the areas that the audit prints.
func TestMembershipLossesReproduceAudit(t *testing.T) {
	t.Parallel()
	s := store(t, audited...)
	nodes, _ := s.Plan.Needed(s.Cell.Cell.Report)
	audit := nodes[slices.IndexFunc(nodes, func(n *plan.Node) bool { return n.Kind == membership.Kind.Name })]
	for _, in := range audit.Inputs {
		s.reach(t, plan.Ref{Key: in.Key})
	}
	s.reach(t, plan.Ref{Key: audit.Key})
	var v membership.Outcome
	data, err := s.executor.Blob(t.Context(), audit.Key, audits.OutcomeBlob)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	must.Do(t, err)
	list := rows[Membership](t, s, Memberships)
	likelihood := func(m Membership) float64 { return -m.Loss / float64(m.Targets) }
	offline := func(m Membership) float64 {
		sum, models := 0.0, 0.0
		for _, r := range m.References {
			if !r.Member {
				sum, models = sum-r.Loss/float64(m.Targets), models+1
			}
		}
		return likelihood(m) - sum/models
	}
	for attack, score := range map[membership.Attack]func(Membership) float64{
		membership.Loss: likelihood, membership.LiRAOffline: offline,
		membership.MinK:         func(m Membership) float64 { return *m.MinK },
		membership.MinKPlusPlus: func(m Membership) float64 { return *m.MinKPlusPlus },
		membership.Curvature:    func(m Membership) float64 { return *m.Curvature },
	} {
		i := slices.IndexFunc(v.Attacks, func(o membership.AttackOutcome) bool { return o.Attack == attack })
		if got, want := auc(list, score), v.Attacks[i].Members.AUC.Value; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: the rows give the area %v, the audit %v", attack, got, want)
		}
	}
	members := 0
	for i, m := range list {
		in := 0
		for _, r := range m.References {
			if r.Member {
				in++
			}
		}
		if m.Member {
			members++
		}
		if m.User != int64(i) || len(m.References) != 4 || in != 2 || m.Targets == 0 || m.Member != (i < v.Members) {
			t.Errorf("row %d is %+v", i, m)
		}
	}
	if members != v.Members || len(list)-members != v.HeldOut {
		t.Errorf("%d of %d users are members, the audit has %d and %d others", members, len(list), v.Members, v.HeldOut)
	}
}

// Not parallel: it counts the memory of the whole process.
func TestReferencesAreWrittenInBoundedMemory(t *testing.T) {
	s := store(t, "canaries.words=5") // the space has more references, and this many follow one word
	var params randomsampling.Params
	for _, n := range s.Plan.Nodes {
		if n.Kind == randomsampling.Kind.Name {
			must.Do(t, json.Unmarshal(n.Params, &params))
			params.References = 2_000_000
			n.Params, _ = json.Marshal(params)
		}
	}
	for _, format := range Formats() {
		var w watchedMemory
		must.Do(t, s.Write(t.Context(), References, format, &w))
		if growth := w.last - w.first; growth > 4<<20 || w.written < 4<<20 {
			t.Errorf("%s: %d KiB more memory in use at the end than after the first megabyte of %d", format, growth>>10, w.written>>20)
		}
	}
}

// manyWords is the cell with a vocabulary of n ordinary words in place of its own.
func (s *stored) manyWords(t *testing.T, n int) *Cell {
	t.Helper()
	var content bytes.Buffer
	for _, special := range text.Specials() {
		fmt.Fprintln(&content, special)
	}
	for i := range n {
		fmt.Fprintf(&content, "word%d\n", i)
	}
	node, archive := s.Plan.Nodes[s.Cell.Cell.Vocabulary.Key], storage.NewArchive(storagetest.NewMemory())
	blob := must.Get(archive.PutBlob(t.Context(), node.Key, text.VocabularyBlob, content.Bytes(), storage.Durable))(t)
	commit := &storage.Commit{Key: node.Key, Kind: node.Kind, KindVersion: 1, Attempt: "of the test", Blobs: []storage.Blob{blob}}
	if _, _, err := archive.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	return &Cell{Archive: archive, Plan: s.Plan, Cell: s.Cell.Cell, Experiment: s.Experiment}
}

// Not parallel: it counts the memory of the whole process.
func TestVocabularyIsWrittenInBoundedMemory(t *testing.T) {
	s := store(t).manyWords(t, 500_000)
	for _, format := range Formats() {
		w := watchedMemory{first: heap()}
		must.Do(t, s.Write(t.Context(), Vocabulary, format, &w))
		if growth := w.most - w.first; growth > 4<<20 || w.written < 1<<20 {
			t.Errorf("%s: %d KiB more memory in use than before, after %d MiB", format, growth>>10, w.written>>20)
		}
	}
}

// watchedMemory looks after each megabyte at how much memory is in use.
type watchedMemory struct{ first, last, most, written, next int64 }

func (w *watchedMemory) Write(p []byte) (int, error) {
	if w.written += int64(len(p)); w.written > w.next {
		w.next, w.last = w.written+1<<20, heap()
		w.most = max(w.most, w.last)
		if w.written > 1<<20 && w.first == 0 {
			w.first = w.last
		}
	}
	return len(p), nil
}

// heap is the memory in use; pools drop their contents after two collections.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWriteReportsFailures(t *testing.T) {
	t.Parallel()
	s := store(t)
	empty := Cell{Archive: storage.NewArchive(storagetest.NewMemory()), Plan: s.Plan, Cell: s.Cell.Cell, Experiment: s.Experiment}
	for want, write := range map[string]func(context.Context, io.Writer) error{
		`"parts and vocabulary" (datasets/encode`: func(ctx context.Context, w io.Writer) error { return empty.Write(ctx, Vocabulary, JSONLines, w) },
		`format "csv" is unknown`:                 func(ctx context.Context, w io.Writer) error { return s.Write(ctx, Vocabulary, "csv", w) },
		`has no table words`:                      func(ctx context.Context, w io.Writer) error { return s.Write(ctx, "words", JSONLines, w) },
	} {
		var out bytes.Buffer
		if err := write(t.Context(), &out); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%v after %d bytes, want %q", err, out.Len(), want)
		}
	}
}

// A training that a command does as a whole has no cohorts that are known here.
func TestOnlyFederatedTrainingHasCohorts(t *testing.T) {
	t.Parallel()
	for algorithm, want := range map[experiment.Algorithm]bool{experiment.FedAvg: true, experiment.SGD: false, experiment.External: false} {
		if tables := Tables(&experiment.Experiment{Training: experiment.Training{Algorithm: algorithm}}); slices.Contains(tables, Cohorts) != want {
			t.Errorf("%s has the tables %v", algorithm, tables)
		}
	}
}
