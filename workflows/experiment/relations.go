package experiment

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/tasks/datasets/filters"
)

var (
	namePattern        = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,47}$`)
	sha256Pattern      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	fingerprintPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)
	s3Pattern          = regexp.MustCompile(`^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/([^\s/?][^\s?]*)?(\?\S*)?$`)
)

// maxSource is the maximum length of a source's name, in bytes: that of a path on Linux.
const maxSource = 4096

// checker finds contradictions between the fields of one cell.
type checker struct {
	*decoder
	*Experiment
	root *node
}

// relation checks that fields of a cell fit each other.
type relation struct {
	// uses contains the paths that check reads, separated by spaces. A block stands for all its fields.
	uses  string
	check func(*checker)
}

// setting contains the paths that audits see: all blocks of the experiment, and the block of each audit.
var setting = "data canaries prepare model training " + methodPaths()

var relations = []relation{
	{"name", (*checker).name},
	{"label", (*checker).ownLabel},
	{"", (*checker).sources}, // checks each source separately
	{"data.test data.validation", (*checker).parts},
	{"data", (*checker).images},
	{"data", (*checker).subwords},
	{"model.kind data.level", (*checker).readsTheData},
	{"data.label data.tags data.level model.kind", (*checker).labels},
	{"data.faults data.level data.select", (*checker).faults},
	{"data canaries", (*checker).pairs},
	{"data.sanitize", (*checker).sanitize},
	{"data.disagreement training.privacy", (*checker).disagreement},
	{"data", (*checker).origin},
	{"data prepare", (*checker).formats},
	{"data.order data.users", (*checker).order},
	{"data", (*checker).dividing},
	{"training.rounds training.epochs training.algorithm", (*checker).length},
	{"training.chunks training.cohort training.algorithm", (*checker).cohort},
	{"data model", (*checker).model},
	{"model.kind training.algorithm training.command training.client_command training.code training.code_sha256", (*checker).external},
	{"data.pairs model.kind training.algorithm training.engine audit", (*checker).engine},
	{"data model prepare training", (*checker).selecting},
	{"data model prepare audit", (*checker).preparingClassifier},
	{"data prepare", (*checker).preparingLanguages},
	{"training.quantize_bits audit", (*checker).quantization},
	{"training.algorithm training.client training.client_command training.server training.rounds", (*checker).optimizers},
	{"data.validation training.early_stopping training.privacy training.rounds", (*checker).earlyStopping},
	{"data.validation data.label model.kind training", (*checker).stopAt},
	{"training.algorithm training.client.gradient_clip model.kind", (*checker).privateRecords},
	{"training.privacy.noise_multiplier training.privacy.delta", (*checker).delta},
	{"training.cohort training.privacy", (*checker).privacy},
	{"training", (*checker).separated},
	{"data model training", (*checker).updates},
	{"canaries.user_probability canaries.example_probability canaries.insertions", (*checker).configurations},
	{"data canaries", (*checker).canaries},
	{"training.rounds training.epochs", (*checker).duration},
	{setting + " audit.control", (*checker).audit},
	{setting, (*checker).limits},
}

// relations checks a completed cell. It skips each check that uses a field with a mistake.
func (d *decoder) relations(e *Experiment, root *node) {
	c := checker{d, e, root}
	for _, r := range relations {
		if d.sound(r.uses) {
			r.check(&c)
		}
	}
}

// fail reports that the fields at paths contradict each other, at the position of the first. It reports
// nothing if one of them already has a mistake.
func (c *checker) fail(paths []string, format string, args ...any) {
	paths = lists.Map(paths, c.designedBy)
	if slices.ContainsFunc(paths, c.isBad) {
		return
	}
	c.problems.add(c.root.place(paths[0]), paths[0], format, args...)
}

// refuse reports each given field of paths that the fields in others exclude.
func (c *checker) refuse(paths, others []string, format string, args ...any) {
	for _, path := range paths {
		if _, v, ok := fieldAt(reflect.ValueOf(c.Experiment), path); ok && !v.IsZero() {
			c.fail(append([]string{path}, others...), format, args...)
		}
	}
}

// digest checks the form of a digest, if it is given.
func (c *checker) digest(path, digest, hint string) {
	if digest != "" && !sha256Pattern.MatchString(digest) {
		c.fail([]string{path}, "is %s; expected 64 lower-case hex digits%s", quote(digest), hint)
	}
}

func (c *checker) name() {
	if !namePattern.MatchString(c.Name) {
		c.fail([]string{"name"}, "is %s; expected 1 to 48 lower-case letters, digits and hyphens, beginning with a letter or digit", quote(c.Name))
	}
}

// longestLabel is the maximum number of characters of a label in a file.
const longestLabel = 80

func (c *checker) ownLabel() {
	if readable.Text(c.Label) != c.Label || utf8.RuneCountInString(c.Label) > longestLabel {
		c.fail([]string{"label"}, "is %s; expected at most %d visible characters", quote(c.Label), longestLabel)
	}
}

// sources checks the name and digest of each source.
func (c *checker) sources() {
	for _, s := range c.named(new(Facts)) {
		c.source(s.path, s.source, *s.sha256)
	}
}

// source checks the name and digest of a block's source.
func (c *checker) source(block, source, sha256 string) {
	c.digest(block+".sha256", sha256, ", as sha256sum prints them")
	path := []string{block + ".source"}
	switch {
	case len(source) > maxSource:
		c.fail(path, "has %d bytes; expected at most %d", len(source), maxSource)
	case strings.TrimSpace(source) == "" || strings.ContainsFunc(source, func(r rune) bool { return r < ' ' }):
		c.fail(path, "is %s; expected the name of a file, of a directory, or an s3:// URL", quote(source))
	case strings.Contains(source, "://") && !s3Pattern.MatchString(source):
		c.fail(path, "is %s; expected a file, a directory, or a URL of the form s3://bucket/key", quote(source))
	}
}

func (c *checker) parts() {
	test, validation := c.Data.Test.Fraction, c.Data.Validation.Fraction
	if sum := new(big.Rat).Add(test.Rat(), validation.Rat()); sum.Cmp(big.NewRat(1, 1)) >= 0 {
		c.fail([]string{"data.validation.fraction", "data.test.fraction"},
			"is %s; with data.test.fraction %s no training data is left", validation, test)
	}
	c.split("data.test", c.Data.Test.Split, test)
	c.split("data.validation", c.Data.Validation.Split, validation)
}

// split checks that a part is not given as both a fraction and a split of the data.
func (c *checker) split(path, split string, fraction numbers.Probability) {
	if split != "" && !fraction.IsZero() {
		c.fail([]string{path + ".fraction", path + ".split"}, "is %s together with %s.split; give one of them", fraction, path)
	}
}

func (c *checker) sanitize() {
	s := c.Data.Sanitize
	if s == nil {
		return
	}
	if len(s.Patterns)+len(s.Own) == 0 {
		c.fail([]string{"data.sanitize", "data.sanitize.patterns", "data.sanitize.own"}, "has no pattern; expected data.sanitize.patterns or data.sanitize.own")
	}
	for _, list := range []struct {
		path  string
		named []filters.Pattern
		own   []string
	}{{"data.sanitize.patterns", s.Patterns, nil}, {"data.sanitize.own", nil, s.Own}, {"data.sanitize", s.Patterns, s.Own}} {
		if _, err := filters.NewPatterns(list.named, list.own); err != nil {
			c.fail([]string{list.path}, "%v", err)
			return
		}
	}
}

func (c *checker) disagreement() {
	if c.Data.Disagreement != nil && c.Training.Privacy != nil {
		c.fail([]string{"data.disagreement", "training.privacy"}, "selects the training data by two models without noise, which no guarantee covers; set one of the two to null for this cell")
	}
}

func (c *checker) length() {
	rounds, epochs := c.Training.Rounds > 0, c.Training.Epochs > 0
	both := []string{"training.rounds", "training.epochs"}
	switch {
	case rounds && epochs:
		c.fail(both, "given together with training.epochs; give one of them (in a grid, null removes the other)")
	case !rounds && !epochs:
		c.fail(both, "missing; give training.rounds (sgd: steps) or training.epochs")
	}
}

// misfit is a field that does not fit the number of rounds.
type misfit struct{ path, message string }

// misfits returns the fields that do not fit the number of rounds. For 0, an unknown number, it returns none.
func (e *Experiment) misfits(rounds int) (found []misfit) {
	if rounds == 0 {
		return nil
	}
	add := func(path, format string, args ...any) {
		found = append(found, misfit{path, fmt.Sprintf(format, args...)})
	}
	t := &e.Training
	if s := t.EarlyStopping; s != nil && s.Every > rounds {
		add("training.early_stopping.every", "is %d; expected at most the %s of the training", s.Every, readable.Count(rounds, "step"))
	}
	if s := t.StopAt; s != nil && s.Every > rounds {
		add("training.stop_at.every", "is %d; expected at most the %s (sgd: steps) of the training", s.Every, readable.Count(rounds, "round"))
	}
	if t.Record != nil {
		if path, problem := t.Record.misses(rounds); problem != "" {
			add(path, "%s", problem)
		}
	}
	schedule := func(path string, s *Schedule) {
		if err := s.check(rounds); err != nil {
			add(path+".schedule", "%v; the training has %s", err, readable.Count(rounds, "round"))
		}
	}
	schedule("training.client", t.Client.Schedule)
	if t.Server != nil {
		schedule("training.server", t.Server.Schedule)
	}
	if e.Audit != nil {
		if wrong := e.Audit.checkAt(rounds); wrong != "" {
			add("audit.at", "%s", wrong)
		}
	}
	return found
}

// duration checks the fields that depend on the rounds. Resolve does so if the rounds follow from epochs.
func (c *checker) duration() {
	for _, m := range c.misfits(c.Training.Rounds) {
		c.fail([]string{m.path, "training.rounds"}, "%s", m.message)
	}
}

func (c *checker) cohort() {
	t := &c.Training
	if t.Central() {
		return
	}
	if t.Chunks > t.Cohort {
		c.fail([]string{"training.chunks", "training.cohort"}, "is %d; expected at most training.cohort, %d", t.Chunks, t.Cohort)
	}
}

func (c *checker) optimizers() {
	if c.Training.Algorithm == External {
		return // its optimizers are unknown
	}
	if c.Training.ClientCommand == "" {
		c.learningRate("training.client", &c.Training.Client.Optimizer)
	}
	if c.Training.Server != nil {
		c.learningRate("training.server", &c.Training.Server.Optimizer)
	}
}

func (c *checker) earlyStopping() {
	s := c.Training.EarlyStopping
	if s == nil {
		return
	}
	if !c.Data.Validation.Exists() {
		c.fail([]string{"training.early_stopping", "data.validation.fraction", "data.validation.split"}, "needs a validation part; set data.validation.fraction, such as 10%%")
	}
	if c.Training.Privacy != nil {
		c.fail([]string{"training.early_stopping", "training.privacy"}, "may end the training early, but its privacy is accounted for all of its steps; set one of the two to null for this cell")
	}
}

func (c *checker) stopAt() {
	const path = "training.stop_at"
	s := c.Training.StopAt
	if s == nil {
		return
	}
	if s.RecallAt1.IsZero() == (s.Perplexity == 0) {
		c.fail([]string{path, path + ".recall_at_1", path + ".perplexity"}, "expected either recall_at_1, such as 15%%, or perplexity, such as 60 (in a grid, null removes the other)")
	}
	if !c.Data.Validation.Exists() {
		c.fail([]string{path, "data.validation.fraction", "data.validation.split"}, "needs a validation part; set data.validation.fraction, such as 10%%")
	}
	c.stopAtBeside(path)
}

// stopAtBeside rejects fields that training.stop_at excludes.
func (c *checker) stopAtBeside(path string) {
	if c.Training.EarlyStopping != nil {
		c.fail([]string{path, "training.early_stopping"}, "given together with training.early_stopping; set one of the two to null for this cell")
	}
	if p := c.Training.Privacy; p != nil && (c.Training.Central() || p.NoiseMultiplier > 0) {
		c.fail([]string{path, "training.privacy"}, "would end a private training by examples that no noise protects; set one of the two to null for this cell")
	}
	if c.Model.Kind.ForImages() || c.Data.Label != "" {
		c.fail([]string{path, "model.kind"}, "measures the predictions of a language model, but model.kind is %s; remove it", c.Model.Kind)
	}
}

func (c *checker) learningRate(path string, o *Optimizer) {
	if o.LearningRate == 0 {
		c.fail([]string{path + ".learning_rate", path + ".optimizer"},
			"missing; %s has no default learning rate: expected a number above 0", o.Name)
	}
	if err := o.Config().Validate(); err != nil {
		c.fail([]string{path}, "%v", err)
	}
}

func (c *checker) model() {
	if c.Model.Kind == models.External {
		return
	}
	c.pretrained()
	if _, bad := c.Model.blocks(); bad != nil {
		c.fail([]string{"model.blocks"}, "is %.200s; expected a block with some of rotary, theta, key_heads and epsilon (numbers), activation (gelu or silu), parallel, rms, gated and unbiased (true or false)", c.Model.Blocks)
		return
	}
	if c.Model.unread() {
		return // the sizes are unknown; Resolve checks them
	}
	if longest := c.Data.Reading().Sequence; c.Model.Kind == models.Transformer && longest > c.Model.Context {
		c.fail([]string{"model.context", "data.sequence"}, "is %d, but an example has up to %d tokens (data.sequence); expected at least that number", c.Model.Context, longest)
	}
	if a := c.Model.Adapters; a != nil && len(slices.Compact(slices.Sorted(slices.Values(a.Matrices)))) < len(a.Matrices) {
		c.fail([]string{"model.adapters.matrices"}, "lists a matrix twice; expected distinct matrices")
	}
	config := c.Model.Config(&c.Data)
	err := config.Validate()
	switch {
	case err == nil || c.Model.Kind.ForImages() != c.Data.Level.Scheme().Images || labelOf(c.Model.Kind) != c.Data.Label:
	case c.Model.Kind.ForImages():
		c.fail([]string{"model", "data.image"}, "does not work with images of %s: %v", c.Data.Reading().Image, err)
	case c.Model.Adapters != nil && config.Frozen().Validate() == nil:
		c.fail([]string{"model.adapters", "model.embedding"}, "%s", strings.ReplaceAll(errors.Unwrap(err).Error(), "adapters: ", ""))
	case c.Model.Kind == models.Transformer && c.Data.Pairs:
		c.fail([]string{"data.pairs", "model.kind"}, "needs an encoder-decoder, which a %s is not; remove it for this cell", models.Transformer)
	default:
		c.fail([]string{"model", "data.vocabulary.size"}, "does not work with a vocabulary of %d words: %v", c.Data.OrdinaryTokens(), err)
	}
}

// quantization checks the rounding of measured models.
func (c *checker) quantization() {
	if c.Training.QuantizeBits != nil && c.Audit == nil {
		c.fail([]string{"training.quantize_bits", "audit"},
			"rounds measured models, but without an audit block no model is measured; add one, such as audit: {}")
	}
}

func (c *checker) privacy() {
	p := c.Training.Privacy
	if p == nil {
		return
	}
	if p.Key != "" && !fingerprintPattern.MatchString(p.Key) {
		c.fail([]string{"training.privacy.key"}, "is %s; expected the fingerprint of a key, 32 lower-case hex digits", quote(p.Key))
	}
	if p.Key != "" && !p.Secret() {
		c.fail([]string{"training.privacy.key", "training.privacy.randomness"}, "is given, but training.privacy.randomness is not secret; set it to secret, or remove the key")
	}
	if p.Secret() && p.NoiseMultiplier == 0 {
		c.fail([]string{"training.privacy.randomness", "training.privacy.noise_multiplier"}, "is secret, but there is no noise to protect; set training.privacy.noise_multiplier, or remove randomness")
	}
	if q := p.ClipQuantile(); q != nil {
		if _, err := q.UpdateNoise(p.NoiseMultiplier); err != nil {
			c.fail([]string{"training.privacy.adaptive", "training.privacy.noise_multiplier", "training.cohort"}, "%v", err)
		}
	}
	if p.Budget != nil && p.NoiseMultiplier == 0 {
		c.fail([]string{"training.privacy.budget", "training.privacy.noise_multiplier"},
			"limits epsilon, which is infinite without noise; set training.privacy.noise_multiplier, or remove the budget")
	}
}

// delta checks that a delta is given if there is noise.
func (c *checker) delta() {
	if p := c.Training.Privacy; p != nil && p.NoiseMultiplier > 0 && p.Delta == 0 {
		c.fail([]string{"training.privacy.delta", "training.privacy.noise_multiplier"},
			"missing; a guarantee by noise needs a delta: expected a number above 0, below 1, such as 1e-7")
	}
}

// privateRecords rejects fields that private sgd does not support.
func (c *checker) privateRecords() {
	p := c.Training.Privacy
	if p == nil || !c.Training.Central() {
		return
	}
	if k := c.Model.Kind; k.ForImages() || k.ForLabels() {
		c.fail([]string{"training.privacy", "training.algorithm", "model.kind"}, "clips the gradient of each record with sgd, which a %s does not support; use fedavg, or set it to null for this cell", k)
	}
	if c.Training.Client.GradientClip != nil {
		c.fail([]string{"training.client.gradient_clip", "training.privacy"},
			"bounds the gradient of a whole minibatch, but training.privacy.clip already bounds that of every record; remove it")
	}
	if p.Adaptive != nil {
		c.fail([]string{"training.privacy.adaptive", "training.algorithm"},
			"adapts to the norms of users' updates, which training.algorithm: sgd does not have; remove it, or use fedavg")
	}
}
