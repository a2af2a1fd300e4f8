package experiment

import (
	"encoding/json"
	"reflect"
	"strings"

	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/training"
)

const clientCommand = "training.client_command"

// ClientProgram returns the external program that trains the clients; nil if there is none.
func (e *Experiment) ClientProgram() *clientprograms.Program {
	t := &e.Training
	if t.ClientCommand == "" {
		return nil
	}
	return &clientprograms.Program{Command: t.ClientCommand, Code: t.CodeSHA256, Config: json.RawMessage(t.Job), Image: models.ImageShape(e.Data.Shape())}
}

// TrainerCode is the directory of the trainer of PyTorchEngine among the embedded files.
const TrainerCode = "coalmine.torch"

// Trainer returns the program that trains the clients: a ClientProgram, or the trainer of
// PyTorchEngine with a config; nil if there is none.
func (e *Experiment) Trainer(config func() (json.RawMessage, error)) (*clientprograms.Program, error) {
	if e.Training.Engine != PyTorchEngine {
		return e.ClientProgram(), nil
	}
	text, err := config()
	return &clientprograms.Program{Command: "python3 -m coalmine.torch", Code: e.Training.PyTorch.CodeSHA256, Config: text}, err
}

// engine checks a cell with clients trained by the trainer in PyTorch.
func (c *checker) engine() {
	const engine = "training.engine"
	if c.Training.Engine != PyTorchEngine {
		if c.Model.Kind == models.Transformer {
			c.fail([]string{"model.kind", engine}, "is %s, which Coalmine trains in PyTorch only; set training.engine to %s", models.Transformer, PyTorchEngine)
		}
		return
	}
	if c.Training.Algorithm != FedAvg {
		c.fail([]string{engine, "training.algorithm"}, "trains clients of %s, and training.algorithm is %s; remove one of them", FedAvg, c.Training.Algorithm)
	}
	if c.Data.Pairs && c.Model.Kind != models.Transformer {
		c.fail([]string{engine, "data.pairs"}, "trains no encoder-decoders, which data.pairs makes of the model; remove one of them")
	}
	if p := c.Training.PyTorch; p != nil && p.CodeSHA256 != "" && !sha256Pattern.MatchString(p.CodeSHA256) {
		c.fail([]string{"training.pytorch.code_sha256"}, "is %s; expected 64 lower-case hex digits", quote(p.CodeSHA256))
	}
	if c.Audit.Controlled() == privacy.ClipPerBatch {
		c.fail([]string{engine, "audit.controls"}, "takes the steps of clients by a program, and the control %s clips these; remove one of them", privacy.ClipPerBatch)
	}
}

// externalClients checks a cell with clients trained by external code.
func (c *checker) externalClients() {
	if strings.TrimSpace(c.Training.ClientCommand) == "" {
		c.fail([]string{clientCommand}, "is empty; expected the command that trains clients, such as %q", "python3 client.py")
	}
	c.code()
	for _, f := range fieldsOf(reflect.TypeFor[Client]()) {
		path := "training.client." + f.name
		if f.name != "noise" && f.name != "compress" && c.givenTogether(path, clientCommand) {
			c.fail([]string{path, clientCommand}, "is about clients that are trained here; expected it in training.job, which the program of %s gets as it stands", clientCommand)
		}
	}
	c.ofWholeTrainings()
	c.unlikeClients()
	for _, m := range c.Audit.Asked() {
		if !m.ByProgram {
			c.fail([]string{"audit." + m.Name, clientCommand}, "asks more of a model than a program of %s answers; expected one of %s, or null for this cell", clientCommand, c.auditsThat(byProgram))
		}
	}
}

// ofWholeTrainings rejects fields that apply only to training.command.
func (c *checker) ofWholeTrainings() {
	t := &c.Training
	for _, f := range []struct {
		path  string
		given bool
	}{
		{"training.deterministic", t.Deterministic},
		{"training.limits.time", t.Limits != nil && t.Limits.Time > 0},
		{"training.limits.files", t.Limits != nil && t.Limits.Files > 0},
	} {
		if f.given {
			c.fail([]string{f.path, clientCommand}, "is about training.command; remove it for this cell")
		}
	}
}

// unlikeClients reports fields that apply only to built-in training.
func (c *checker) unlikeClients() {
	for _, block := range []struct {
		path  string
		given bool
	}{
		{"data.pairs", c.Data.Pairs},
		{"data.label", c.Data.Label != ""},
		{"data.disagreement", c.Data.Disagreement != nil},
		{"prepare", c.Prepare != nil},
		{"training.stop_at", c.Training.StopAt != nil},
	} {
		if block.given {
			c.fail([]string{block.path, clientCommand}, "is for models that are trained here, and a program of %s trains the clients; remove it for this cell", clientCommand)
		}
	}
}

func byProgram(d audits.Description) bool { return d.ByProgram }

// Batches returns the effect of short batches on the learning rate of the clients; sizes counts the
// clients by their number of examples. It is nil if few clients have less than a batch, and for
// trainings without built-in clients.
func (e *Experiment) Batches(sizes map[int]int) *training.Batches {
	if !e.TrainsClients() {
		return nil
	}
	c := &e.Training.Client
	return training.NewBatches(training.Local{Batch: c.Batch, LearningRate: c.LearningRate}, c.Epochs, c.Steps, sizes)
}

// TrainsClients reports whether the training is federated with built-in clients.
func (e *Experiment) TrainsClients() bool {
	return e.Training.Algorithm == FedAvg && e.ClientProgram() == nil
}
