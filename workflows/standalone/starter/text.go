package starter

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"coalmine/internal/readable"
)

// EditorLine is the first line of an experiment file, by which editors find its schema.
const EditorLine = "# yaml-language-server: $schema=" + SchemaFile + "\n"

// SchemaFile is the name of the schema, next to the experiment file.
const SchemaFile = "experiment.schema.json"

type writer struct{ bytes.Buffer }

// line writes a line, with the comment if there is one.
func (w *writer) line(text, comment string) {
	if comment != "" {
		text = fmt.Sprintf("%-38s # %s", text, comment)
	}
	w.WriteString(text + "\n")
}

// explained writes a line with a formatted comment.
func (w *writer) explained(text, comment string, args ...any) {
	w.line(text, fmt.Sprintf(comment, args...))
}

var plainScalar = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./-]*$`)

// scalar returns a text as a YAML scalar.
func scalar(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", ".", ".inf", ".nan":
		return strconv.Quote(text)
	}
	if plainScalar.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// Text returns the experiment file.
func (p *Proposal) Text() []byte {
	w := &writer{}
	w.WriteString(EditorLine)
	w.WriteString("# Which of its training data does a model memorize? coalmine explain FIELD explains a field.\n")
	w.line("name: "+p.Name, "")
	w.line(fmt.Sprintf("seed: %d", p.Seed), "every random draw follows from it")
	p.writeData(w)
	p.writeCanaries(w)
	p.writeTraining(w)
	references := 10000
	if p.Code != "" {
		references = 1000
	}
	w.line("audit:", "")
	w.line(fmt.Sprintf("  random_sampling: {references: %d}", references), "a canary is memorized if it is more probable than all of them")
	p.writeGrid(w)
	return w.Bytes()
}

func (p *Proposal) writeData(w *writer) {
	d, source, parts := p.data, &p.facts.Source, &p.facts.Parts
	w.line("data:", "")
	cut, longer := "", "none is longer"
	if n := source.CutExamples; n > 0 {
		cut, longer = " after the cut", "the rest of "+readable.Count(n, "text")+" is not used"
	}
	w.explained("  source: "+scalar(p.Source), "%s, %d words%s", readable.Count(source.Examples, "text"), source.Words, cut)
	if d.Form != "" {
		w.line("  form: "+string(d.Form), "")
	}
	if text := columnsText([][2]string{{"user", d.Columns.User}, {"text", d.Columns.Text}}); text != "" {
		comment := ""
		if d.Alone {
			comment = "no column names the user: each text counts as a user's"
		}
		w.line("  columns: "+text, comment)
	}
	if d.SkipFaults {
		w.explained("  on_error: skip", "%d records are faulty; coalmine data inspect shows the first", source.Skipped.Records)
	}
	if d.Split != "" {
		w.line("  split: "+scalar(d.Split), "")
	}
	w.explained(fmt.Sprintf("  sequence: %d", p.sequence), "words at which a text is cut; %s", longer)
	w.explained(fmt.Sprintf("  vocabulary: {size: %d}", p.vocabulary), "of %d different words; %s of the text is others", parts.DistinctWords, readable.Share(p.unknown))
	p.writeUsers(w)
	if p.Percent < 100 {
		comment := "of the training part, to keep the run short"
		if p.Time == "" {
			comment = "of the training part; coalmine plan estimates the time of a larger share"
		}
		w.line(fmt.Sprintf("  share: %d%%", p.Percent), comment)
	}
	if p.perMille == 0 {
		w.line("  test: {split: "+scalar(d.TestSplit)+"}", "never holds a canary; utility is measured on it")
		return
	}
	w.line(fmt.Sprintf("  test: {fraction: %g%%}", float64(p.perMille)/10), "never holds a canary; utility is measured on it")
}

func (p *Proposal) writeUsers(w *writer) {
	users := readable.Count(p.facts.Balance.Balanced.Users, "user")
	if p.words > 0 {
		w.explained(fmt.Sprintf("  users: {words: %d}", p.words), "the data has few users: their text is cut into %s of equal size", users)
		return
	}
	w.explained("  users: {words: 0}", "%s, as they are, in the training part", users)
}

// columnsText returns the block of columns with names other than the defaults, or "".
func columnsText(columns [][2]string) string {
	var list []string
	for _, c := range columns {
		if c[1] != "" {
			list = append(list, c[0]+": "+scalar(c[1]))
		}
	}
	if list == nil {
		return ""
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func (p *Proposal) writeCanaries(w *writer) {
	examples, tokens := p.shares()
	w.line("canaries:", "")
	w.line(fmt.Sprintf("  # A canary is a random sequence of %d words. %s of %s will be %s of the %d texts\n  # that train and %s of the %d tokens; from 1%% on they would change the model.",
		canaryWords, readable.Count(p.canaries.copies(), "copy"), readable.Count(p.canaries.each*len(p.canaries.insertions), "canary"), readable.Share(examples), p.facts.Balance.Balanced.Examples, readable.Share(tokens), p.tokens()), "")
	w.line("  insertions: ["+strings.Trim(strings.ReplaceAll(fmt.Sprint(p.canaries.insertions), " ", ", "), "[]")+"]", "copies of a canary in the training data")
	w.line(fmt.Sprintf("  per_configuration: %d", p.canaries.each), "canaries for each number of copies")
	w.line(fmt.Sprintf("  held_back: %d", heldBack), "controls: drawn like the others, but never inserted")
}

func (p *Proposal) writeTraining(w *writer) {
	embedding, units := p.model()
	if p.Code != "" {
		p.writeProgram(w, embedding, units)
		return
	}
	w.line(fmt.Sprintf("model: {embedding: %d, units: %d}", embedding, units), "one recurrent layer that predicts the next word")
	w.line("training:", "")
	if p.Federated {
		w.line("  algorithm: fedavg", "federated averaging; sgd trains centrally")
		w.line(fmt.Sprintf("  epochs: %d", p.Epochs), p.duration())
		w.line(fmt.Sprintf("  cohort: %d", p.cohort()), "users in a round")
		w.line(fmt.Sprintf("  chunks: %d", min(2, p.cohort())), "tasks of a round")
		w.line(fmt.Sprintf("  client: {learning_rate: 8, batch: %d, gradient_clip: 0.5}", p.batch()), "")
		return
	}
	w.line("  algorithm: sgd", "central training; fedavg averages over users")
	w.line(fmt.Sprintf("  epochs: %d", p.Epochs), p.duration())
	w.line("  cohort: 32", "texts in a step")
	if p.Private {
		w.line("  client: {learning_rate: 4}", "")
		return
	}
	w.line("  client: {learning_rate: 4, gradient_clip: 0.5}", "")
}

// duration returns a comment about the time of a run, or "" if it is unknown.
func (p *Proposal) duration() string {
	if p.Time == "" {
		return ""
	}
	return "a run takes " + p.Time
}

func (p *Proposal) writeProgram(w *writer, embedding, units int) {
	w.explained("model: {kind: external}", "the model of %s/model.py", cmp.Or(p.Code, "."))
	w.line("training:", "runs the first python3 in PATH, also for scorer.py; to choose another: PATH=~/torch/bin:$PATH coalmine run FILE")
	if p.Federated {
		w.line("  client_command: python3 client.py", "trains one user; Coalmine draws cohorts, averages and clips")
		w.line(fmt.Sprintf("  epochs: %d", p.Epochs), p.duration())
		w.line(fmt.Sprintf("  cohort: %d", p.cohort()), "users in a round")
		w.line(fmt.Sprintf("  chunks: %d", min(2, p.cohort())), "tasks of a round")
		w.line(fmt.Sprintf("  job: {embedding: %d, units: %d, batch: %d, learning_rate: 2, gradient_clip: 0.5}", embedding, units, p.batch()), "self.config of client.py")
	} else {
		w.line("  command: python3 trainer.py", "trains, and names scorer.py for the audits")
		w.line(fmt.Sprintf("  rounds: %d", p.Epochs), strings.TrimSuffix("epochs of trainer.py; "+p.duration(), "; "))
		w.line(fmt.Sprintf("  job: {embedding: %d, units: %d, learning_rate: 0.003}", embedding, units), "job.job of trainer.py")
	}
	w.line("  code: "+scalar(p.Code), "the program starts in a copy of this directory")
	w.line("  code_roles: {training: [trainer.py], scorer: [scorer.py], client: [client.py]}", "")
}

// privateCohort returns the number of texts in a step with noise.
func (p *Proposal) privateCohort() int { return max(1, min(256, p.facts.Balance.Balanced.Examples/4)) }

func (p *Proposal) writeGrid(w *writer) {
	switch {
	case !p.Private:
		axis := "training.epochs: [2, 8]"
		if p.Code != "" {
			axis = "training.job.units: [32, 128]"
		}
		w.WriteString("# One seed is an anecdote, and memorization shows in a comparison:\n# grid:\n#   replicates: 3\n#   axes:\n#     " + axis + "\n")
	case p.Federated:
		w.line("grid:", "")
		w.line("  axes:", "without privacy and with it; plan prints epsilon, which is large with few users")
		w.line(fmt.Sprintf("    training.privacy: [null, {clip: 0.5, noise_multiplier: 0.5, delta: %s}]", p.delta()), "")
	default:
		w.line("grid:", "")
		w.line("  axes:", "without privacy and with it; plan prints epsilon")
		w.line("    training:", "")
		w.line("      - {client: {gradient_clip: 0.5}}", "")
		w.line(fmt.Sprintf("      - {cohort: %d, client: {learning_rate: 16}, privacy: {clip: 0.25, noise_multiplier: 0.8, delta: %s}}", p.privateCohort(), p.delta()), "noise needs a larger cohort")
	}
}
