package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// restoredExperiment has outputs that are stored as blobs, and some that lie in commits.
const restoredExperiment = `
name: restored
data: {source: text.jsonl, vocabulary: {size: 30}, users: {words: 100}, test: {fraction: 10%}}
model: {embedding: 24, units: 48}
canaries: {user_probability: [1/4], example_probability: [100%], per_configuration: 2}
audit: {random_sampling: {references: 100}}
training: {rounds: 3, cohort: 4, chunks: 2}
grid: {axes: {training.client.learning_rate: [0.5, 0.7]}}
`

// coalmineAt runs commands on a home.
type coalmineAt struct {
	t    *testing.T
	home string
}

// says runs a command, and returns all that it prints.
func (c coalmineAt) says(code int, args ...string) string {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	if got := execute(c.t.Context(), append(args, "--home", c.home), &stdout, &stderr); got != code {
		c.t.Fatalf("%v: exit status %d, want %d\n%s%s", args, got, code, &stdout, &stderr)
	}
	return stdout.String() + stderr.String()
}

// stored are the files of the store, but for the records of runs and leaders.
func (c coalmineAt) stored() (files []string) {
	c.t.Helper()
	for _, kind := range []string{"commits", "blobs"} {
		must.Do(c.t, filepath.WalkDir(filepath.Join(c.home, "store", kind), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		}))
	}
	return files
}

// A backup may leave commits or blobs out: a run that is done computes them again, and also single
// outputs that its results are not read from.
func TestDoneRunIsRestoredFromPartialBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "experiment.yaml")
	for path, content := range map[string]string{filepath.Join(dir, "text.jsonl"): spendingText(), file: restoredExperiment} {
		writeFile(t, path, content)
	}
	c := coalmineAt{t, filepath.Join(dir, "home")}
	c.says(exitDone, "run", file)
	random := rand.New(rand.NewPCG(1, 31))
	results, files := c.says(exitDone, "results", "--format", "json"), c.stored()
	if len(files) < 40 || !slices.ContainsFunc(files, func(path string) bool { return strings.Contains(path, "blobs") }) {
		t.Fatalf("only %q are stored, so this test shows little", files)
	}
	for i, lost := range []func(path string) bool{
		func(path string) bool { return strings.Contains(path, "blobs") },
		func(path string) bool { return strings.Contains(path, "commits") },
		func(string) bool { return true },
		func(string) bool { return random.IntN(3) == 0 },
		func(string) bool { return random.IntN(8) == 0 },
	} {
		for _, command := range []string{"retry", "resume"} {
			if said := c.says(exitUsage, command); !strings.Contains(said, "no missing outputs") {
				t.Errorf("%s of a whole run: %s", command, said)
			}
		}
		for _, path := range slices.DeleteFunc(c.stored(), func(path string) bool { return !lost(path) }) {
			must.Do(t, os.Remove(path))
		}
		c.says(exitDone, []string{"retry", "resume"}[i%2])
		if said := c.says(exitDone, "run", file); !strings.Contains(said, "continuing run") {
			t.Errorf("loss %d: the run was not continued: %s", i, said)
		}
		if again := c.says(exitDone, "results", "--format", "json"); again != results {
			t.Errorf("loss %d: the results are\n%s\nwant\n%s", i, again, results)
		}
		if again := c.stored(); i < 3 && !slices.Equal(again, files) {
			t.Errorf("loss %d: the store has %d objects, want %d", i, len(again), len(files))
		}
	}
}

// A disk may damage the outputs of a done run. Another run of the same experiment reads the reports before it
// ends, and makes damaged ones again; a retry reads and repairs all outputs.
func TestDamagedOutputsOfDoneRunAreRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "experiment.yaml")
	// So many canaries that a report does not lie in its commit.
	large := strings.NewReplacer("per_configuration: 2", "per_configuration: 130", "size: 30", "size: 300").Replace(restoredExperiment)
	random := rand.New(rand.NewPCG(1, 32))
	var text strings.Builder
	for range 1000 {
		fmt.Fprintf(&text, `{"user": "u%d", "text": "w%d w%d w%d w%d"}`+"\n", random.IntN(20), random.IntN(400), random.IntN(400), random.IntN(400), random.IntN(400))
	}
	for path, content := range map[string]string{filepath.Join(dir, "text.jsonl"): text.String(), file: large} {
		writeFile(t, path, content)
	}
	c := coalmineAt{t, filepath.Join(dir, "home")}
	c.says(exitDone, "run", file)
	results, originals := c.says(exitDone, "results", "--format", "csv"), make(map[string][]byte)
	for _, path := range c.stored() {
		if strings.Contains(path, "blobs") {
			originals[path] = must.Get(os.ReadFile(path))(t)
		}
	}
	damage := func() {
		for path, data := range originals {
			damaged := slices.Clone(data)
			damaged[len(data)/2] ^= 0x20
			must.Do(t, os.WriteFile(path, damaged, 0o600))
		}
	}
	damage()
	if said := c.says(exitUsage, "results"); !strings.Contains(said, "corrupt") || !strings.Contains(said, "coalmine retry") {
		t.Errorf("results of a damaged run: %s", said)
	}
	c.says(exitDone, "run", file)
	if again := strings.ReplaceAll(c.says(exitDone, "results", "--format", "csv"), ".2,", ","); again != results {
		t.Errorf("the results of another run are\n%s\nwant\n%s", again, results)
	}
	damage()
	c.says(exitDone, "retry")
	c.says(exitDone, "run", file)
	for path, data := range originals {
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s is not as it was: %v", path, err)
		}
	}
}

func TestVerifyWithoutOutputsFails(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	key := []string{"--secret-key", filepath.Join(dir, "key")}
	c := coalmineAt{t, filepath.Join(dir, "home")}
	c.says(exitDone, append([]string{"run", file}, key...)...)
	must.Do(t, os.RemoveAll(filepath.Join(c.home, "store", "commits")))
	if said := c.says(exitCellFailed, append([]string{"verify"}, key...)...); !strings.Contains(said, "there is nothing to verify") || !strings.Contains(said, "coalmine retry") {
		t.Error(said)
	}
}
