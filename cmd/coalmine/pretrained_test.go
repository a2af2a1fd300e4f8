package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/pretrained"
	"coalmine/tasks/pretrained/pretrainedtest"
	"coalmine/tasks/taskstest"
)

const tunedFile = `
name: tuned
data: {source: %s, level: subword, sequence: 24, vocabulary: {size: 520}, users: {words: 60}, test: {fraction: 10%%}}
canaries: {words: 3, per_configuration: 2, user_probability: 1/3, example_probability: 1, held_back: 2}
model: {kind: transformer, pretrained: %s}
grid: {axes: {model.adapters: [null, {rank: 4, matrices: [attention.query, attention.value, feed.input, feed.output]}]}}
training: {engine: pytorch, pytorch: {users: 4}, rounds: 3, cohort: 4, chunks: 2, client: {learning_rate: 0.5, gradient_clip: 1}}
audit: {utility: true, random_sampling: {references: 100}}
`

// Three rounds lower the loss of a text of the training, by the native scorer; those of adapters leave
// the weights of the folder as they are. The environment is shared by tests.
func TestAPretrainedModelIsFineTunedElsewhere(t *testing.T) {
	testserver.WithoutRace(t)
	setPython(t, testserver.Python(t, "torch"))
	dir := t.TempDir()
	model, source := filepath.Join(dir, "llama"), filepath.Join(dir, "text.jsonl")
	must.Do(t, os.CopyFS(model, pretrainedtest.Folder(t, "llama", nil)))
	writeFile(t, source, string(taskstest.Text(800)))
	writeFile(t, filepath.Join(dir, "small.yaml"), fmt.Sprintf(tunedFile, source, model))
	home := filepath.Join(dir, "home")
	prints(t, "run", filepath.Join(dir, "small.yaml"), "--home", home)
	prints(t, "gc", "--home", home)
	prints(t, "verify", "latest", "--all", "--home", home)
	file := func(cell, round string) string {
		path := filepath.Join(dir, cell+"-"+round)
		prints(t, "export", "latest", cell, "--round", round, "-o", path, "--home", home)
		return path
	}
	first, fine, adapted := file("c01", "0"), file("c01", "3"), file("c02", "3")
	if loss := lossOf(t, first); !(lossOf(t, fine) < loss-0.1) || !(lossOf(t, adapted) < loss-0.02) || lossOf(t, file("c02", "0")) != loss {
		t.Errorf("losses: %v after three rounds and %v with adapters; before %v and %v", lossOf(t, fine), lossOf(t, adapted), loss, lossOf(t, file("c02", "0")))
	}
	base, after := modelIn(t, first), modelIn(t, adapted)
	if trained := after.Network.Trained(); trained == 0 || !slices.Equal(after.Params[trained:], base.Params) {
		t.Errorf("a model with %d parameters of adapters has other frozen ones than its folder", trained)
	}
	must.Do(t, os.RemoveAll(filepath.Join(home, "store", "sources")))
	for _, args := range [][]string{{"export", "latest", "c02", "-o", filepath.Join(dir, "none")}, {"sample", "latest", "c02"}} {
		fails(t, "submit the run again from the original file", append(args, "--home", home)...)
	}
}

func modelIn(t *testing.T, path string) *checkpoints.Model {
	t.Helper()
	return must.Get(checkpoints.Decode(must.Get(os.ReadFile(path))(t)))(t)
}

// lossOf is the mean loss of one sentence of the training text under an exported model, in nats.
func lossOf(t *testing.T, path string) float64 {
	t.Helper()
	scorer := must.Get(modelIn(t, path).NewScorer())(t)
	var line struct{ Text string }
	must.Do(t, json.NewDecoder(bytes.NewReader(taskstest.Text(1))).Decode(&line))
	losses, err := scorer.Losses([][]int32{append([]int32{2}, tokensOf(t, line.Text)...)})
	if err != nil || math.IsNaN(losses[0].Sum) {
		t.Fatal(losses, err)
	}
	return losses[0].Sum / float64(losses[0].Tokens)
}

// tokensOf are the first 20 tokens of a text.
func tokensOf(t *testing.T, content string) (tokens []int32) {
	t.Helper()
	folder := must.Get(pretrained.Open(pretrainedtest.Folder(t, "llama", nil), "llama"))(t)
	for _, token := range folder.Tokenizer.Encoder().Encode(content) {
		tokens = append(tokens, text.FirstWord+int32(token))
	}
	return tokens[:min(len(tokens), 20)]
}
