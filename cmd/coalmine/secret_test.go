package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
)

// secretExperiment is a small training with secret randomness on a source of its own.
func secretExperiment(t *testing.T) (file, dir string) {
	t.Helper()
	dir = t.TempDir()
	source := filepath.Join(dir, "text.jsonl")
	var b strings.Builder
	for i := range 400 {
		b.WriteString(`{"user":"u` + string(rune('a'+i%8)) + `","text":"one two three four five six seven eight"}` + "\n")
	}
	file = filepath.Join(dir, "experiment.yaml")
	text := `name: secret
data: {source: ` + source + `, vocabulary: {size: 8}, users: {words: 80}}
model: {embedding: 4, units: 4}
training: {rounds: 2, cohort: 4, client: {batch: 2}, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3, randomness: secret}}
`
	for path, content := range map[string]string{source: b.String(), file: text} {
		writeFile(t, path, content)
	}
	return file, dir
}

func TestSecretRandomnessNeedsAKeyFile(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	home, key := filepath.Join(dir, "home"), filepath.Join(dir, "key")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", file}, exitUsage, "no key is given: name a key file with --secret-key"},
		{[]string{"plan", file, "--secret-key", key}, exitUsage, "run and submit create it"},
		{[]string{"run", file, "--secret-key", key}, exitDone, "wrote a new secret key to " + key},
		{[]string{"run", file, "--secret-key", key}, exitDone, ""},
	} {
		args := append(c.args, "--home", home)
		if code, _, stderr := coalmine(t, args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Fatalf("%v: exit status %d, %q; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
	k := must.Get(secrets.Read(key))(t)
	noneHolds(t, home, k)
}

// A submission that fails before it reaches its place leaves no key behind.
func TestFailedSubmissionWritesNoSecretKey(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	key := filepath.Join(dir, "key")
	server := httptest.NewServer(nil)
	server.Close()
	for _, args := range [][]string{
		{"submit", file, "--home", filepath.Join(dir, "missing")},
		{"submit", file, "--home", filepath.Join(dir, "missing"), "--new"},
		{"submit", file, "--server", server.URL},
		{"submit", file, "--server", server.URL, "--new"},
		{"run", file, "--server", server.URL, "--new"},
	} {
		if code, _, stderr := coalmine(t, append(args, "--secret-key", key)...); code == exitDone || strings.Contains(stderr, "does not exist: home") {
			t.Errorf("%v: exit status %d, %s", args, code, stderr)
		}
		if _, err := os.Stat(key); err == nil {
			t.Fatalf("%v wrote a key", args)
		}
	}
}

// A key that was lost while a run goes on is asked for before anything is written; another key does not take
// its place.
func TestUnfinishedRunWithLostKeyIsNotRestarted(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	home, path := filepath.Join(dir, "home"), filepath.Join(dir, "key")
	must.Do(t, os.Mkdir(home, 0o700))
	with := func(args ...string) []string { return append(args, "--home", home, "--secret-key", path) }
	run := strings.TrimSpace(prints(t, with("submit", file)...))
	key := contentOf(t, path)
	lost := must.Get(secrets.Read(path))(t)
	must.Do(t, os.Remove(path))
	waits := "run " + run + " of this experiment needs the key " + lost.Fingerprint()
	named := "training.privacy.key=" + lost.Fingerprint()
	for _, command := range []string{"run", "submit"} {
		refuses(t, path+" does not exist: a secret key is missing: "+waits, with(command, file)...)
		refuses(t, "the key "+lost.Fingerprint()+" of training.privacy.key is missing; restore it at "+path, with(command, file, "--set", named)...)
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s wrote a new key where one is missing", command)
		}
	}
	must.Get(secrets.Create(path))(t)
	refuses(t, "contains another key: a secret key is missing: "+waits, with("submit", file)...)
	prints(t, with("submit", file, "--new")...)
	prints(t, with("submit", file)...) // it goes on with the new one
	writeFile(t, path, key)
	if again := strings.TrimSpace(prints(t, with("submit", file)...)); again != run {
		t.Errorf("with the key the run that goes on is %s, want %s", again, run)
	}
	prints(t, with("cancel", run)...)
}

func TestSecretKeyInsideStoreIsRejected(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	home := filepath.Join(dir, "home")
	must.Do(t, os.Mkdir(home, 0o700))
	link := filepath.Join(dir, "link")
	if err := os.Symlink(home, link); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{filepath.Join(home, "key"), filepath.Join(home, "store", "key"), filepath.Join(link, "key")} {
		refuses(t, path+" is in the home", "run", file, "--home", home, "--secret-key", path)
	}
	refuses(t, "is in the store", "plan", file, "--store", home, "--secret-key", filepath.Join(link, "key"))
}

func TestWorldReadableSecretKeyWarns(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	path := filepath.Join(dir, "key")
	must.Get(secrets.Create(path))(t)
	must.Do(t, os.Chmod(path, 0o644))
	code, _, messages := coalmine(t, "plan", file, "--home", filepath.Join(dir, "home"), "--secret-key", path)
	if code != exitDone || strings.Count(messages, "has mode 0644, so that other users may read or replace the key: chmod 600 "+path) != 1 {
		t.Errorf("exit status %d\n%s", code, messages)
	}
}

// person is a user of the population of cohortsFile.
type person struct{ examples, tokens int64 }

const cohortsFile = `
name: cohorts
data: {source: %s, vocabulary: {size: 10}, users: {words: 0}, test: {fraction: 0}}
model: {embedding: 4, units: 4}
training: {rounds: 5, cohort: 4, checkpoints: {every: 1}, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3}}
`

// people are 12 users with so different data that the counts of a round tell who took part.
func people() (text string, users []person) {
	words := strings.Fields("one two three four five six seven eight nine ten")
	var b strings.Builder
	for u := range 12 {
		p, length := person{examples: int64(1 + u*u%7 + u)}, 2+u%5
		p.tokens = p.examples * int64(length+1) // with the end
		for s := range p.examples {
			var sentence []string
			for i := range length {
				sentence = append(sentence, words[(int(s)+i)%len(words)])
			}
			fmt.Fprintf(&b, `{"user":"u%02d","text":"%s"}`+"\n", u, strings.Join(sentence, " "))
		}
		users = append(users, p)
	}
	return b.String(), users
}

// consistent counts the cohorts of four users that agree with the published numbers of a round.
func consistent(users []person, round map[string]float64) (n int) {
	agrees := func(name string, want int64) bool {
		got, published := round[name]
		return !published || got == float64(want)
	}
	for chosen := range 1 << len(users) {
		if bits.OnesCount(uint(chosen)) != 4 {
			continue
		}
		var sum person
		for u, p := range users {
			if chosen>>u&1 == 1 {
				sum.examples, sum.tokens = sum.examples+p.examples, sum.tokens+p.tokens
			}
		}
		if agrees("examples", sum.examples) && agrees("tokens", sum.tokens) {
			n++
		}
	}
	return n
}

// publishedRounds are the rounds of the newest run.
func publishedRounds(t *testing.T, home string) []map[string]float64 {
	t.Helper()
	var r struct {
		Cells []struct{ Rounds []map[string]float64 }
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--rows", "rounds", "--format", "json"), &r)
	return r.Cells[0].Rounds
}

// The published results of a training with a secret key rule out no cohort: they have no exact
// function of the participants' data.
func TestPublishedResultsHideSecretCohorts(t *testing.T) {
	t.Parallel()
	const all = 495 // 4 of 12
	text, users := people()
	path, home := smallFiles(t, cohortsFile, text)
	key := filepath.Join(t.TempDir(), "key")
	for _, randomness := range []string{"seeded", "secret"} {
		prints(t, "run", path, "--home", home, "--secret-key", key, "--set", "training.privacy.randomness="+randomness)
		for _, round := range publishedRounds(t, home) {
			if n := consistent(users, round); randomness == "seeded" && (n == 0 || n > all/10) || randomness == "secret" && n != all {
				t.Errorf("%s: %d of %d cohorts agree with round %v", randomness, n, all, round)
			}
		}
	}
	allowed := strings.Fields("round update_norm noise_deviation epsilon epsilon_proved clip learning_rate server_learning_rate")
	for _, round := range publishedRounds(t, home) {
		for name := range round {
			if !slices.Contains(allowed, name) {
				t.Errorf("%s is published of a round of a secret training", name)
			}
		}
	}
	// Measured rounds say it, too.
	prints(t, "run", path, "--home", home, "--secret-key", key, "--set", "training.privacy.randomness=secret", "--set", "audit={utility: true, every: 2}", "--set", "data.test.fraction=20%")
	results := prints(t, "results", "latest", "--home", home, "--format", "json")
	nodes := prints(t, "show", "latest", "c01", "--nodes", "--home", home, "--json")
	if !strings.Contains(results, "update_norm") || !strings.Contains(nodes, `"name": "model"`) {
		t.Errorf("what may be published is missing in\n%s%s", results, nodes)
	}
	for what, text := range map[string]string{"results": results, "nodes": nodes} {
		for _, name := range []string{"training_loss", "client_norm", "clipped_norm", "loss_sum", "norm_sum", `"name": "sum"`, `"name": "rows"`} {
			if strings.Contains(text, name) {
				t.Errorf("%s of a secret training have %s", what, name)
			}
		}
	}
}

// An address with a password is quoted without it.
func TestMessagesOmitPasswordsOfAddresses(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	for _, args := range [][]string{
		{"plan", file, "--set", "data.source=s3://AK:hunter2@bucket/x"},
		{"plan", file, "--set", "data.source=https://me:hunter2@host/data.jsonl", "--json"},
		{"status", "--server", "http://me:hunter2@localhost:1"},
		{"status", "--server", "http://localhost:1/#hunter2"},
		{"status", "--redis", "redis://me:hunter2@localhost:1/none", "--store", dir},
		{"status", "--store", "s3://AK:hunter2@bucket/x"},
	} {
		code, out, messages := coalmine(t, args...)
		if code == exitDone {
			t.Errorf("%q succeeds", args)
		}
		if text := out + messages; strings.Contains(text, "hunter2") || text == "" {
			t.Errorf("%q prints %s", args, text)
		}
	}
}

// noneHolds fails the test if a file below dir holds the key.
func noneHolds(t *testing.T, dir string, key secrets.Key) {
	t.Helper()
	secret := key.Bytes()
	digits := []byte(hex.EncodeToString(secret[:8]))
	must.Do(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, secret[:8]) || bytes.Contains(data, digits) {
			t.Errorf("%s holds the secret key", path)
		}
		return err
	}))
}

// To train again under another key costs as much privacy as the first training did.
func TestDoneTrainingWithLostKeyIsNotRepeated(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	path, home := filepath.Join(dir, "key"), filepath.Join(dir, "home")
	run := []string{"run", file, "--home", home, "--secret-key", path}
	prints(t, run...)
	must.Do(t, os.Remove(path))
	refuses(t, "used the key", run...)
	if _, err := os.Stat(path); err == nil {
		t.Error("a new key was written")
	}
	prints(t, append(run, "--new")...)
	prints(t, run...) // it is cached
}
