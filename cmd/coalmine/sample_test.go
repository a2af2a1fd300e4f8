package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits/models/samples"
	"coalmine/tasks/taskstest"
)

const sampleFile = `
name: sampled
seed: 3
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}}
model: {embedding: 8, units: 12}
training: {rounds: 3, cohort: 5, chunks: 1}
audit: {samples: {count: 30, length: 9, temperature: 0.8, top_k: 30, shown: 30}}
`

// The training diverges in its third round, so that the second is the newest.
func TestUnfinishedTrainingIsSampled(t *testing.T) {
	t.Parallel()
	path, home := smallFiles(t, strings.Replace(sampleFile, "chunks: 1", "chunks: 1, client: {learning_rate: 1e6}", 1), string(taskstest.Text(1500)))
	if code := execute(t.Context(), []string{"run", path, "--home", home}, io.Discard, io.Discard); code != exitCellFailed {
		t.Fatalf("exit status %d of a training that diverges", code)
	}
	newest := prints(t, "sample", "latest", "c01", "--home", home)
	var messages bytes.Buffer
	execute(t.Context(), []string{"sample", "latest", "c01", "--home", home}, io.Discard, &messages)
	if !strings.Contains(messages.String(), "cell c01 (failed): the samples are from the model after round 2 of 3") {
		t.Errorf("the messages do not name the model: %s", messages.String())
	}
	if second := prints(t, "sample", "latest", "c01", "--home", home, "--round", "2"); second != newest || strings.Count(newest, "\n") != 20 {
		t.Errorf("the newest model prints\n%s\nthat of the second round\n%s", newest, second)
	}
	if same := prints(t, "sample", "latest/c01", "--home", home); same != newest {
		t.Errorf("latest/c01 prints\n%s\nlatest c01\n%s", same, newest)
	}
	refuses(t, `unexpected argument "c01"`, "sample", "latest/c01", "c01", "--home", home)
	if initial := prints(t, "sample", "latest", "c01", "--home", home, "--round", "0"); initial == newest {
		t.Error("the newest model is the initial one")
	}
	refuses(t, "there is no model after round 3", "sample", "latest", "c01", "--home", home, "--round", "3")
}

// A done run does not seem to be in training if its models are gone.
func TestGoneModelsAreExplained(t *testing.T) {
	t.Parallel()
	home := smallRun(t, strings.Replace(sampleFile, "embedding: 8, units: 12", "embedding: 32, units: 64", 1)) // too large for a commit
	must.Do(t, os.RemoveAll(filepath.Join(home, "store", "blobs")))
	const why = "the run is done, but its models are gone from the store: coalmine retry sampled-"
	refuses(t, why, "sample", "latest", "c01", "--home", home)
	refuses(t, why, "export", "latest", "c01", "--home", home, "--output", filepath.Join(t.TempDir(), "model"))
}

func TestSamplesArePrinted(t *testing.T) {
	t.Parallel()
	home := smallRun(t, sampleFile)
	ask := func(flags ...string) []string {
		return append([]string{"sample", "latest", "c01", "--home", home}, flags...)
	}
	// One after another: a data directory has one user at a time.
	t.Run("those of the audit", func(t *testing.T) {
		var results struct {
			Cells []struct {
				Audit struct{ Samples samples.Outcome }
			}
		}
		decodeJSON(t, prints(t, "results", "latest", "--home", home, "--format", "json"), &results)
		var got []samples.Text
		decodeJSON(t, prints(t, ask("--json", "--seed", "3", "--count", "30", "--length", "9", "--temperature", "0.8", "--top-k", "30")...), &got)
		if want := results.Cells[0].Audit.Samples.Shown; len(got) != 30 || !slices.Equal(got, want) {
			t.Errorf("%+v\nthe audit has\n%+v", got, want)
		}
	})
	t.Run("the same again, after a prefix", func(t *testing.T) {
		text := prints(t, ask("--prefix", "w96 W31", "--count", "5")...)
		if again := prints(t, ask("--prefix", "w96 W31", "--count", "5")...); again != text {
			t.Errorf("first\n%s\nthen\n%s", text, again)
		}
		if other := prints(t, ask("--prefix", "w96 W31", "--count", "5", "--seed", "2")...); other == text {
			t.Error("another seed prints the same")
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if len(lines) != 5 {
			t.Fatalf("%d lines:\n%s", len(lines), text)
		}
		for _, line := range lines {
			if !strings.HasPrefix(line, "w96 w31") || len(strings.Fields(line)) > 2+21 {
				t.Errorf("sample %q", line)
			}
		}
	})
	t.Run("or nothing", func(t *testing.T) {
		refuses(t, `prefix "w96 canary": the word "canary" is not in the model's vocabulary`, ask("--prefix", "w96 canary")...)
		refuses(t, "sampling with temperature 0", ask("--temperature", "0")...)
		refuses(t, "0 samples: expected from 1 to", ask("--count", "0")...)
		refuses(t, "samples of at most -1 words or bytes", ask("--length", "-1")...)
		refuses(t, "a model after round 4 is invalid", ask("--round", "4")...)
		refuses(t, "--round -1: expected 0", ask("--round", "-1")...)
	})
}
