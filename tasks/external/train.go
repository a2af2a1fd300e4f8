package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// TrainParams are the parameters of external/train.
type TrainParams struct {
	// Seed is the experiment's seed.
	Seed uint64 `json:"seed"`
	// Command is a line for the system's shell, Code the archive with its files; zero for none.
	Command string         `json:"command"`
	Code    storage.Digest `json:"code,omitzero"`
	// Job is the experiment's own block, unchanged.
	Job json.RawMessage `json:"job,omitempty"`
	// Rounds is the number of rounds that the metrics count up to.
	Rounds int `json:"rounds"`
	// Deterministic reports whether every execution gives the same bytes.
	Deterministic bool `json:"deterministic,omitempty"`
	// Validation reports whether there is a validation part.
	Validation bool `json:"validation,omitempty"`
	// Shards is the number of files of training data, at most MaxShards; 0 means one file without a
	// number in its name.
	Shards int `json:"shards,omitempty"`
	// Image is the shape of the examples if they are images; zero for texts.
	Image images.Shape `json:"image,omitzero"`
	// OneShot asks for canary clients; nil does not.
	OneShot *OneShot `json:"one_shot,omitempty"`
	// Replay asks for replayed steps; nil does not.
	Replay *Replay `json:"replay,omitempty"`
}

func (p *TrainParams) ofImages() bool { return p.Image != (images.Shape{}) }

// check returns an error for parameters that no experiment has.
func (p *TrainParams) check() error {
	if p.Shards < 0 || p.Shards > MaxShards {
		return fmt.Errorf("training data in %d files; expected at most %d", p.Shards, MaxShards)
	}
	if p.ofImages() {
		return p.Image.Check()
	}
	return nil
}

// Train runs the command of a training in its own directory. Inputs: "population" and "shards", the
// users and their examples; "parts": datasets/encode, with the vocabulary and the validation part.
// Its blobs are ResultBlob, the files of the folder out by FileBlob, and tasks.RowsBlob; its
// metrics are Metrics.
var Train = tasks.Kind{Name: "external/train", Version: 2, Class: tasks.Compute, Command: true, Run: tasks.WithParams(runTrain)}

// ResultBlob is a Result, as JSON.
const ResultBlob = "result"

// FileBlob returns the name of the blob of a file below out, such as "model.pt".
func FileBlob(name string) string { return outFolder + "/" + name }

// Metrics of external/train.
type Metrics struct {
	// Files and Bytes measure the folder out.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Rows is the number of rows of metrics, LastRound their last round; 0 without rows.
	Rows      int   `json:"rows"`
	LastRound int64 `json:"last_round,omitempty"`
}

// Again is the exit status of a command to be continued later.
const Again = 75

func runTrain(ctx context.Context, t *tasks.Task, p *TrainParams) error {
	if err := p.check(); err != nil {
		return tasks.Permanent(err)
	}
	w, terms, err := workplace(t)
	if err != nil {
		return err
	}
	defer w.Remove()
	if !p.Deterministic {
		t.DeclareNondeterministic()
	}
	x := &training{task: t, params: p, terms: terms, workspace: w, rows: metricRows{rounds: int64(p.Rounds)}}
	if err := x.furnish(ctx); err != nil {
		return err
	}
	if err := x.resume(ctx); err != nil {
		return err
	}
	if err := x.run(ctx); err != nil {
		return err
	}
	return x.finish(ctx)
}

// workplace makes a directory for a command of a task, and returns it with the terms of the command.
func workplace(t *tasks.Task) (*childprocess.Workspace, childprocess.Terms, error) {
	terms, err := childprocess.DecodeTerms(t.Terms)
	if err != nil {
		return nil, terms, tasks.Permanent(err)
	}
	w, err := childprocess.NewWorkspace()
	return w, terms, err
}

// training is one execution of a command.
type training struct {
	task      *tasks.Task
	params    *TrainParams
	terms     childprocess.Terms
	workspace *childprocess.Workspace

	rows metricRows
	// members are the numbers of members of the training data, by unit.
	members map[string]int
	// kept is the state for the next execution; stored has its listed files by path.
	kept        tasks.Kept
	stored      map[string]storedFile
	directories []string // kept directories
	sent        int      // number of kept rows
	// unkept is the error from storing the last state, or nil.
	unkept error
	// watched, if not nil, is called after a checkpoint has been kept.
	watched func() error
	// eager keeps every checkpoint found, instead of one every few seconds.
	eager bool
	// brief marks a trial before a training: its records may be fewer than a cohort, and the command is killed at once
	// when ctx ends, without time to end after SIGTERM.
	brief bool
}

// run runs the command, which continues from the state that resume found.
func (x *training) run(ctx context.Context) error {
	watch := childprocess.Watch{Folder: checkpointFolder, Changed: x.changed, Lines: metricsFile, More: x.more, Looked: x.keepRows, Said: x.task.ReportLines}
	if x.eager {
		watch.Every = childprocess.Always
	}
	command := childprocess.Command{
		Args: childprocess.Shell(x.params.Command), Terms: x.terms, Set: x.task.Variables(), Write: x.task.Writable(),
	}
	if x.brief {
		command.Grace = childprocess.NoGrace
	}
	err := x.workspace.Run(ctx, command, watch)
	if err != nil && x.unkept != nil {
		err = fmt.Errorf("%w\nits last checkpoint could not be kept: %v", err, x.unkept) //nolint:errorlint // the command's error decides
	}
	return classify(x.params.Command, err)
}

// classify makes an error permanent unless a retry may succeed: after an error of the store, after a signal,
// or if the command exits with Again.
func classify(command string, err error) error {
	e, ok := errors.AsType[*childprocess.FailedError](err)
	if !ok {
		return err
	}
	if rule := ruleOf(e.Err); rule.Number > 0 && contracts.RuleOf(e.Err).Number == 0 {
		e.Err = &contracts.Violation{Rule: rule, Message: e.Err.Error()}
	}
	exit, itself := errors.AsType[*childprocess.ExitError](e.Err)
	err = fmt.Errorf("command %q: %w", command, err)
	if storage.IsTrouble(e.Err) || errors.Is(e.Err, context.Canceled) || childprocess.BySignal(e.Err) || itself && exit.Status == Again {
		return err
	}
	return tasks.Permanent(err)
}

// more parses lines of metrics.
func (x *training) more(lines []byte) error {
	if err := x.rows.read(lines); err != nil {
		return err
	}
	x.task.Progress(tasks.Progress{
		Done: min(x.rows.last, int64(x.params.Rounds)), Total: int64(x.params.Rounds), Tokens: x.rows.tokens(), Metrics: x.rows.newest(),
	})
	return nil
}

// furnish prepares the directory of the command.
func (x *training) furnish(ctx context.Context) error {
	if err := codeOf(x.task, x.params.Code).Unpack(ctx, x.workspace); err != nil {
		return err
	}
	if err := x.folders(); err != nil {
		return err
	}
	job := x.newJob()
	if err := x.writeData(ctx, job); err != nil {
		return err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return tasks.Permanent(err)
	}
	return x.workspace.Put(jobFile, append(text, '\n'))
}

// writeData writes the parts of the data, and the vocabulary of texts, and counts the
// training data.
func (x *training) writeData(ctx context.Context, job *Job) error {
	vocabulary, err := text.ReadVocabulary(ctx, x.task, population.PartsInput)
	if err != nil {
		return err
	}
	pop, err := population.Open(ctx, x.task, population.Input, population.ShardsInput)
	if err != nil {
		return err
	}
	n, err := x.write(ctx, vocabulary, trainFiles(x.params.Shards), pop)
	if err != nil {
		return err
	}
	job.Users, job.Examples = n.users, n.examples
	x.members = map[string]int{"user": n.users, "record": n.examples}
	x.rows.clients = int64(job.Users)
	if x.params.OneShot != nil {
		x.rows.clients += int64(x.params.OneShot.Canaries)
	}
	if x.params.Validation {
		part, err := population.OpenPart(ctx, x.task, population.PartsInput, population.Validation)
		if err != nil {
			return err
		}
		if _, err := x.write(ctx, vocabulary, []string{validationFile}, part); err != nil {
			return err
		}
	}
	if x.params.ofImages() {
		return nil
	}
	return x.putWords(vocabulary.Words)
}

// putWords writes the vocabulary.
func (x *training) putWords(words []string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(words); err != nil {
		return err
	}
	return x.workspace.Put(vocabularyFile, text.Bytes())
}

func (x *training) folders() error {
	for _, folder := range []string{inFolder, checkpointFolder, outFolder} {
		if err := x.workspace.Folder(folder); err != nil {
			return err
		}
	}
	return nil
}

// finish reads and stores the command's files.
func (x *training) finish(ctx context.Context) error {
	result, files, err := x.result()
	if err != nil {
		return tasks.Permanent(fmt.Errorf("command %q: %w", x.params.Command, err))
	}
	rows := x.rows.list()
	m := Metrics{Rows: len(rows)}
	if len(rows) > 0 {
		m.LastRound = rows[len(rows)-1].Round
	}
	for _, f := range files {
		if name := outFolder + "/" + f.Name; name == resultFile || name == metricsFile {
			continue
		}
		data, err := x.workspace.Read(outFolder+"/"+f.Name, maxFile)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("command %q: %w", x.params.Command, RegularFiles.Errorf("%v", err)))
		}
		m.Files, m.Bytes = m.Files+1, m.Bytes+int64(len(data))
		if err := x.task.Put(ctx, FileBlob(f.Name), data); err != nil {
			return err
		}
	}
	if err := x.task.PutJSON(ctx, tasks.RowsBlob, rows); err != nil {
		return err
	}
	if err := x.task.PutJSON(ctx, ResultBlob, result); err != nil {
		return err
	}
	return x.task.SetMetrics(m)
}

// read reads a file that a rule requires. missing is the message if the file does not exist.
func (x *training) read(name string, most int64, rule contracts.Rule, missing string) ([]byte, error) {
	data, err := x.workspace.Read(name, most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, rule.Errorf("%s", missing)
	case err != nil:
		return nil, rule.Errorf("its %s cannot be read: %v", name, err)
	}
	return data, nil
}

// result reads the command's description of its model, and lists its files.
func (x *training) result() (*Result, []childprocess.File, error) {
	files, err := x.workspace.List(outFolder)
	if err != nil {
		return nil, nil, RegularFiles.Errorf("%v", err)
	}
	data, err := x.read(resultFile, maxResult, WholeResult, "it ended with exit status 0 and has left no "+resultFile)
	if err != nil {
		return nil, nil, err
	}
	r := new(Result)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, nil, WholeResult.Errorf("its %s is no JSON object of texts: %v", resultFile, contracts.Mistyped(err))
	}
	for field, text := range map[string]string{"model": r.Model, "score": r.Score, "initial_score": r.Initial, "step": r.Step} {
		if len(text) > maxText {
			return nil, nil, WholeResult.Errorf("its %s has a %s of %d bytes; expected at most %d", resultFile, field, len(text), maxText)
		}
	}
	if strings.TrimSpace(r.Model) == "" && strings.TrimSpace(r.Score) == "" {
		return nil, nil, NamesItsModel.Errorf("its %s names neither a model nor a command that scores texts by it", resultFile)
	}
	if r.Model != "" {
		if name, ok := strings.CutPrefix(r.Model, outFolder+"/"); !ok || !slices.ContainsFunc(files, func(f childprocess.File) bool { return f.Name == name }) {
			return nil, nil, NamesItsModel.Errorf("its %s names the model %.200q, and there is no such file; expected one below %s", resultFile, r.Model, outFolder)
		}
	}
	if err := errors.Join(r.checkNamed(files), x.checkTensors(files)); err != nil {
		return nil, nil, err
	}
	return r, files, errors.Join(x.checkOneShot(), x.checkReplay(r))
}

// word matches a word of a command line, without expanding it as a shell would.
var word = regexp.MustCompile(`>?\s*[^\s"'=;|&<>()]+`)

// namedFiles returns the paths below out that a command line names. It leaves out paths that a shell would
// expand, and files to which output is redirected.
func namedFiles(line string) []string {
	var files []string
	for _, w := range word.FindAllString(line, -1) {
		if strings.HasPrefix(w, ">") || strings.ContainsAny(w, "$*?[]{}`\\") {
			continue
		}
		file := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(w), "./"), "/")
		if strings.HasPrefix(file, outFolder+"/") {
			files = append(files, file)
		}
	}
	return files
}

// checkNamed returns an error if a command of the result names a file or folder below out that is not there.
func (r *Result) checkNamed(files []childprocess.File) error {
	for _, command := range []struct{ field, line string }{{"score", r.Score}, {"initial_score", r.Initial}, {"step", r.Step}} {
		for _, named := range namedFiles(command.line) {
			there := slices.ContainsFunc(files, func(f childprocess.File) bool {
				return strings.HasPrefix(outFolder+"/"+f.Name+"/", named+"/")
			})
			if !there {
				return NamesItsModel.Errorf("its %s names %s in %s, and there is no such file. Expected all files that the command reads: write a file that is written once below %s before the next checkpoint, to be kept with it; files that the command itself writes belong in TMPDIR", resultFile, named, command.field, outFolder)
			}
		}
	}
	return nil
}

// checkTensors returns an error if a file named .safetensors is not in that format, before a user loads the
// exported model.
func (x *training) checkTensors(files []childprocess.File) error {
	for _, f := range files {
		if !strings.HasSuffix(f.Name, ".safetensors") {
			continue
		}
		path := outFolder + "/" + f.Name
		data, err := x.workspace.Read(path, maxFile)
		if err != nil {
			return RegularFiles.Errorf("%v", err)
		}
		if _, err := safetensors.PartsOf(data); err != nil {
			return NamesItsModel.Errorf("%s is named as a safetensors file and is none: %v. Expected a file that the safetensors library writes, or another name", path, err)
		}
	}
	return nil
}
