package experiment

import (
	"slices"
	"strings"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// implied adds implied fields to a tree: a training.command without an algorithm is the whole
// training.
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
		c.fail([]string{kind, algorithm, "training.command", clientCommand}, "is external, a model that code of yours trains, and training.algorithm is %s; expected training.command, or %s with training.algorithm: %s", c.Training.Algorithm, clientCommand, FedAvg)
		return
	case external && c.Training.ClientCommand != "":
		c.fail([]string{clientCommand, "training.command"}, "trains the clients of a federation, and training.command does all of a training; remove one of them")
		return
	case whole && !external:
		c.fail([]string{algorithm, kind}, "leaves the training to code of yours, and model.kind is %s, which is trained here; expected model.kind: external", c.Model.Kind)
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
	for path, s := range map[string]string{"training.code_sha256": c.Training.CodeSHA256, "training.scorer_sha256": c.Training.ScorerSHA256} {
		switch {
		case s == "":
		case c.Training.Code == "":
			c.fail([]string{path, "training.code"}, "is the digest of code that is not there; name its directory by training.code, or remove it")
		case !sha256Pattern.MatchString(s):
			c.fail([]string{path}, "is %s; expected 64 lower-case hex digits", quote(s))
		}
	}
	c.codeRoles()
}

// unlike reports fields that apply only to built-in or imported models.
func (c *checker) unlike(kind string) {
	for _, block := range []struct {
		path  string
		given bool
	}{
		{"data.pairs", c.Data.Pairs},
		{"data.disagreement", c.Data.Disagreement != nil},
		{"prepare", c.Prepare != nil},
		{"audit.every", c.Audit != nil && !c.Audit.Every.IsZero()},
		{"audit.at", c.Audit != nil && len(c.Audit.At) > 0},
	} {
		if block.given {
			c.fail([]string{block.path, kind}, "is for models that are trained here, and model.kind is external; remove it for this cell")
		}
	}
	for _, m := range c.Audit.Asked() {
		if !ofForeign(*m.Description) {
			c.fail([]string{"audit." + m.Name, kind}, "reads more of a model than code of others can tell, and model.kind is external; expected one of %s, or null for this cell", c.auditsThat(ofForeign))
		}
	}
}

// ofForeign reports whether an audit measures models trained by external code.
func ofForeign(d audits.Description) bool { return d.ByScores || d.ByTrainer }

// auditsThat lists the audits of the cell's data that fit, separated by commas.
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

// checkCode compares the given digests of the code with its actual digests.
func (c *dataChecker) checkCode() {
	t := &c.Experiment.Training
	check := func(path, given string, found storage.Digest) {
		if directory, _ := t.CodeOf(); directory != "" && given != "" && given != found.String() {
			c.fail(path, "is %s, but %s has %s; the code has changed: restore it, or correct the field", given, directory, found)
		}
	}
	if t.PyTorch != nil {
		check("training.pytorch.code_sha256", t.PyTorch.CodeSHA256, c.facts.Code)
		return
	}
	check("training.code_sha256", t.CodeSHA256, c.facts.Code)
	check("training.scorer_sha256", t.ScorerSHA256, c.facts.Scorer)
}
