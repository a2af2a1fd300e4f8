package experiment

import (
	"encoding/json"
	"reflect"
	"strings"

	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/clientprograms"
)

const clientCommand = "training.client_command"

// ClientProgram is the program that trains the clients in place of this one; nil if there
// is none.
func (e *Experiment) ClientProgram() *clientprograms.Program {
	t := &e.Training
	if t.ClientCommand == "" {
		return nil
	}
	return &clientprograms.Program{Command: t.ClientCommand, Code: t.CodeSHA256, Config: json.RawMessage(t.Job), Image: models.ImageShape(e.Data.Shape())}
}

// externalClients checks a cell whose clients code of somebody else trains.
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

// ofWholeTrainings refuses fields of training.command alone.
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

// unlikeClients reports fields that only models trained here have.
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
