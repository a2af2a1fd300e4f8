package endtoend_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/tasks/pretrained/pretrainedtest"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// Files that have all fields of an experiment, together with those of the audits.
var fullFiles = []string{`
name: full
seed: 3
grid: {replicates: 1}
data:
  source: text.jsonl
  sequence: 12
  vocabulary: {size: 60}
  users: {words: 50}
  test: {fraction: 10%}
  validation: {fraction: 5%}
  held_out_users: {fraction: 5%}
  limits: {line: 100000}
canaries: {words: 3, per_configuration: 1, user_probability: [20%], example_probability: [20%, 100%], held_back: 1}
model: {embedding: 8, units: 8, layers: 2, projection: 4, untied: true}
training:
  epochs: 2
  cohort: 4
  chunks: 2
  sampling: poisson
  client:
    optimizer: momentum
    momentum: 0.5
    learning_rate: 0.1
    schedule: {kind: step, every: 5, factor: 0.5, warm_up: 2}
    batch: 4
    gradient_clip: 1
    dropout: 0.1
    weight_decay: 0.01
    proximal: 0.1
  server: {optimizer: adam, learning_rate: 0.1, beta1: 0.8, beta2: 0.9, epsilon: 1e-6, schedule: {kind: cosine, floor: 0.1}}
  privacy:
    clip: 0.5
    noise_multiplier: 3
    delta: 1e-5
    conversion: improved
    accountant: rdp
    adaptive: {quantile: 0.5, learning_rate: 0.2, count_noise: 3}
    budget: {epsilon: 1000, delta: 1e-5}
  checkpoints: {every: 10%, keep: 2}
audit:
  every: 50%
  random_sampling: {references: 500, exact: true}
  beam_search: {width: 2}
  utility: true
  fail_if: {random_sampling_memorized: 1, beam_search_memorized: 1, exposure: 5, epsilon: 100}
`, `
name: full
data: {source: text.jsonl, level: byte, users: {words: 200}, share: 90%, sanitize: {patterns: [ssn], own: ["w1"], remove: match}}
canaries:
  formats: [{alphabet: digits, format: "no ####"}, {symbols: [a, b, c], words: 8}]
  insertions: [1, 2]
  per_configuration: 1
model: {kind: conv, kernel: 3, embedding: 8, units: 8}
training:
  algorithm: sgd
  rounds: 10
  cohort: 4
  steps_per_task: 3
  client: {optimizer: adam, learning_rate: 0.1}
  quantize_bits: 8
audit: {at: [3], utility: true}
`, `
name: full
data: {source: text.jsonl, level: byte, users: {words: 100}, validation: {fraction: 20%}, disagreement: {threshold: 0.5, steps: 3}}
canaries: {alphabet: digits, format: "no ####", user_probability: [1/5], example_probability: [1/2]}
model: {embedding: 8, units: 8}
training:
  algorithm: sgd
  rounds: 10
  cohort: 4
  steps_per_task: 3
  client: {optimizer: adam, learning_rate: 0.1}
  early_stopping: {every: 3, patience: 1}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, validation: {fraction: 20%}}
model: {embedding: 8, units: 8}
training: {rounds: 4, cohort: 4, chunks: 2, stop_at: {recall_at_1: 20%, every: 2}}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, validation: {fraction: 20%}}
model: {embedding: 8, units: 8}
training: {rounds: 4, cohort: 4, chunks: 2, stop_at: {perplexity: 30, every: 2}}
`, `
name: full
data: {source: text.jsonl, level: byte, users: {words: 0}, faults: [{fault: truncate, users: 50%, examples: 50%, length: 20}], select: {words: {outside: 30, sequence: 10}}}
model: {embedding: 8, units: 8}
training: {rounds: 2, cohort: 4}
`, `
name: full
data: {source: text.jsonl, pairs: true, vocabulary: {size: 60}, users: {words: 50}}
canaries: {format: "w1 #", target: "w2 #", words: 1, insertions: [1]}
model: {kind: lstm, embedding: 8, units: 8}
training: {rounds: 2, cohort: 4}
`, `
name: full
data: {source: text.jsonl, level: image, image: {width: 20, height: 20, channels: 1, classes: 3}, select: {examples: misclassified, at_least: 2}}
prepare: {classifier: {steps: 3, batch: 2, learning_rate: 0.1}}
model: {kind: gan, latent: 4, normalization: layer, loss: minimax, penalty: 2}
training: {rounds: 2, cohort: 2, chunks: 1, client: {steps: 2}, generator: {steps: 1, batch: 2, learning_rate: 0.01}}
`, `
name: full
data: {source: text.jsonl, level: image, image: {width: 20, height: 20}, select: {users: {below: 50%}}}
prepare: {classifier: {steps: 3}}
model: {kind: gan}
training: {rounds: 2, cohort: 2, chunks: 1}
`, `
name: full
data: {source: text.jsonl, level: image, image: {width: 20, height: 20}, select: {users: {above: 50%}}}
prepare: {classifier: {steps: 3}}
model: {kind: gan}
training: {rounds: 2, cohort: 2, chunks: 1}
`, `
name: full
data: {source: text.jsonl, level: image, image: {width: 20, height: 20, unlabelled: true}}
model: {kind: gan}
training: {rounds: 2, cohort: 2, chunks: 1}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, select: {examples: unlikely, above: 0.1}}
prepare:
  language_model: {source: text.jsonl, form: jsonl, columns: {user: user, text: text, target: target, score: score, tags: tags}, steps: 3, batch: 4, optimizer: adam, learning_rate: 0.01, beta1: 0.8, beta2: 0.9, epsilon: 1e-6, schedule: {kind: step, every: 5, factor: 0.5, warm_up: 2}}
  second_language_model: {source: text.jsonl, form: jsonl, columns: {user: user, text: text, target: target, score: score, tags: tags}, steps: 3, batch: 4, optimizer: nesterov, momentum: 0.5, learning_rate: 0.1, schedule: {kind: cosine, floor: 0.1}}
model: {kind: lstm, embedding: 8, units: 8}
training: {rounds: 2, cohort: 2}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, select: {examples: unlikely, percentile: 50%, at_least: 1}}
prepare:
  language_model: {steps: 3, batch: 4, optimizer: nesterov, momentum: 0.5, learning_rate: 0.1, schedule: {kind: cosine, floor: 0.1}}
  second_language_model: {source: text.jsonl, steps: 3, batch: 4, optimizer: adam, learning_rate: 0.01, beta1: 0.8, beta2: 0.9, epsilon: 1e-6, schedule: {kind: step, every: 5, factor: 0.5, warm_up: 2}}
model: {kind: lstm, embedding: 8, units: 8}
training: {rounds: 2, cohort: 2}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, select: {examples: random, share: 50%}}
model: {embedding: 8, units: 8}
training: {rounds: 2, cohort: 2}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, select: {examples: random, per_user: 2}}
model: {embedding: 8, units: 8}
training: {rounds: 2, cohort: 2}
`, `
name: full
data:
  source: text.jsonl
  order: source
  vocabulary: {size: 60}
  background: {source: text.jsonl, form: jsonl, columns: {user: user, text: text, target: target, score: score, tags: tags}}
  devices: {prior: chronological, size: 25%, at_least: 2, unseen: 20%, held_out: 20%, defence: {augment: 0.5, modes: 2}}
model: {embedding: 8, units: 8}
training:
  rounds: 4
  cohort: 4
  client: {noise: 0.01, compress: {keep: 50%, bits: 8}}
  record: {every: 2, layers: [cell], precision: float16, project: 16}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, background: {source: text.jsonl}, devices: {iid: true, defence: {replace: 50%}, profiles: {source: text.jsonl, form: jsonl, columns: {user: user, text: text, target: target, score: score, tags: tags}}}}
model: {embedding: 8, units: 8}
training: {rounds: 4, cohort: 4, record: {rounds: [1, 3]}}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 0}, label: tags, tags: [w1, w2]}
model: {kind: tagger, embedding: 8, units: 8}
training: {rounds: 2, cohort: 4}
audit: {utility: true}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 0}, label: score, split: train, file_splits: [train], reading_rules: 2}
model: {kind: regressor, embedding: 8, units: 8}
training: {rounds: 2, cohort: 4}
audit: {utility: true}
`, `
name: full
data:
  source: text.jsonl
  form: csv
  columns: {user: author, text: body, time: made, score: stars, split: subset}
  split: training
  test: {split: test}
  validation: {split: heldout}
  on_error: skip
  vocabulary: {size: 60}
  users: {words: 0}
  label: score
model: {kind: regressor, embedding: 8, units: 8}
training: {rounds: 2, cohort: 4}
audit: {utility: true}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 0}}
model: {embedding: 8, units: 8}
training:
  rounds: 6
  cohort: 4
  sampling: separated
  separation: 5
  participations: 2
  privacy: {clip: 0.4, noise_multiplier: 6, delta: 1e-5, mechanism: {kind: blt, buffers: 2}}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 0}}
model: {embedding: 8, units: 8}
training:
  rounds: 6
  cohort: 4
  sampling: separated
  privacy: {clip: 0.4, noise_multiplier: 6, delta: 1e-5, mechanism: {kind: banded, bands: 3}}
`, `
name: full
data:
  source: text.jsonl
  columns: {group: album}
  vocabulary: {size: 60}
  devices: {prior: groups, at_least_groups: 2}
model: {embedding: 8, units: 8}
training: {rounds: 2, cohort: 4, privacy: {clip: 0.4, noise_multiplier: 1, delta: 1e-5, noise_by: devices}}
`, `
name: full
data: {source: text.jsonl, form: texts, unit: paragraph, vocabulary: {size: 60}, users: {words: 0}}
model: {embedding: 8, units: 8}
training: {rounds: 2, cohort: 4}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 40}}
model: {kind: external}
training:
  command: "true"
  code: trainer
  code_roles: {scorer: [score.py]}
  job: {rate: 0.5}
  shards: 3
  rounds: 2
  deterministic: true
  class: gpu
  environment: [HF_TOKEN]
  limits: {time: 100, memory: 300, files: 200, network: true}
audit: {one_run: {canaries: 30, plain_loss: true}}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}}
model: {embedding: 8, units: 8}
training: {rounds: 10, cohort: 4, sampling: poisson, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-5}}
audit: {one_run: {canaries: 20, canaries_of: update, statistic: final}, fail_if: {trade_off_epsilon_lower: 10}}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 40}}
model: {kind: external}
training:
  client_command: "true"
  code: trainer
  job: {rate: 0.5}
  rounds: 2
  cohort: 4
  limits: {answer: 100, memory: 300, network: true}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 0}}
model: {kind: gru, embedding: 8, units: 8}
training: {rounds: 2, cohort: 4, engine: pytorch, pytorch: {users: 3, class: gpu}}
`, `
name: full
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 0}}
model: {kind: transformer, embedding: 8, heads: 2, context: 24, adapters: {rank: 2, alpha: 3, matrices: [feed.input]}}
training: {rounds: 2, cohort: 4, engine: pytorch, pytorch: {users: 3}}
`, `
name: full
data: {source: text.jsonl, level: subword, vocabulary: {size: 487}, users: {words: 60}}
model: {kind: transformer, pretrained: gpt2}
training: {rounds: 2, cohort: 4, engine: pytorch, pytorch: {users: 3}}
`, `
name: full
data: {source: text.jsonl, level: subword, tokenizer: tokenizer.json, vocabulary: {size: 487}, users: {words: 60}}
canaries: {format: "the # #", per_configuration: 1, insertions: [1], held_back: 1}
model: {kind: gru, embedding: 8, units: 8}
training: {rounds: 2, cohort: 4}
audit: {random_sampling: {references: 20}}
`}

// finder finds the text of a file, and packs code and reads models from a folder.
type finder struct {
	sources.Text
	sources.Packer
	sources.ModelFinder
}

// Find finds the text of the file, or its tokenizer.
func (f finder) Find(ctx context.Context, name, digest string) (*sources.Source, error) {
	if strings.HasSuffix(name, ".json") {
		tokenizer, err := tokenizerFile()
		if err != nil {
			return nil, err
		}
		return sources.Text(tokenizer).Find(ctx, name, digest)
	}
	return f.Text.Find(ctx, name, digest)
}

func tokenizerFile() ([]byte, error) {
	return os.ReadFile("../../tasks/datasets/subwords/testdata/gpt2.json")
}

// source is the source of a file of fullFiles, or of an audit.
func source(file string) sources.Text {
	switch {
	case strings.Contains(file, "level: image"):
		return sources.Text(imageText(6))
	case strings.Contains(file, "pairs: true"):
		return sources.Text(strings.ReplaceAll(text(), "}\n", `,"target":"w2 w3"}`+"\n"))
	case strings.Contains(file, "form: csv"):
		return sources.Text(csvText())
	case strings.Contains(file, "form: texts"):
		return sources.Text(textFiles())
	case strings.Contains(file, "kind: tagger"), strings.Contains(file, "kind: regressor"):
		return sources.Text(strings.ReplaceAll(text(), "}\n", `,"score":3.5,"tags":["w1"]}`+"\n"))
	case strings.Contains(file, "group: album"):
		var b strings.Builder
		for line := range strings.Lines(text()) {
			fmt.Fprintf(&b, `{"album":"%d",%s`, b.Len(), line[1:])
		}
		return sources.Text(b.String())
	case strings.Contains(file, "embeddings:"):
		return sources.Text(strings.ReplaceAll(text(), "}\n", `,"embedding":[0.5,-1]}`+"\n"))
	}
	return sources.Text(text())
}

// textFiles are texts of eight users, an archive with a file for each.
func textFiles() string {
	var archive strings.Builder
	w := tar.NewWriter(&archive)
	for u := range 8 {
		var lines strings.Builder
		for i := range 40 {
			fmt.Fprintf(&lines, "w%d w%d w%d\n\n", i, 2*i, i+u)
		}
		_ = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("u%d.txt", u), Mode: 0o644, Size: int64(lines.Len())}) // into memory
		_, _ = io.WriteString(w, lines.String())
	}
	_ = w.Close()
	return archive.String()
}

// csvText is a table of the text, a line in twenty of which is of the split test, another of heldout.
func csvText() string {
	rows := strings.Split(strings.NewReplacer(`{"user":"`, "", `","text":"`, ",", `"}`, ",2020-01-02,3.5").Replace(text()), "\n")
	splits := map[int]string{0: ",test", 1: ",heldout"}
	for i := range rows[:len(rows)-1] {
		rows[i] += cmp.Or(splits[i%20], ",training")
	}
	return "author,body,made,stars,subset\n" + strings.Join(rows, "\n")
}

// imageText is JSON lines of users with 5 images of 20x20 pixels each.
func imageText(users int) string {
	var b strings.Builder
	for user := range users {
		for i := range 5 {
			pixels := bytes.Repeat([]byte{byte(40 * i)}, 20*20)
			fmt.Fprintf(&b, `{"user":"u%d","label":%d,"pixels":%q}`+"\n", user, i%3, base64.StdEncoding.EncodeToString(pixels))
		}
	}
	return b.String()
}

// outsideFiles are the fields that no file can have beside the others, or that need a
// missing secret key.
var outsideFiles = []string{"training.privacy.randomness", "training.privacy.key"}

// extremes are the replacements of each value of a record.
var extremes = []any{
	json.Number("0"), json.Number("-1"), json.Number("1"), json.Number("0.5"),
	json.Number("2147483647"), json.Number("2147483648"), json.Number("1000000000"), json.Number("4611686018427387904"),
	json.Number("9223372036854775807"), json.Number("-9223372036854775808"), json.Number("18446744073709551615"),
	json.Number("1e308"), json.Number("-1e308"), json.Number("5e-324"), json.Number("1e999"),
	"", "NaN", "1/3", "1/18446744073709551615", "../../etc/passwd", "\x00", strings.Repeat("x", 1<<20),
	nil, true, []any{}, []any{nil}, map[string]any{}, slices.Repeat([]any{json.Number("0.5")}, 100_000),
}

// A client that may submit can send any record. No record may stop the coordinator or the
// worker, or make either large.
func TestNoRecordStopsTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	redis := testserver.StartRedis(t, "--appendonly", "no")
	address := testserver.FreeAddress(t)
	w.write("after.yaml", strings.ReplaceAll(experimentFile, "name: tiny", "name: after"))
	part := func(args ...string) command {
		c := w.coalmine(args...)
		c.env = []string{"COALMINE_REDIS_URL=" + redis.URL(), "COALMINE_STORE_URL=" + filepath.Join(w.dir, "store")}
		return c
	}
	serve := start(t, part("serve", "--listen", address))
	serve.await("it serves", func() bool { return strings.Contains(serve.stderr.String(), "serving ") })
	worker := start(t, part("worker", "--slots", "2", "--memory", "1GiB"))
	printed(t, part("submit", "experiment.yaml")) // uploads the text
	code := filepath.Join(w.dir, "trainer")
	must.Do(t, os.Mkdir(code, 0o755))
	w.write("trainer/train.py", "print()\n")
	w.write("trainer/score.py", "print()\n")
	if err := os.Mkdir(filepath.Join(w.dir, experiment.TrainerCode), 0o755); err != nil { // in place of the shipped one
		t.Fatal(err)
	}
	w.write(experiment.TrainerCode+"/torch.py", "print()\n")
	tokenizer := must.Get(tokenizerFile())(t)
	w.write("tokenizer.json", string(tokenizer))
	must.Do(t, os.CopyFS(filepath.Join(w.dir, "gpt2"), pretrainedtest.Folder(t, "gpt2", nil)))
	files := append(slices.Clone(fullFiles), auditFiles(t)...)
	for i, file := range files {
		if data := string(source(file)); data != text() || strings.Contains(file, "code:") || strings.Contains(file, "engine: pytorch") || strings.Contains(file, "tokenizer:") {
			name := fmt.Sprintf("other%d", i)
			w.write(name+".jsonl", data)
			w.write(name+".yaml", sourceNames.ReplaceAllString(file, name+".jsonl"))
			printed(t, part("submit", name+".yaml"))
		}
	}

	api := recordSender{t: t, url: "http://" + address + "/api/v1/runs", answers: map[int]int{}, sample: rand.New(rand.NewPCG(1, 2))}
	for _, file := range files {
		s := must.Get(submission.PrepareFile(t.Context(), "full.yaml", []byte(file), experiment.Options{}, finder{source(file), sources.LocalFinder{Folder: w.dir}, sources.LocalFinder{Folder: w.dir}}, nil))(t)
		spec := s.Spec.Canonical()
		if status, answer := api.send(spec); status != http.StatusCreated {
			t.Fatalf("the record as it is: %d %s", status, answer)
		}
		api.mutate(spec)
	}
	api.sendWhole()
	t.Logf("answers: %v", api.answers)
	refused := 1000
	if !taskstest.Whole() {
		refused /= 25
	}
	if api.answers[http.StatusUnprocessableEntity] < refused {
		t.Errorf("the answers were %v; expected most of them to be 422", api.answers)
	}
	api.coversTheSchema(filepath.Join("..", "..", "workflows", "experiment", "experiment.schema.json"))

	printed(t, part("watch", strings.TrimSpace(printed(t, part("submit", "after.yaml")))))
	for _, p := range []*process{serve, worker} {
		if p.hasEnded() {
			t.Errorf("%s has ended with %d", p.name, p.exitCode())
		}
		const most = 768 << 20
		if peak, ok := peakMemory(p.cmd.Process.Pid); ok && peak > most {
			t.Errorf("%s needed %d MiB at most; expected at most %d", p.name, peak>>20, most>>20)
		}
	}
}

var (
	// sourceNames are those of data that files read.
	sourceNames = regexp.MustCompile(`[a-z]+\.jsonl`)
	// digests are those of data that the files of audits name, which this test has not.
	digests = regexp.MustCompile(`, sha256: [0-9a-f]{64}`)
)

// auditFiles have the fields that audits add; they stand with each audit.
func auditFiles(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../tasks/audits/*/*/testdata/complete/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no complete files of audits: %v", err)
	}
	var files []string
	for _, path := range paths {
		text := must.Get(os.ReadFile(path))(t)
		files = append(files, digests.ReplaceAllString(string(text), ""))
	}
	return files
}

// recordSender submits records and cancels the accepted ones.
type recordSender struct {
	t       *testing.T
	url     string
	answers map[int]int // by status
	paths   []string    // of the fields that were mutated
	sample  *rand.Rand
}

// send submits a resolved experiment.
func (s *recordSender) send(document []byte) (int, string) {
	s.t.Helper()
	name := "full"
	if spec, err := experiment.ReadSpec(document); err == nil {
		document, name = spec.Canonical(), spec.Name
	}
	body := must.Get(json.Marshal(runs.Spec{Name: name, Digest: storage.DigestOf(document), Experiment: document}))(s.t)
	status, answer := s.post("?fresh=true", body)
	s.answers[status]++
	if status == http.StatusCreated {
		var submitted struct{ Run string }
		must.Do(s.t, json.Unmarshal([]byte(answer), &submitted))
		// It may have failed by now: its data are not those that it asks for.
		if status, answer := s.post("/"+submitted.Run+"/steer", []byte(`{"kind":"cancelled"}`)); status != http.StatusOK && status != http.StatusConflict {
			s.t.Fatalf("cancelling %s: %d %s", submitted.Run, status, answer)
		}
	}
	return status, answer
}

func (s *recordSender) post(path string, body []byte) (int, string) {
	s.t.Helper()
	client := http.Client{Timeout: patience}
	answer, err := client.Post(s.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatalf("the coordinator does not answer: %v", err)
	}
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(s.t)
	return answer.StatusCode, string(text)
}

// mutate sends the record with each of its values replaced by each extreme one, as far as
// another record has not had it, or a sample of these.
func (s *recordSender) mutate(document []byte) {
	var tree any
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	must.Do(s.t, d.Decode(&tree))
	encode := func() []byte {
		return must.Get(json.Marshal(tree))(s.t)
	}
	walk(tree, "", func(path string, set func(any), value any) {
		if slices.Contains(s.paths, path) {
			return
		}
		s.paths = append(s.paths, path)
		for _, x := range extremes {
			if !taskstest.Whole() && s.sample.IntN(20) > 0 {
				continue
			}
			set(x)
			s.judge(path, x, encode())
		}
		set(value)
	})
}

// judge sends a record that has x at a path.
func (s *recordSender) judge(path string, x any, document []byte) {
	s.t.Helper()
	switch status, answer := s.send(document); status {
	case http.StatusCreated, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
	case http.StatusUnprocessableEntity:
		var body struct{ Error string }
		if err := json.Unmarshal([]byte(answer), &body); err != nil || body.Error == "" || strings.Contains(body.Error, "\n") || len(body.Error) > 1000 {
			s.t.Errorf("%s = %.40s: %.400q; expected one sentence", path, fmt.Sprint(x), answer)
		}
	default:
		s.t.Errorf("%s = %.40s: %d %.400s", path, fmt.Sprint(x), status, answer)
	}
}

// walk visits the values below a node in a fixed order.
func walk(n any, path string, visit func(path string, set func(any), value any)) {
	switch n := n.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			value := n[key]
			visit(path+"."+key, func(x any) { n[key] = x }, value)
			walk(value, path+"."+key, visit)
		}
	case []any:
		for i, value := range n {
			visit(path, func(x any) { n[i] = x }, value)
			walk(value, path, visit)
		}
	}
}

// sendWhole sends documents that are no specs, or very large ones.
func (s *recordSender) sendWhole() {
	cells := func(cell string, n int) string {
		return `{"name":"full","cells":[` + strings.TrimSuffix(strings.Repeat(cell+",", n), ",") + `]}`
	}
	for _, document := range []string{
		"", "null", "0", `"x"`, "[]", "{}", `{"cells":{}}`, `{"name":"full","cells":[]}`, `{"cells":null}`, `{"cells":[null]}`,
		`{"x":1}`, `{"name":"full"`, strings.Repeat("[", 1_000_000), `{"cells":` + strings.Repeat("[", 1_000_000),
		cells("{}", 1), cells("{}", 1_000_000), cells("null", 1_000_000), cells(`{"index":0,"name":"c01"}`, 1_000_000),
		`{"name":"full","sources":{` + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("0", 64)+`":[],`, 100_000), ",") + `},"cells":[{}]}`,
		cells(`{"axes":{`+strings.TrimSuffix(strings.Repeat(`"seed":1,`, 100_000), ",")+`}}`, 1),
	} {
		s.judge("the document", fmt.Sprintf("%.60s", document), []byte(document))
	}
}

// coversTheSchema checks that every field of an experiment was mutated, those of an
// optimizer at least of one.
func (s *recordSender) coversTheSchema(path string) {
	data := must.Get(os.ReadFile(path))(s.t)
	var schema any
	must.Do(s.t, json.Unmarshal(data, &schema))
	last := func(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
	for _, field := range schemaFields(schema.(map[string]any), schema, "") {
		mutated := slices.ContainsFunc(s.paths, func(path string) bool { return last(path) == last(field) })
		if !mutated && !slices.Contains(outsideFiles, field) {
			s.t.Errorf("no record has the field %s; add it to one of the files above or, if an audit has it, to one in its testdata/complete", field)
		}
	}
}

// schemaFields lists the paths of the fields that a schema describes, without the grid.
func schemaFields(root map[string]any, at any, path string) []string {
	var fields []string
	switch at := at.(type) {
	case map[string]any:
		if ref, ok := at["$ref"].(string); ok {
			return schemaFields(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")], path)
		}
		properties, _ := at["properties"].(map[string]any)
		for name, property := range properties {
			if name == "grid" && path == "" {
				continue
			}
			fields = append(fields, strings.TrimPrefix(path+"."+name, "."))
			fields = append(fields, schemaFields(root, property, path+"."+name)...)
		}
		for _, choice := range []string{"anyOf", "oneOf", "allOf"} {
			alternatives, _ := at[choice].([]any)
			for _, a := range alternatives {
				fields = append(fields, schemaFields(root, a, path)...)
			}
		}
	}
	return fields
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that a process has had in memory, in bytes, where the system
// tells it.
func peakMemory(pid int) (int64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := peakLine.FindSubmatch(status)
	if err != nil || found == nil {
		return 0, false
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kib << 10, err == nil
}
