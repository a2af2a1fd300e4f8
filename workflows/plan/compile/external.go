package compile

import (
	"encoding/json"

	"coalmine/internal/childprocess"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// external compiles a training by an external program: one node.
func (c *cell) external() {
	t := &c.experiment.Training
	c.model = c.node(external.Train, "training by "+t.Command, c.trainParams(), edge{datasets.PopulationInput, c.population}, edge{datasets.ShardsInput, c.shards}, edge{datasets.PartsInput, c.parts})
	c.rest = plan.Tail{Rounds: t.Rounds, Node: c.model}
}

func (c *cell) trainParams() external.TrainParams {
	t := &c.experiment.Training
	params := external.TrainParams{
		Seed: c.experiment.Seed, Command: t.Command, Code: c.code(), Job: json.RawMessage(t.Job), Rounds: t.Rounds,
		Deterministic: t.Deterministic, Validation: c.experiment.Data.Validation.Exists(), Shards: shardsOf(t), Image: c.experiment.Data.Shape(),
	}
	if s := c.experiment.Sender(); s != nil {
		params.OneShot = s.Request()
	}
	for _, m := range c.experiment.Audit.Asked() {
		if m.Replay != nil {
			params.Replay = m.Replay(m.Fields)
		}
	}
	return params
}

// shardsOf returns the number of files of training data, 0 for a single file.
func shardsOf(t *experiment.Training) int {
	if t.Shards == 1 {
		return 0
	}
	return t.Shards
}

// code returns the digest of the training's code, zero if it has no code.
func (c *cell) code() storage.Digest {
	sha256 := c.experiment.Training.CodeSHA256
	if sha256 == "" {
		return storage.Digest{}
	}
	digest, err := storage.ParseDigest(sha256)
	if err != nil && c.err == nil {
		c.err = err
	}
	return digest
}

// runsCommands reports whether tasks with these parameters run an external command.
func runsCommands(kind tasks.Kind, params any) bool {
	asker, ok := params.(clientprograms.Asker)
	return kind.Command || ok && asker.Asks() != nil
}

// commandClass returns the class of the cell's commands.
func (c *cell) commandClass() tasks.Class {
	class := c.experiment.Training.Class
	if p := c.experiment.Training.PyTorch; p != nil {
		class = p.Class
	}
	if class != tasks.Compute && class != "" {
		return class
	}
	return tasks.Commands
}

// terms returns the limits of the cell's commands as JSON, nil if there are no limits.
func (c *cell) terms() json.RawMessage {
	l, t := c.experiment.Training.Limits, childprocess.Terms{Environment: c.experiment.Training.Environment}
	if l != nil {
		const mebibyte = 1 << 20
		t.Seconds, t.AnswerSeconds, t.Network = float64(l.Time), float64(l.Answer), l.Network
		t.Memory, t.Files = int64(l.Memory)*mebibyte, int64(l.Files)*mebibyte
	}
	text, err := json.Marshal(t)
	if err != nil && c.err == nil {
		c.err = err
	}
	return text
}
