package experiment

import (
	"encoding/json"
	"path"
	"reflect"
	"slices"
	"strings"

	"coalmine/models"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/training"
)

// implied adds training.algorithm: external if training.command is given without an algorithm.
func implied(tree *node) *node {
	command := tree.find("training.command")
	if command == nil || command.kind == nullNode || tree.find("training.algorithm") != nil {
		return tree
	}
	algorithm := &node{kind: scalarNode, at: command.at, layer: command.layer, text: string(External)}
	return merge(tree, nest("training.algorithm", command.at, algorithm))
}

// external checks a cell with an external model.
func (c *checker) external() {
	const kind, algorithm = "model.kind", "training.algorithm"
	switch external, whole := c.Model.Kind == models.External, c.Training.Algorithm == External; {
	case external && c.Training.Algorithm == FedAvg && c.Training.ClientCommand != "":
		c.externalClients()
		return
	case external && !whole:
		c.fail([]string{kind, algorithm, "training.command", clientCommand}, "is external, a model trained by a program, but training.algorithm is %s; expected training.command, or %s with training.algorithm: %s", c.Training.Algorithm, clientCommand, FedAvg)
		return
	case external && c.Training.ClientCommand != "":
		c.fail([]string{clientCommand, "training.command"}, "trains the clients of a federated training, but training.command runs a whole training; remove one of them")
		return
	case whole && !external:
		c.fail([]string{algorithm, kind}, "is external, but Coalmine itself trains a model of the kind %s; expected model.kind: external", c.Model.Kind)
		return
	case !external:
		return
	}
	if strings.TrimSpace(c.Training.Command) == "" {
		c.fail([]string{"training.command"}, `missing; expected the command that trains the model, such as "python3 train.py"`)
	}
	c.code()
	c.unlike(kind)
}

// code checks the directory and digest of the code.
func (c *checker) code() {
	const trainer, scorer = "training.code_sha256", "training.scorer_sha256"
	if c.Training.Code == "" {
		c.refuse([]string{trainer, scorer}, []string{"training.code"}, "is the digest of code, but training.code is missing; add it, or remove the digest")
	} else {
		c.digest(trainer, c.Training.CodeSHA256, "")
		c.digest(scorer, c.Training.ScorerSHA256, "")
	}
	c.codeRoles()
}

// unlike rejects fields that do not apply to external models.
func (c *checker) unlike(kind string) {
	c.refuse([]string{"data.pairs", "data.disagreement", "prepare", "audit.every", "audit.at"}, []string{kind},
		"does not apply to model.kind: external; remove it for this cell")
	for _, m := range c.Audit.Requested() {
		if !ofForeign(*m.Description) {
			c.fail([]string{"audit." + m.Name, kind}, "needs next-token probabilities or clients' updates, which external models do not provide (model.kind); expected one of %s, or null for this cell", c.auditsThat(ofForeign))
		}
	}
}

// ofForeign reports whether an audit measures models trained by external code.
func ofForeign(d audits.Description) bool { return d.ByScores || d.ByTrainer }

// auditsThat returns the sorted names of the audits that fit the data and meet a condition, separated by commas.
func (c *checker) auditsThat(fit func(audits.Description) bool) string {
	var names []string
	for _, d := range all.Audits() {
		if fit(d) && d.Models.Fits(c.Data.Level) {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// checkCode compares the given digests of the code with the actual ones.
func (c *dataChecker) checkCode() {
	t := &c.Experiment.Training
	check := func(path, given string, found storage.Digest) {
		if directory, _ := t.CodeOf(); directory != "" && given != "" && given != found.String() {
			c.fail(path, "is %s, but %s has %s: restore the code, or correct the field", given, directory, found)
		}
	}
	if t.PyTorch != nil {
		check("training.pytorch.code_sha256", t.PyTorch.CodeSHA256, c.facts.Code)
		return
	}
	check("training.code_sha256", t.CodeSHA256, c.facts.Code)
	check("training.scorer_sha256", t.ScorerSHA256, c.facts.Scorer)
}

const clientCommand = "training.client_command"

// ClientProgram returns the program of training.client_command, or nil.
func (e *Experiment) ClientProgram() *clientprograms.Program {
	t := &e.Training
	if t.ClientCommand == "" {
		return nil
	}
	return &clientprograms.Program{Command: t.ClientCommand, Code: t.CodeSHA256, Config: json.RawMessage(t.Job), Image: models.ImageShape(e.Data.Shape())}
}

// TrainerCode is the directory of the PyTorch trainer in the embedded files.
const TrainerCode = "coalmine.torch"

// Trainer returns the program that trains the clients: ClientProgram or the PyTorch trainer, which gets the
// config. It returns nil if Coalmine trains them.
func (e *Experiment) Trainer(config func() (json.RawMessage, error)) (*clientprograms.Program, error) {
	if e.Training.Engine != PyTorchEngine {
		return e.ClientProgram(), nil
	}
	text, err := config()
	return &clientprograms.Program{Command: "python3 -m coalmine.torch", Code: e.Training.PyTorch.CodeSHA256, Config: text}, err
}

// engine checks a cell whose clients the PyTorch trainer trains.
func (c *checker) engine() {
	const engine = "training.engine"
	if c.Training.Engine != PyTorchEngine {
		if c.Model.Kind == models.Transformer {
			c.fail([]string{"model.kind", engine}, "is %s, which Coalmine trains only with PyTorch; set training.engine to %s", models.Transformer, PyTorchEngine)
		}
		return
	}
	if c.Training.Algorithm == External {
		c.fail([]string{engine, "training.algorithm"}, "supports the algorithms %s and %s, but training.algorithm is %s; remove one of them", SGD, FedAvg, External)
	}
	if c.Data.Pairs && c.Model.Kind != models.Transformer {
		c.fail([]string{engine, "data.pairs"}, "does not train encoder-decoders, which data.pairs needs; remove one of them")
	}
	if p := c.Training.PyTorch; p != nil {
		c.digest("training.pytorch.code_sha256", p.CodeSHA256, "")
	}
	if c.Audit.Controlled() == privacy.ClipPerBatch {
		c.fail([]string{engine, "audit.control"}, "trains clients in a program, which does not support the control %s of clients' steps; remove one of them", privacy.ClipPerBatch)
	}
}

// externalClients checks a cell with training.client_command.
func (c *checker) externalClients() {
	if strings.TrimSpace(c.Training.ClientCommand) == "" {
		c.fail([]string{clientCommand}, "is empty; expected the command that trains clients, such as %q", "python3 client.py")
	}
	c.code()
	for _, f := range fieldsOf(reflect.TypeFor[Client]()) {
		path := "training.client." + f.name
		if f.name != "noise" && f.name != "compress" && c.givenTogether(path, clientCommand) {
			c.fail([]string{path, clientCommand}, "applies only to clients that Coalmine trains; put such settings into training.job, which the program of %s receives unchanged", clientCommand)
		}
	}
	c.refuse([]string{"training.deterministic", "training.limits.time", "training.limits.files"}, []string{clientCommand},
		"applies only to training.command; remove it for this cell")
	c.refuse([]string{"data.pairs", "data.label", "data.disagreement", "prepare", "training.stop_at"}, []string{clientCommand},
		"does not apply to clients trained by the program of %s; remove it for this cell", clientCommand)
	for _, m := range c.Audit.Requested() {
		if !m.ByProgram {
			c.fail([]string{"audit." + m.Name, clientCommand}, "needs more of a model than the program of %s provides; expected one of %s, or null for this cell", clientCommand, c.auditsThat(byProgram))
		}
	}
}

func byProgram(d audits.Description) bool { return d.ByProgram }

// Batches returns the effect of small batches on the clients' learning rate. sizes maps numbers of examples
// to the number of clients that have them. Batches returns nil if few clients have less than a batch, and
// for other trainings.
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

// foreign maps names of settings in other tools to fields. It applies to the first name of a path, and in
// blocks without a similar field. Synonyms within a block are in the tags of its fields (also).
var foreign = map[string]string{
	// PyTorch, Keras, Hugging Face.
	"learning_rate": "training.client.learning_rate", "lr": "training.client.learning_rate",
	"optimizer": "training.client.optimizer", "optim": "training.client.optimizer", "momentum": "training.client.momentum",
	"lr_scheduler": "training.client.schedule", "scheduler": "training.client.schedule",
	"num_train_epochs": "training.epochs", "num_epochs": "training.epochs", "n_epochs": "training.epochs", "max_epochs": "training.epochs",
	"batch_size": "training.client.batch or training.cohort", "train_batch_size": "training.client.batch or training.cohort",
	"per_device_train_batch_size": "training.client.batch or training.cohort", "max_steps": "training.rounds",
	"model_name": "model.kind", "model_type": "model.kind", "architecture": "model.kind", "num_layers": "model.layers", "n_layers": "model.layers",
	"embedding_dim": "model.embedding", "embedding_size": "model.embedding", "hidden_dim": "model.units",
	"max_length": "data.sequence", "max_seq_length": "data.sequence", "dataset_name": "data.source", "train_file": "data.source", "data_path": "data.source",
	"num_seeds": "grid.replicates", "seeds": "grid.replicates", "repeats": "grid.replicates", "num_trials": "grid.replicates", "replicates": "grid.replicates",
	// Opacus, TensorFlow Privacy.
	"noise": "training.privacy.noise_multiplier", "sigma": "training.privacy.noise_multiplier", "noise_multiplier": "training.privacy.noise_multiplier",
	"clip": "training.privacy.clip", "clip_norm": "training.privacy.clip", "clipping": "training.privacy.clip", "clipping_norm": "training.privacy.clip",
	"epsilon": "training.privacy.budget.epsilon", "target_epsilon": "training.privacy.budget.epsilon", "epsilon_budget": "training.privacy.budget.epsilon",
	"delta": "training.privacy.delta", "target_delta": "training.privacy.delta", "poisson_sampling": "training.sampling",
	"max_grad_norm": "training.client.gradient_clip or training.privacy.clip",
	// Flower, TensorFlow Federated, FedML, pfl-research.
	"num_clients": "training.cohort or data.users", "clients": "training.cohort or data.users", "num_users": "training.cohort or data.users",
	"clients_per_round": "training.cohort", "client_num_per_round": "training.cohort", "cohort_size": "training.cohort", "fraction_fit": "training.cohort", "min_fit_clients": "training.cohort",
	"num_rounds": "training.rounds", "comm_round": "training.rounds", "total_rounds": "training.rounds",
	"local_epochs": "training.client.epochs", "client_epochs": "training.client.epochs", "local_steps": "training.client.steps",
	"client_lr": "training.client.learning_rate", "server_lr": "training.server.learning_rate", "server_learning_rate": "training.server.learning_rate",
	"server_momentum": "training.server.momentum", "proximal_mu": "training.client.proximal",
	// Audits of canaries.
	"num_canaries": "canaries.per_configuration", "canary_format": "canaries.format", "num_references": "audit.random_sampling.references",
}

// CodeRole is a part of a training that receives files of training.code.
type CodeRole int

// Roles of code.
const (
	TrainingCode CodeRole = iota
	ClientCode
	ScorerCode
)

// files returns the patterns of each role, indexed by CodeRole.
func (r *CodeRoles) files() [3][]string {
	if r == nil {
		return [3][]string{}
	}
	return [...][]string{TrainingCode: r.Training, ClientCode: r.Client, ScorerCode: r.Scorer}
}

// Omits reports whether a role does not get a file because only other roles name it.
func (r *CodeRoles) Omits(role CodeRole, file string) bool {
	omits := false
	for other, patterns := range r.files() {
		named := slices.ContainsFunc(patterns, func(p string) bool { return namesFile(p, file) })
		if named && CodeRole(other) == role {
			return false
		}
		omits = omits || named
	}
	return omits
}

// namesFile reports whether a pattern names a file or a folder that contains it.
func namesFile(pattern, file string) bool {
	for ; file != "."; file = path.Dir(file) {
		if ok, err := path.Match(strings.TrimSuffix(pattern, "/"), file); ok && err == nil {
			return true
		}
	}
	return false
}

// Unmatched returns the patterns that match no file.
func (r *CodeRoles) Unmatched(files []string) []string {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Concat(r.Training, r.Client, r.Scorer), func(p string) bool {
		return slices.ContainsFunc(files, func(file string) bool { return namesFile(p, file) })
	})
}

// codeRoles checks training.code_roles.
func (c *checker) codeRoles() {
	const block = "training.code_roles"
	t := &c.Training
	if t.CodeRoles == nil {
		if t.ScorerSHA256 != "" {
			c.fail([]string{"training.scorer_sha256", block}, "is the digest of the scorer's files, but training.code_roles names no such files; add them, or remove the digest")
		}
		return
	}
	if t.Code == "" {
		c.fail([]string{block, "training.code"}, "names files of code, but training.code is missing; add it, or remove the block")
	}
	for _, pattern := range slices.Concat(t.CodeRoles.Training, t.CodeRoles.Client, t.CodeRoles.Scorer) {
		if _, err := path.Match(pattern, ""); err != nil || path.Clean(pattern) != strings.TrimSuffix(pattern, "/") || strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, ".") {
			c.fail([]string{block}, "has %s; expected paths below training.code, such as score.py, *.py or lib", quote(pattern))
		}
	}
}

// CodeOf returns the directory of the training's code, training.code or TrainerCode, and the digest, which
// is "" until it is known.
func (t *Training) CodeOf() (directory string, digest *string) {
	if t.PyTorch != nil {
		return TrainerCode, &t.PyTorch.CodeSHA256
	}
	return t.Code, &t.CodeSHA256
}

// TrainedBy returns the role of the trainer.
func (t *Training) TrainedBy() CodeRole {
	if t.ClientCommand != "" {
		return ClientCode
	}
	return TrainingCode
}

// ScorerApart reports whether the scoring command has its own part of the code.
func (t *Training) ScorerApart() bool {
	return t.Code != "" && t.CodeRoles != nil && t.Algorithm == External
}

// scorerCode returns the digest of the scoring command's code, or "" without code.
func (t *Training) scorerCode() string {
	if t.ScorerApart() {
		return t.ScorerSHA256
	}
	return t.CodeSHA256
}
