package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
)

// experimentFile trains five tiny models, one of them with noise that takes back a part of
// earlier rounds' and so has buffers beside its checkpoints. The chains pass a segment's boundary
// at step 100; audits keep checkpoints before it. Canaries are far too many, so
// that a tiny model memorizes some.
const experimentFile = `
name: tiny
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%, example_probability: [20%, 100%], held_back: 2}
model: {embedding: 8, units: 8}
training: {rounds: 104, cohort: 4, chunks: 2, checkpoints: {every: 20, keep: 2}, client: {learning_rate: 1}}
audit: {every: 50%, random_sampling: {references: 500}, beam_search: {width: 2}}
grid:
  axes:
    data.partition: [iid, by-user]
    training:
      - {algorithm: sgd, cohort: 4, steps_per_task: 1}
      - {algorithm: fedavg}
  include:
    - data: {partition: by-user}
      training:
        sampling: separated
        separation: 10
        privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-3, mechanism: {kind: blt, buffers: 2}}
`

// text is the source of the experiment.
func text() string { return randomText(40, 80) }

// randomText is JSON lines of users with 20 random sentences of six words each.
func randomText(users, words int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for user := range users {
		for range 20 {
			fmt.Fprintf(&b, `{"user":"u%d","text":"`, user)
			for range 6 {
				fmt.Fprintf(&b, "w%d ", random.IntN(words))
			}
			b.WriteString("\"}\n")
		}
	}
	return b.String()
}

// workspace is a directory with the experiment and its text, and a home.
type workspace struct {
	t   testing.TB
	dir string
}

func newWorkspace(t testing.TB) workspace {
	return fill(t, t.TempDir())
}

func fill(t testing.TB, dir string) workspace {
	w := workspace{t, dir}
	w.write("experiment.yaml", experimentFile)
	w.write("text.jsonl", text())
	return w
}

func (w workspace) write(name, content string) {
	w.t.Helper()
	must.Do(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644))
}

// coalmine is a command in the workspace, which has its home there.
func (w workspace) coalmine(args ...string) command {
	return command{name: "coalmine " + args[0], args: append([]string{binary}, args...), dir: w.dir}
}

func (w workspace) home() string  { return filepath.Join(w.dir, ".coalmine") }
func (w workspace) store() string { return filepath.Join(w.home(), "store") }

// archive opens the home's store, which no process may be writing to.
func (w workspace) archive() *storage.Archive {
	w.t.Helper()
	store := must.Get(dir.Open(w.store()))(w.t)
	return storage.NewArchive(store)
}

// results is the results JSON of the newest run.
func (w workspace) results() string {
	w.t.Helper()
	return printed(w.t, w.coalmine("results", "--format", "json"))
}

// killed runs an experiment once for each number in nodes, and kills it after that number of further commits.
func (w workspace) killed(file string, nodes ...int) {
	w.t.Helper()
	for _, n := range nodes {
		p := start(w.t, w.coalmine("run", file))
		p.await("some nodes are committed", w.progressed(n))
		p.kill()
		if code := p.exitCode(); code != -1 {
			w.t.Fatalf("the run ended by itself with exit status %d before it was killed", code)
		}
	}
}

// team is a workspace whose commands share a Redis and a store directory.
type team struct {
	workspace
	redis, directory string // the URL of Redis, and the store
}

func newTeam(t testing.TB) (team, *testserver.Redis) {
	server := testserver.StartRedis(t, "--appendonly", "no")
	return team{newWorkspace(t), server.URL(), t.TempDir()}, server
}

func (x team) coalmine(args ...string) command {
	c := x.workspace.coalmine(args...)
	c.env = []string{"COALMINE_REDIS_URL=" + x.redis, "COALMINE_STORE_URL=" + x.directory}
	return c
}

// start starts a command and waits until its stderr contains words.
func (x team) start(words string, args ...string) *process {
	x.t.Helper()
	p := start(x.t, x.coalmine(args...))
	p.says(words)
	return p
}

// says waits until the stderr of a process contains words.
func (p *process) says(words string) {
	p.await("it says "+words, func() bool { return strings.Contains(p.stderr.String(), words) })
}

func (x team) serve() *process { return x.start("serving ", "serve", "--listen", "127.0.0.1:0") }

func (x team) submit() (run string) {
	return strings.TrimSpace(printed(x.t, x.coalmine("submit", "experiment.yaml")))
}

// ends waits for a run and compares its outcome with that of an undisturbed run.
func (x team) ends(run string) {
	x.t.Helper()
	printed(x.t, x.coalmine("watch", run))
	store := must.Get(dir.Open(x.directory))(x.t)
	undisturbed(x.t).equals(x.t, &outcome{printed(x.t, x.coalmine("results", run, "--format", "json")), lastingCommits(x.t, storage.NewArchive(store))})
}

func (x team) progressed(n int) func() bool {
	return progressed(filepath.Join(x.directory, "commits"), n)
}

// progressed reports whether n more nodes of the home have been committed.
func (w workspace) progressed(n int) func() bool {
	return progressed(filepath.Join(w.store(), "commits"), n)
}

// progressed reports whether n files with the names of nodes have come to a
// directory since it was called. Those that come and go between two looks are not
// seen, so that it says yes a little late.
func progressed(commits string, n int) func() bool {
	before, seen := nodes(commits), map[string]bool{}
	return func() bool {
		for key := range nodes(commits) {
			if !before[key] {
				seen[key] = true
			}
		}
		return len(seen) >= n
	}
}

// nodes are the nodes whose records are in a directory now. One that cannot be
// read has none yet.
func nodes(commits string) map[string]bool {
	found := map[string]bool{}
	entries, _ := os.ReadDir(commits)
	for _, e := range entries {
		if _, err := storage.ParseKey(e.Name()); err == nil {
			found[e.Name()] = true
		}
	}
	return found
}
