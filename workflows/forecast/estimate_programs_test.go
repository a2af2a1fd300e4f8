package forecast

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits/models/utility"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/plantest"
)

// layered is a network of one layer.
type layered struct {
	models.Network
	values int
}

func (l layered) Trained() int { return l.values }
func (l layered) Tensors() []models.Tensor {
	return []models.Tensor{{Name: "output.weight", Shape: []int{l.values}}}
}

// Attacks on the updates of a program cost as much as those on its network, which is
// unknown before the program was asked.
func TestAttackCostFollowsProgramNetwork(t *testing.T) {
	t.Parallel()
	const file = `
name: attacked
data: {source: digits.jsonl.gz, level: image, devices: {prior: random, size: 50%}}
model: {kind: external}
training: {client_command: python3 client.py, rounds: 60, cohort: 60, record: {layers: [output.weight]}}
audit: {deanonymization: {attacks: [mlp], epochs: 200}}
`
	spec := must.Get(experiment.Parse("attacked.yaml", []byte(file), experiment.Options{}))(t)
	c := costing{cell: &spec.Cells[0], experiment: &spec.Cells[0].Experiment, model: foreign{}}
	for _, m := range c.experiment.Audit.Requested() {
		if m.Name != "deanonymization" {
			continue
		}
		if c.speed = nil; !c.share(m, "", 1).Unknown {
			t.Error("the load is known before the program was asked")
		}
		flop := func(values int) float64 {
			c.speed = &Speed{Network: layered{values: values}}
			return c.share(m, "", 1).Attacks
		}
		if few, many := flop(10), flop(1000); few <= 0 || many < 99*few || many > 101*few {
			t.Errorf("%g FLOP of 10 values and %g of 1000, want a hundred times as many", few, many)
		}
		return
	}
	t.Error("no such audit")
}

// The trainer in PyTorch trains by its own pace, and the audits of its models are native.
func TestPyTorchTrainerLoadsAreMeasured(t *testing.T) {
	t.Parallel()
	const file = `
name: torch
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}}
model: {kind: gru, embedding: 4, units: 4}
training: {rounds: 3, cohort: 6, chunks: 2, engine: pytorch}
audit: {utility: true}
`
	digest := storage.DigestOf(plantest.Text())
	spec, p := plantest.Resolve(t, file, []storage.Digest{digest}), plantest.Compiled(t, file, digest)
	s := &submission.Submission{Spec: spec, TokensPerExample: []float64{10}, TokensPerUser: []float64{100}, TrainTokens: []float64{1000}, TestTokens: []float64{50}}
	for _, speed := range []*Speed{nil, {Train: Pace{Token: 0.25}}} {
		l := LoadsOf(s, p, func(int) *Speed { return speed })
		perUser := spec.Cells[0].Experiment.Data.Predicted(100)
		for _, step := range l.steps {
			if part := step.part; part.Unknown != (speed == nil) || part.Training != 0 || part.Overhead != 0 || speed != nil && part.Program != 3*perUser*0.25 {
				t.Errorf("with the pace %+v a part is %+v; want that of 3 users of %g tokens", speed, part, perUser)
			}
			if step.join.Unknown || step.join.Program != 0 {
				t.Errorf("a join is %+v", step.join)
			}
		}
		for key, load := range l.nodes {
			kind := p.Nodes[key].Kind
			if strings.HasPrefix(kind, "datasets/") || kind == utility.Frequencies.Name {
				continue // no model
			}
			if load.Unknown || load.Program != 0 || load.Sentences == 0 {
				t.Errorf("%s is %+v, want native scoring", p.Nodes[key].Kind, load)
			}
		}
	}
}
