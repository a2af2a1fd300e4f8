//go:build unix

package external

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"coalmine/internal/childprocess"
	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// bench has data, and runs scripts of the shell as trainings of them.
type bench struct {
	*taskstest.Graph
	edges []taskstest.Edge
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOf(t, `{"user":"a","text":"one two"}
{"user":"b","text":"three one"}
{"user":"b","text":"two four"}
`, source.Reading{})
}

// newBenchOf has the data of a source that is read so.
func newBenchOf(t *testing.T, source string, r source.Reading) *bench {
	t.Helper()
	g := taskstest.NewGraph(t)
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(source))}, Reading: r})
	recipe := datasets.Recipe{Reading: r}
	if !r.Level.Scheme().Images {
		recipe.VocabularySize = 3
	}
	parts := g.Run(datasets.Encode, recipe.Encode(), taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, parts))
	pop := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser}, taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	return &bench{g, []taskstest.Edge{
		taskstest.In(population.Input, pop), taskstest.In(population.ShardsInput, parts), taskstest.In(population.PartsInput, parts),
	}}
}

// train runs a script as a file of the code.
func (b *bench) train(t *testing.T, script string, change ...func(*TrainParams)) (*taskstest.Node, error) {
	t.Helper()
	code := must.Get(clientprograms.PackCode(fstest.MapFS{"train.sh": {Data: []byte(script)}}, nil))(t)
	p := TrainParams{Seed: 7, Command: "sh train.sh", Code: b.Import(code), Rounds: 2, Job: json.RawMessage(`{"epochs":2}`)}
	for _, c := range change {
		c(&p)
	}
	return b.Try(Train, p, b.edges...)
}

const finish = `echo '{"score":"./score"}' > out/result.json; `

func TestCommandReadsJobAndWritesModel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := must.Get(b.train(t, `cat in/job.json in/train.jsonl in/vocabulary.json > out/found
echo '{"round":1,"loss":2.5,"tokens":4,"other":"x","grad_norm":3.5,"Loss per user":-1e3}' > out/metrics.jsonl
echo '{"round":2,"loss":2}' >> out/metrics.jsonl
mkdir out/sub; echo weights > out/sub/model; `+finish))(t)
	want := `{"contract":"coalmine/train","version":1,"seed":7,"rounds":2,"users":2,"examples":3,"files":{"train":"in/train.jsonl","vocabulary":"in/vocabulary.json",` +
		`"checkpoint":"checkpoint","metrics":"out/metrics.jsonl","result":"out/result.json"},"job":{"epochs":2}}
{"user":"0","text":"one two"}
{"user":"1","text":"<unk> one"}
{"user":"1","text":"two four"}
["<pad>","<unk>","<begin>","<end>","one","two","four"]
`
	if got := string(n.Blob("out/found")); got != want {
		t.Errorf("it found\n%s\nwant\n%s", got, want)
	}
	if got := n.Names(); !slices.Equal(got, []string{"out/found", "out/sub/model", ResultBlob, tasks.RowsBlob}) {
		t.Errorf("it left %v", got)
	}
	rows, err := checkpoints.DecodeRows(n.Blob(tasks.RowsBlob))
	if err != nil || !reflect.DeepEqual(rows, []checkpoints.Row{{Round: 1, Loss: 2.5, Tokens: 4, Metrics: map[string]float64{"grad_norm": 3.5, "Loss per user": -1000}}, {Round: 2, Loss: 2}}) {
		t.Errorf("rows %v, %v", rows, err)
	}
	taskstest.Golden(t, n)
}

// users are those of a file of lines, each once.
func users(t *testing.T, lines string) (list []string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var e Example
		must.Do(t, json.Unmarshal([]byte(line), &e))
		if !slices.Contains(list, e.User) {
			list = append(list, e.User)
		}
	}
	return list
}

// Several files have the lines of one, in their order, cut between users.
func TestTrainShardsMatchSingleFile(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, manyUsers(), source.Reading{})
	whole := must.Get(b.train(t, "cat in/train.jsonl > out/found; "+finish))(t)
	want := string(whole.Blob("out/found"))
	for shards, examples := range map[int][]int{4: {8, 8, 9, 7}, 7: {}, 100: {}} {
		n := must.Get(b.train(t, "cp in/job.json out/job; cat in/train-*.jsonl > out/found; for f in in/train-*; do cp $f out/; done; "+finish, func(p *TrainParams) { p.Shards = shards }))(t)
		var job Job
		if err := json.Unmarshal(n.Blob("out/job"), &job); err != nil || job.Files.Train != "" || len(job.Files.TrainShards) != shards || job.Examples != strings.Count(want, "\n") {
			t.Errorf("%d files: the job is %+v, %v", shards, job, err)
		}
		together := ""
		var seen []string
		for i, file := range job.Files.TrainShards {
			if name := fmt.Sprintf("in/train-%05d-of-%05d.jsonl", i, shards); file != name {
				t.Errorf("file %d is called %s, want %s", i, file, name)
			}
			lines := string(n.Blob(outFolder + strings.TrimPrefix(file, inFolder)))
			if together += lines; len(examples) > 0 && strings.Count(lines, "\n") != examples[i] {
				t.Errorf("file %d of %d has %d examples, want %d", i, shards, strings.Count(lines, "\n"), examples[i])
			}
			seen = append(seen, users(t, lines)...)
		}
		if got := string(n.Blob("out/found")); got != want || together != want {
			t.Errorf("%d files together have\n%s\nwant\n%s", shards, got, want)
		}
		if again := users(t, want); !slices.Equal(seen, again) {
			t.Errorf("the users of %d files are %v, want %v: none in two", shards, seen, again)
		}
		if n.Key == whole.Key {
			t.Error("the number of files is no part of the key")
		}
	}
}

// manyUsers are eight users of up to six texts; the two largest stand next to each other.
func manyUsers() string {
	var text strings.Builder
	for user, examples := range []int{5, 3, 2, 6, 6, 3, 4, 3} {
		for i := range examples {
			fmt.Fprintf(&text, `{"user":"u%d","text":"one two w%d"}`+"\n", user, i)
		}
	}
	return text.String()
}

// imageLines are images of 3 x 2 pixels of three users, the last without a label.
const imageLines = `{"user":"a","label":3,"pixels":"AQIDBAUG"}
{"user":"b","label":0,"pixels":"AAAAAAD/"}
{"user":"b","label":1,"pixels":"BgUEAwIB"}
{"user":"c","pixels":"CQkJCQkJ"}
`

var imageShape = images.Shape{Width: 3, Height: 2, Channels: 1, Classes: 4}

// Images stand in files of their own beside lines with users and labels.
func TestACommandFindsImagesAndLabels(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, imageLines, source.Reading{Level: text.ImageLevel, Image: imageShape, Unlabelled: true})
	n := must.Get(b.train(t, `ls in > out/listed; cat in/job.json in/train-*.jsonl > out/found; tail -c 6 in/train-00000-of-00002.npy > out/first
tail -c 12 in/train-00001-of-00002.npy > out/last; head -c 128 in/train-00001-of-00002.npy > out/head; `+finish,
		func(p *TrainParams) { p.Image, p.Shards = imageShape, 2 }))(t)
	want := `{"contract":"coalmine/train","version":1,"seed":7,"rounds":2,"users":3,"examples":4,"image":{"width":3,"height":2,"channels":1,"classes":4},` +
		`"files":{"train_shards":["in/train-00000-of-00002.jsonl","in/train-00001-of-00002.jsonl"],` +
		`"images":{"in/train-00000-of-00002.jsonl":"in/train-00000-of-00002.npy","in/train-00001-of-00002.jsonl":"in/train-00001-of-00002.npy"},` +
		`"checkpoint":"checkpoint","metrics":"out/metrics.jsonl","result":"out/result.json"},"job":{"epochs":2}}
{"user":"0","label":3}
{"user":"1","label":0}
{"user":"1","label":1}
{"user":"2","label":null}
`
	if got := string(n.Blob("out/found")); got != want {
		t.Errorf("it found\n%s\nwant\n%s", got, want)
	}
	if got := n.Blob("out/first"); !slices.Equal(got, []byte{6, 5, 4, 3, 2, 1}) {
		t.Errorf("the first file ends with the image %v", got)
	}
	if got := string(n.Blob("out/head")); !strings.Contains(got, "'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 3, 1), }") {
		t.Errorf("the second file begins with %q", got)
	}
	if got := n.Blob("out/last"); !slices.Equal(got[6:], []byte{9, 9, 9, 9, 9, 9}) || got[5] != '\n' {
		t.Errorf("the second file ends with %v", got)
	}
	if listed := string(n.Blob("out/listed")); strings.Contains(listed, "vocabulary") {
		t.Errorf("images have words: %s", listed)
	}
}

func TestTrainRejectsTooManyShardsAndImpossibleShapes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, change := range map[string]func(*TrainParams){
		"training data in 1001 files; expected at most 1000": func(p *TrainParams) { p.Shards = 1001 },
		"images of 2 channels":                               func(p *TrainParams) { p.Image = images.Shape{Width: 1, Height: 1, Channels: 2, Classes: 2} },
	} {
		if _, err := b.train(t, finish, change); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q and no other try", err, want)
		}
	}
}

// A training of several files that is killed finds the same files, and its checkpoint.
func TestKilledShardedTrainingResumes(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, manyUsers(), source.Reading{})
	const script = `cat in/job.json in/train-* | cksum > tmp/sum
if [ ! -e checkpoint/sum ]; then mv tmp/sum checkpoint/sum; kill -9 $$; fi
cmp tmp/sum checkpoint/sum && cp tmp/sum out/sum; ` + finish
	four := func(p *TrainParams) { p.Shards = 4 }
	if _, err := b.train(t, script, four); err == nil || tasks.IsPermanent(err) || !strings.Contains(err.Error(), "signal: killed") {
		t.Fatalf("it ended with %v, want another try", err)
	}
	n, err := b.train(t, script, four)
	if err != nil || len(n.Blob("out/sum")) == 0 {
		t.Fatalf("it does not go on with the same files: %v", err)
	}
	if _, err := b.train(t, script, func(p *TrainParams) { p.Shards = 3 }); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a training of other files goes on from its checkpoint: %v", err)
	}
}

// A command that is killed goes on from its checkpoint, and no round counts twice.
func TestKilledCommandResumesFromCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rounds := func(p *TrainParams) { p.Rounds = 7 }
	const script = `n=$(cat checkpoint/n || echo 0)
n=$((n+1))
cat out/metrics.jsonl > out/before
echo "{\"round\":$n,\"loss\":$n}" >> out/metrics.jsonl
echo $n > tmp/n; mv tmp/n checkpoint/n
[ $n = 1 ] && kill -9 $$
[ $n = 2 ] && exit 75
echo "{\"round\":2,\"loss\":2}" >> out/metrics.jsonl; ` + finish
	for try, want := range []string{"it ended with signal: killed", "it ended with exit status 75"} {
		if _, err := b.train(t, script, rounds); err == nil || tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Fatalf("try %d: %v, want %q and another try", try+1, err, want)
		}
	}
	n := must.Get(b.train(t, script, rounds))(t)
	rows, err := checkpoints.DecodeRows(n.Blob(tasks.RowsBlob))
	if err != nil || !reflect.DeepEqual(rows, []checkpoints.Row{{Round: 1, Loss: 1}, {Round: 2, Loss: 2}, {Round: 3, Loss: 3}}) {
		t.Errorf("rows %v, %v", rows, err)
	}
	if before := string(n.Blob("out/before")); strings.Count(before, "\n") != 2 {
		t.Errorf("it found the metrics %q, want those of two rounds", before)
	}
	other, err := b.train(t, script, rounds, func(p *TrainParams) { p.Seed = 8 })
	if other != nil || err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("another training goes on from the same checkpoint: %v", err)
	}
}

// The files below out come back with the checkpoint that they stood beside, and only with it.
func TestOutputFilesAreRestoredWithCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const script = `ls -R out | grep -v metrics > tmp/found
if [ ! -e checkpoint/n ]; then
  echo once > out/initial; mkdir -p out/empty/below; echo late > out/late; echo 1 > checkpoint/n; kill -9 $$
fi
[ $(cat checkpoint/n) = 1 ] && { rm out/late; echo 2 > checkpoint/n; exit 75; }
cp tmp/found out/found
echo '{"score":"./score out/initial"}' > out/result.json`
	for range 2 {
		if _, err := b.train(t, script); err == nil || tasks.IsPermanent(err) {
			t.Fatal(err)
		}
	}
	n := must.Get(b.train(t, script))(t)
	if got := string(n.Blob("out/initial")); got != "once\n" {
		t.Errorf("out/initial holds %q", got)
	}
	if got, want := string(n.Blob("out/found")), "out:\nempty\ninitial\n\nout/empty:\nbelow\n\nout/empty/below:\n"; got != want {
		t.Errorf("the last execution found\n%s\nwant\n%s", got, want)
	}

	for range 2 {
		if _, err := b.train(t, "[ -e out/x ] && exit 3; echo x > out/x; exit 75"); err == nil || tasks.IsPermanent(err) {
			t.Errorf("files below out come back without a checkpoint: %v", err)
		}
	}
}

// A command that writes its metrics anew when it goes on loses none of before.
func TestRewrittenMetricsKeepEarlierRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rounds := func(p *TrainParams) { p.Rounds = 7 }
	const script = `[ -e checkpoint/n ] || { for i in 1 2 3 4 5; do echo "{\"round\":$i,\"loss\":1}"; done > out/metrics.jsonl; echo 5 > checkpoint/n; exit 75; }
echo '{"round":6,"loss":1}' > out/metrics.jsonl
printf '{"round":7,"loss":1}' >> out/metrics.jsonl; ` + finish
	if _, err := b.train(t, script, rounds); err == nil || tasks.IsPermanent(err) {
		t.Fatal(err)
	}
	n := must.Get(b.train(t, script, rounds))(t)
	rows, err := checkpoints.DecodeRows(n.Blob(tasks.RowsBlob))
	if err != nil || len(rows) != 7 || rows[6].Round != 7 {
		t.Errorf("rows %v, %v, want seven", rows, err)
	}
}

// Of more rounds than rows, the last of every few is kept, for any execution that reports them.
func TestTheRowsOfManyRoundsAreFew(t *testing.T) {
	t.Parallel()
	const rounds = 2*maxRows + 10
	once := metricRows{rounds: rounds}
	var lines bytes.Buffer
	for i := 1; i <= rounds; i++ {
		fmt.Fprintf(&lines, "{\"round\":%d,\"loss\":%d,\"my own\":%d}\n", i, i, i)
	}
	must.Do(t, once.read(lines.Bytes()))
	list := once.list()
	if len(list) != rounds/3 || list[0].Round != 3 || list[1].Round != 6 || list[len(list)-1].Round != rounds {
		t.Errorf("%d rows from %+v to %+v; expected every third and the last", len(list), list[0], list[len(list)-1])
	}
	again := metricRows{rounds: rounds}
	half := bytes.Index(lines.Bytes(), []byte(`{"round":10000,`))
	must.Do(t, again.read(lines.Bytes()[:half]))
	resumed := metricRows{rounds: rounds}
	kept := resumed.restore(again.list())
	restored := metricRows{rounds: rounds}
	if err := restored.read(kept); err != nil || !reflect.DeepEqual(restored.list(), again.list()) {
		t.Errorf("a command finds other lines than it wrote: %v", err)
	}
	must.Do(t, resumed.read(lines.Bytes()[half:]))
	if !reflect.DeepEqual(resumed.list(), list) {
		t.Error("a training that was interrupted has other rows")
	}
}

// A line about round 3 of 2, and others that contradict the job.
func TestMetricsThatContradictJobAreRejected(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"round":3,"loss":1}`:                          "expected a round from 1 to 2, which are those of the job; raise training.rounds if there are more (rule 5",
		`{"round":0,"loss":1}`:                          "expected a round from 1 to 2",
		`{"round":1,"clients":41}`:                      "expected at most 40 clients, which are the users of the data and the canary clients",
		`{"round":1,"clients":-1}`:                      "expected counts from 0 to 2^48",
		`{"round":1,"tokens":281474976710657}`:          "expected counts from 0 to 2^48",
		`{"round":1,"examples":9007199254740993}`:       "expected counts from 0 to 2^48",
		`{"round":1,"loss":1e101}`:                      "expected losses of at most 1e+100",
		`{"round":1,"validation_loss":-1e300}`:          "expected losses of at most 1e+100",
		`{"round":1,"loss":1e999}`:                      "cannot unmarshal number 1e999",
		`{"round":2,"loss":-1,"clients":40,"tokens":9}`: "",
	} {
		m := metricRows{rounds: 2, clients: 40}
		err := m.read([]byte(line + "\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "out/metrics.jsonl has the line")) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// awayStore is a store that fails a few times.
type awayStore struct {
	*tasks.RunnerKeeper
	fails int
}

func (s *awayStore) KeepFile(ctx context.Context, name string, data []byte, progress bool) (storage.Blob, error) {
	if s.fails--; s.fails >= 0 {
		return storage.Blob{}, fmt.Errorf("keeping %s: %w", name, storage.ErrAway)
	}
	return s.RunnerKeeper.KeepFile(ctx, name, data, progress)
}

// A store that is away for a while costs no training: the state that it did not take is
// offered again.
func TestCommandSurvivesUnavailableStore(t *testing.T) {
	t.Parallel()
	for fails, want := range map[int]string{2: "", 1000: "its last checkpoint could not be kept: keeping a: "} {
		w := must.Get(childprocess.NewWorkspace())(t)
		t.Cleanup(w.Remove)
		store := &awayStore{new(tasks.RunnerKeeper), fails}
		command := "mkdir checkpoint; echo 1 > checkpoint/a; while [ ! -e stored ]; do sleep 0.01; done; exit 75"
		if want != "" {
			command = "mkdir checkpoint; echo 1 > checkpoint/a; exit 75"
		}
		x := &training{
			task: tasks.NewTask(tasks.Spec{}, nil, store, nil, nil), params: &TrainParams{Command: command}, workspace: w, eager: true,
			watched: func() error { return w.Put("stored", nil) },
		}
		err := x.run(t.Context())
		if err == nil || tasks.IsPermanent(err) || !strings.Contains(err.Error(), "exit status 75") || !strings.Contains(err.Error(), want) {
			t.Errorf("after %d failures: %v, want %q", fails, err, want)
		}
		kept, err := store.Kept(t.Context())
		if there := kept != nil && len(kept.Files) == 1; err != nil || there != (want == "") {
			t.Errorf("after %d failures: the checkpoint is kept: %v, %v", fails, there, err)
		}
	}
}

func TestCommandErrorsNameTheirRule(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for script, want := range map[string]string{
		"echo no module named torch >&2; exit 1":            "it ended with exit status 1; its last lines:\n  no module named torch",
		"true":                                              "left no out/result.json (rule 8",
		"echo x > out/result.json":                          "is no JSON object of texts: invalid character 'x' looking for beginning of value (rule 8",
		"echo {} > out/result.json":                         "names neither a model nor a command that scores texts by it (rule 9",
		`printf '{"score":"%8193s"}' x > out/result.json`:   "has a score of 8193 bytes; expected at most 8192 (rule 8",
		`echo '{"model":"/etc/passwd"}' > out/result.json`:  `names the model "/etc/passwd", and there is no such file; expected one below out (rule 9`,
		`echo '{"score":"./s out/gone"}' > out/result.json`: "names out/gone in score, and there is no such file",
		`echo >out/a; echo '{"score":"./s out/a","initial_score":"./s out/gone/b"}' > out/result.json`: "names out/gone/b in initial_score",
		`echo '{"round":1,"loss":NaN}' > out/metrics.jsonl`:                                            `has the line {"round":1,"loss":NaN}: invalid character 'N' looking for beginning of value (rule 5`,
		`echo '{"loss":1}' > out/metrics.jsonl`:                                                        "expected a round from 1 to 2, which are those of the job; raise training.rounds if there are more (rule 5",
		finish + "ln -s / out/root":                                                                    "out/root is not a regular file",
		"mkfifo out/metrics.jsonl; sleep 1000":                                                         "out/metrics.jsonl is not a regular file",
		"mkfifo out/result.json":                                                                       "out/result.json is not a regular file",
		finish + "sleep 1000 > /dev/null 2>&1 & exit 0":                                                "left 1 processes behind, which were killed (rule 11",
		"truncate -s 5G checkpoint/all; sleep 1000":                                                    "checkpoint/all holds 5368709120 bytes; expected at most 4294967296 (rule 10",
		"head -c 1100000 /dev/zero > out/metrics.jsonl":                                                "out/metrics.jsonl has a line of more than 1048576 bytes (rule 5",
	} {
		_, err := b.train(t, script)
		if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q and no other try", script, err, want)
		}
	}
}

func TestTermsBoundACommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for terms, want := range map[string]string{`{"seconds":0.3}`: "ran for more than 300ms", `{"memory":25165824}`: "MiB of memory; expected at most 24"} {
		spec := must.Get(tasks.NewSpec(Train, TrainParams{Command: `a=$(head -c 64000000 /dev/zero | tr "\0" x); sleep 1000`, Rounds: 1}, inputs(b.edges)...))(t)
		spec.Terms = json.RawMessage(terms)
		if _, err := b.TrySpec(Train, spec); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q and no other try", terms, err, want)
		}
	}
}

func inputs(edges []taskstest.Edge) (list []tasks.Input) {
	for _, e := range edges {
		list = append(list, tasks.Input{Name: e.Name, Key: e.Node.Key})
	}
	return list
}
