// These files measure the speed of audits: they make an untrained model and one
// that has memorized some of its canaries, and time the tasks of
// audits/random-sampling on them.

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/training"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

// Subject is a model to audit.
type Subject struct {
	// Name is "untrained" or "trained".
	Name string
	// Model is a safetensors file, Canaries a JSON array of datasets.Placement.
	Model    []byte
	Canaries []byte
}

// recipe is the paper's model (Thakkar et al. 2020, section 4.1) and its 90
// canaries, in a short training: a part of the text, few steps, and canaries so
// frequent that some are memorized, some half, and some not.
const recipe = `
name: bench-audit
data: {source: text, vocabulary: {size: %d}, users: {words: 400}}
canaries:
  per_configuration: 10
  held_back: 0
  user_probability: [1/800, 1/400, 1/200]
  example_probability: [5%%, 25%%, 100%%]
model: {kind: cifg-lstm, embedding: 96, units: 670}
training:
  algorithm: sgd
  rounds: %d
  cohort: 32
  client: {learning_rate: 4, gradient_clip: 0.5}
audit: {random_sampling: {}, utility: false}
`

// size is the size of a training: words of the vocabulary, records of the text,
// and steps.
type size struct{ vocabulary, records, steps int }

var paperSize = size{vocabulary: 10_000, records: 16_000, steps: 1_000}

// Subjects makes the untrained and the trained model from a text in the format
// of data sources: JSON lines with user and text, such as
// examples/data/state-of-the-union.jsonl.gz. Training takes one or two minutes.
func Subjects(ctx context.Context, path string) ([]Subject, error) {
	return subjects(ctx, path, paperSize)
}

func subjects(ctx context.Context, path string, scale size) ([]Subject, error) {
	text, err := firstRecords(ctx, path, scale.records)
	if err != nil {
		return nil, err
	}
	p, err := planTraining(ctx, text, scale)
	if err != nil {
		return nil, err
	}
	x := localexec.New(p, compile.Registry(), text)
	list, err := blobOf(ctx, x, theOnly(p, canaries.Draw), datasets.CanariesBlob)
	if err != nil {
		return nil, err
	}
	untrained, err := blobOf(ctx, x, theOnly(p, training.Initial), tasks.ModelBlob)
	if err != nil {
		return nil, err
	}
	trained, err := blobOf(ctx, x, p.Cells[0].Model, tasks.ModelBlob)
	if err != nil {
		return nil, err
	}
	return []Subject{
		{Name: "untrained", Model: untrained, Canaries: list},
		{Name: "trained", Model: trained, Canaries: list},
	}, nil
}

// blobOf runs a node of the plan and its inputs, and returns one of its blobs.
func blobOf(ctx context.Context, x *localexec.Executor, r plan.Ref, name string) ([]byte, error) {
	if err := x.Reach(ctx, r); err != nil {
		return nil, err
	}
	return x.Blob(ctx, r.Key, name)
}

// theOnly finds the only node of a kind in the recipe.
func theOnly(p *plan.Plan, kind tasks.Kind) plan.Ref {
	for key, n := range p.Nodes {
		if n.Kind == kind.Name {
			return plan.Ref{Key: key}
		}
	}
	panic("audit: the recipe has no " + kind.Name)
}

// firstRecords returns the first records of a source, as JSON lines.
func firstRecords(ctx context.Context, path string, most int) ([]byte, error) {
	file := datasets.File{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	var b bytes.Buffer
	encoder, n := json.NewEncoder(&b), 0
	for record, err := range datasets.Records(ctx, []datasets.File{file}, datasets.Limits{}) {
		if err != nil {
			return nil, err
		}
		if err := encoder.Encode(map[string]string{"user": record.User, "text": record.Text}); err != nil {
			return nil, err
		}
		if n++; n == most {
			break
		}
	}
	return b.Bytes(), nil
}

func planTraining(ctx context.Context, text []byte, scale size) (*plan.Plan, error) {
	file := fmt.Appendf(nil, recipe, scale.vocabulary, scale.steps)
	s, err := submission.PrepareFile(ctx, "bench", file, experiment.Options{}, sources.Text(text), nil)
	if err != nil {
		return nil, err
	}
	return compile.Plan(s.Spec)
}
