package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/workflows/compile"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Metadata fields of an exported model, beside the configuration.
const (
	vocabularyField = "vocabulary" // JSON array: the word of each token
	runField        = "run"
	cellField       = "cell"
	roundField      = "round"
)

// Model implements API.
func (l *Local) Model(ctx context.Context, name, cell string, round int) ([]byte, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	x, err := newExporter(run, cell)
	if err != nil {
		return nil, err
	}
	ref, round, err := x.checkpoint(round)
	if err != nil {
		return nil, err
	}
	file, err := l.readBlob(ctx, ref.Key, tasks.ModelBlob)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("run %s, cell %s: the checkpoint after %d is not stored: %w; kept are the audited ones, the last, and those of training.checkpoints",
			run.ID, x.cell.Name, round, err)
	}
	if err != nil {
		return nil, err
	}
	vocabulary, err := l.vocabulary(ctx, x)
	if err != nil {
		return nil, err
	}
	model, err := checkpoints.Decode(file)
	if err != nil {
		return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, x.cell.Name, err)
	}
	return checkpoints.Encode(model.Language, model.Params, map[string]string{
		vocabularyField: vocabulary, runField: run.ID, cellField: x.cell.Name, roundField: fmt.Sprint(round),
	})
}

func (l *Local) readBlob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	commit, err := l.archive.Committed(ctx, key)
	if err != nil {
		return nil, err
	}
	blob, ok := commit.Blob(name)
	if !ok {
		return nil, fmt.Errorf("%s %s has no blob %q", commit.Kind, key.Short(), name)
	}
	return l.archive.ReadBlob(ctx, key, blob)
}

// vocabulary is the words of the cell's tokens as a JSON array.
func (l *Local) vocabulary(ctx context.Context, x *exporter) (string, error) {
	data, err := l.readBlob(ctx, x.cell.Vocabulary.Key, datasets.VocabularyBlob)
	if err != nil {
		return "", fmt.Errorf("vocabulary of cell %s: %w", x.cell.Name, err)
	}
	v, err := datasets.ParseVocabulary(data)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(v.Words)
	return string(text), err
}

// ExportedVocabulary is the word of each token of a model that was exported.
func ExportedVocabulary(model []byte) ([]string, error) {
	file, err := safetensors.Unmarshal(model)
	if err != nil {
		return nil, err
	}
	text, ok := file.Metadata[vocabularyField]
	if !ok {
		return nil, fmt.Errorf("the model file has no vocabulary in its metadata; expected one that coalmine export has written")
	}
	var words []string
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		return nil, fmt.Errorf("model file: metadata field %q: %w", vocabularyField, err)
	}
	if len(words) <= datasets.FirstWord {
		return nil, fmt.Errorf("the model file's vocabulary has %d tokens; expected more than the %d special ones", len(words), datasets.FirstWord)
	}
	return words, nil
}

// exporter finds the nodes of one cell.
type exporter struct {
	cell       *plan.Cell
	experiment *experiment.Experiment
}

func newExporter(run *runs.Run, name string) (*exporter, error) {
	spec, err := experiment.ReadSpec(run.Spec.Experiment)
	if err != nil {
		return nil, err
	}
	p, err := compile.Plan(spec)
	if err != nil {
		return nil, err
	}
	for i := range p.Cells {
		if p.Cells[i].Name == name || name == "" && len(p.Cells) == 1 {
			return &exporter{&p.Cells[i], &spec.Cells[i].Experiment}, nil
		}
	}
	return nil, fmt.Errorf("run %s: cell %q %w: it has c01 to %s", run.ID, name, ErrInput, p.Cells[len(p.Cells)-1].Name)
}

// checkpoint is the model after a round, 0 for the last.
func (x *exporter) checkpoint(round int) (plan.Ref, int, error) {
	rounds := x.experiment.Training.Rounds
	if round == 0 || round == rounds {
		return x.cell.Model, rounds, nil
	}
	chain := x.cell.Chain
	if chain == nil || round < 0 || round > rounds || round%chain.StepRounds != 0 {
		return plan.Ref{}, 0, fmt.Errorf("round %d %w: checkpoints of cell %s are after every %d rounds up to %d",
			round, ErrInput, x.cell.Name, max(1, stepRounds(chain)), rounds)
	}
	return chain.At(round / chain.StepRounds), round, nil
}

func stepRounds(c *plan.Chain) int {
	if c == nil {
		return 0
	}
	return c.StepRounds
}
