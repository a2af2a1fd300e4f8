package experiment

import (
	"path"
	"slices"
	"strings"
)

// CodeRole is a receiver of files of training.code.
type CodeRole int

// Roles of code.
const (
	TrainingCode CodeRole = iota
	ClientCode
	ScorerCode
)

// files returns the patterns of each role.
func (r *CodeRoles) files() [3][]string {
	if r == nil {
		return [3][]string{}
	}
	return [...][]string{TrainingCode: r.Training, ClientCode: r.Client, ScorerCode: r.Scorer}
}

// Omits reports whether a role does not get a file: only other roles name it.
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

// namesFile reports whether a pattern names a file, or a folder that contains it.
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

// codeRoles checks the block.
func (c *checker) codeRoles() {
	const block = "training.code_roles"
	t := &c.Training
	if t.CodeRoles == nil {
		if t.ScorerSHA256 != "" {
			c.fail([]string{"training.scorer_sha256", block}, "is the digest of the scorer's files, and training.code_roles names none; name them, or remove it")
		}
		return
	}
	if t.Code == "" {
		c.fail([]string{block, "training.code"}, "names files of code that is not there; name its directory by training.code, or remove it")
	}
	for _, pattern := range slices.Concat(t.CodeRoles.Training, t.CodeRoles.Client, t.CodeRoles.Scorer) {
		if _, err := path.Match(pattern, ""); err != nil || path.Clean(pattern) != strings.TrimSuffix(pattern, "/") || strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, ".") {
			c.fail([]string{block}, "has %s; expected paths below training.code, such as score.py, *.py or lib", quote(pattern))
		}
	}
}

// CodeOf returns the directory of the training's code and its digest, as far as known: training.code, or the
// trainer of PyTorchEngine.
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

// ScorerApart reports whether the scoring command has its own code.
func (t *Training) ScorerApart() bool {
	return t.Code != "" && t.CodeRoles != nil && t.Algorithm == External
}

// scorerCode returns the digest of the scoring command's code, "" without code.
func (t *Training) scorerCode() string {
	if t.ScorerApart() {
		return t.ScorerSHA256
	}
	return t.CodeSHA256
}
