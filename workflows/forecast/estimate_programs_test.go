package forecast

import (
	"testing"

	"coalmine/models"
	"coalmine/workflows/experiment"
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
func TestAttacksOnAProgramsUpdatesCostWhatItsNetworkDoes(t *testing.T) {
	t.Parallel()
	const file = `
name: attacked
data: {source: digits.jsonl.gz, level: image, devices: {prior: random, size: 50%}}
model: {kind: external}
training: {client_command: python3 client.py, rounds: 60, cohort: 60, record: {layers: [output.weight]}}
audit: {deanonymization: {attacks: [mlp], epochs: 200}}
`
	spec, err := experiment.Parse("attacked.yaml", []byte(file), experiment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := costing{cell: &spec.Cells[0], experiment: &spec.Cells[0].Experiment, model: foreign{}}
	for _, m := range c.experiment.Audit.Asked() {
		if m.Name != "deanonymization" {
			continue
		}
		if c.speed = nil; !c.share(m, 1).Unknown {
			t.Error("the load is known before the program was asked")
		}
		flop := func(values int) float64 {
			c.speed = &Speed{Network: layered{values: values}}
			return c.share(m, 1).FLOP
		}
		if few, many := flop(10), flop(1000); few <= 0 || many < 99*few || many > 101*few {
			t.Errorf("%g FLOP of 10 values and %g of 1000, want a hundred times as many", few, many)
		}
		return
	}
	t.Error("no such audit")
}
