package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/lists"
	"coalmine/internal/score"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/images"
)

// Check tests a command against the whole contract. It trains several times, on synthetic users and
// words.
type Check struct {
	// Command is a line for the system's shell, Code holds its files.
	Command string
	Code    clientprograms.Code
	// Job is the value of training.job, an object of JSON.
	Job json.RawMessage
	// Rounds is the number of rounds of the job.
	Rounds int
	// Shards is the number of files of training data; 0 means one file without a number in its
	// name. Image is the shape of the training images; zero for texts.
	Shards int
	Image  images.Shape
	// Deterministic reports whether the training claims to be deterministic.
	Deterministic bool
	// OneShot asks for canary clients; nil does not.
	OneShot *OneShot
	// Replay asks for replayed steps; nil does not.
	Replay *Replay
	Terms  childprocess.Terms
	// Write lists directories that the command may write to in addition to its own.
	Write []string

	sample Sample // checkSample if it has no users
	brief  bool   // see training.brief
}

// CheckReport is the result of a Check.
type CheckReport struct {
	contracts.Identity
	// Result is the command's description of its model; null if there is none.
	Result   *Result             `json:"result"`
	Findings []contracts.Finding `json:"checks"`
}

// trial is one execution of the command.
type trial struct {
	*training
	sample Sample
	err    error
	before map[string]string   // files before the execution
	kept   *tasks.RunnerKeeper // partial state of the execution
	held   *childprocess.Holder
}

// Run makes all checks. An error is a fault of this machine, not of the command.
func (c *Check) Run(ctx context.Context) (*CheckReport, error) {
	report := &CheckReport{Identity: contract.Identity()}
	first, err := c.train(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	defer first.workspace.Remove()
	looked := false // whether the end was checked
	report.Findings, err = contracts.Run(ctx, []contracts.Check{
		{ID: "result", Name: "trains and reports its result", Rule: SaysHowItEnded, Run: func() (err error) {
			report.Result, err = first.ended()
			return err
		}},
		{ID: "inputs-unchanged", Name: "leaves its inputs unchanged", Rule: InputsStay, Run: first.inputs},
		{ID: "outputs-only", Name: "writes only in its directories", Rule: InItsDirectory, Run: first.elsewhere},
		{ID: "metrics", Name: "reports metrics of its rounds", Rule: MetricLines, Run: first.metrics},
		{ID: "scores", Name: "scores texts with its model", Rule: NamesItsModel, Run: func() error { return c.scores(ctx, first, report.Result) }},
		{ID: "checkpoint-renamed", Name: "replaces checkpoint files by renaming", Rule: WholeCheckpoint, Run: first.renames},
		{ID: "resume-after-kill", Name: "resumes from its checkpoint after kill -9", Rule: GoesOn, Run: func() error { return c.goesOn(ctx, first) }},
		{ID: "terminate", Name: "ends after SIGTERM", Rule: EndsWhenAsked, Run: func() error { return c.stops(ctx) }},
		{ID: "determinism", Name: "repeats a training with equal results", Rule: FollowsTheSeed, Run: func() error { return c.repeats(ctx, first) }},
		{ID: "replayed-steps", Name: "steps as its claim says", Rule: AnswersSteps, Run: func() error { return first.steps(ctx, report.Result) }},
	}, func() error {
		if looked && report.Result == nil {
			return contracts.Skip("no training has ended well")
		}
		looked = true
		return nil
	})
	return report, err
}

// ended returns the result of a successful training.
func (x *trial) ended() (*Result, error) {
	if x.err != nil {
		return nil, x.err
	}
	r, _, err := x.result()
	return r, err
}

// train runs the command from the kept state of an earlier trial, or from the start if nil. at, if
// not nil, is called with each change of the checkpoint; an error from it ends the command.
func (c *Check) train(ctx context.Context, from *tasks.RunnerKeeper, at func(*trial) error) (*trial, error) {
	w, err := childprocess.NewWorkspace()
	if err != nil {
		return nil, err
	}
	x := &trial{sample: c.sample, kept: new(tasks.RunnerKeeper), held: w.Hold(checkpointFolder)}
	if x.sample.Users == 0 {
		x.sample = checkSample
	}
	if from != nil {
		x.kept = from
	}
	defer x.held.Close()
	x.training = &training{
		params: &TrainParams{Seed: 1, Command: c.Command, Job: c.Job, Rounds: c.Rounds, Shards: c.Shards, Image: c.Image, OneShot: c.OneShot, Replay: c.Replay}, terms: c.Terms, workspace: w,
		task: tasks.NewTask(tasks.Spec{}, nil, x.kept, nil, nil).WithWritable(c.Write), rows: metricRows{rounds: int64(c.Rounds)}, eager: true, brief: c.brief,
	}
	if err := x.prepare(ctx, c.Code); err != nil {
		w.Remove()
		return nil, err
	}
	x.watched = func() error {
		if err := x.held.Refresh(); err != nil || at == nil {
			return err
		}
		return at(x)
	}
	x.err = x.run(ctx)
	return x, nil
}

// prepare prepares the directory of the command.
func (x *trial) prepare(ctx context.Context, code clientprograms.Code) error {
	if err := errors.Join(code.Unpack(ctx, x.workspace), x.folders(), x.writeSample(), x.resume(ctx)); err != nil {
		return err
	}
	var err error
	x.before, err = x.given()
	return err
}

// made reports whether a command may create the file.
func made(name string) bool {
	folder, _, inside := strings.Cut(name, "/")
	return inside && slices.Contains([]string{checkpointFolder, outFolder, "tmp"}, folder) || strings.Contains(name, "__pycache__")
}

// contents returns the files of a folder that want selects.
func (x *trial) contents(folder string, want func(name string) bool) (map[string]string, error) {
	files, err := x.workspace.List(folder)
	contents := map[string]string{}
	for _, f := range files {
		name := f.Name
		if folder != "." {
			name = folder + "/" + f.Name
		}
		if err == nil && want(name) {
			var data []byte
			data, err = x.workspace.Read(name, maxFile)
			contents[name] = string(data)
		}
	}
	return contents, err
}

// given returns the files that the command must not create or change.
func (x *trial) given() (map[string]string, error) {
	return x.contents(".", func(name string) bool { return !made(name) })
}

func (x *trial) inputs() error {
	after, err := x.given()
	if err != nil {
		return err
	}
	for name, content := range x.before {
		if now, there := after[name]; !there || now != content {
			return fmt.Errorf("%s was changed or removed", name)
		}
	}
	return nil
}

func (x *trial) elsewhere() error {
	after, err := x.given()
	if err != nil {
		return err
	}
	for name := range after {
		if _, found := x.before[name]; !found {
			return fmt.Errorf("it has written %s; expected files below %s, %s and TMPDIR alone", name, checkpointFolder, outFolder)
		}
	}
	if beside, err := x.workspace.LeftBehind(); err != nil || len(beside) > 0 {
		return errors.Join(err, fmt.Errorf("it has written %s beside its directory", strings.Join(beside, ", ")))
	}
	return nil
}

func (x *trial) metrics() error {
	if len(x.rows.rows) == 0 {
		return contracts.Doubt("it reported no round in %s: the page has nothing to show while it trains", metricsFile)
	}
	return nil
}

// scores tests each scoring command of a result on a text.
func (c *Check) scores(ctx context.Context, x *trial, r *Result) error {
	if r.Score == "" {
		return contracts.Skip("it names a model and no command that scores texts by it: such a model can be exported, and not audited")
	}
	for _, which := range []ModelChoice{Trained, Initial} {
		field, line := which.command(r)
		if line == "" {
			continue
		}
		if err := c.asking(ctx, x, line, c.Code, func(client *score.Client) error { return c.askSample(ctx, client) }); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// asking starts a scoring command in a directory with the code and the files below out.
func (c *Check) asking(ctx context.Context, x *trial, line string, code clientprograms.Code, do func(*score.Client) error) error {
	w, err := childprocess.NewWorkspace()
	if err != nil {
		return err
	}
	defer w.Remove()
	if err := code.Unpack(ctx, w); err != nil {
		return err
	}
	left, err := x.contents(outFolder, func(string) bool { return true })
	if err != nil {
		return err
	}
	for name, content := range left {
		if err := w.Put(name, []byte(content)); err != nil {
			return err
		}
	}
	client, err := startScorer(ctx, line, w, &c.Terms, c.Write, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(client), client.Close())
}

// askSample scores a text, or an image, of the synthetic data.
func (c *Check) askSample(ctx context.Context, client *score.Client) error {
	if c.Image != (images.Shape{}) {
		image := contracts.Image(c.Image.Pixels(), c.Image.Classes, 0)
		_, err := client.Classify(ctx, ShapeOf(c.Image), [][]byte{image}, c.Image.Classes, 1)
		return err
	}
	_, err := client.LogLikelihoods(ctx, []score.Pair{{Context: "the people", Continuation: " of states"}, {Continuation: "it was"}}, 1)
	return err
}

var errKilled = errors.New("it was killed to see whether it goes on")

// renames checks that the files of a checkpoint were not overwritten in place.
func (x *trial) renames() error {
	if name := x.held.Written(); name != "" {
		return fmt.Errorf("%s/%s was written in its place: a kill at that moment leaves half a checkpoint", checkpointFolder, name)
	}
	return nil
}

// goesOn kills a training at the first checkpoint after half of the rounds, starts another from that
// checkpoint, and uses all files that its result names.
func (c *Check) goesOn(ctx context.Context, first *trial) error {
	killed, err := c.killed(ctx, first.rows.last/2)
	if err == nil && killed.err == nil && killed.training.kept.State != nil { // only a checkpoint at the start
		killed, err = c.killed(ctx, 0)
	}
	if err != nil {
		return err
	}
	if !errors.Is(killed.err, errKilled) {
		return contracts.Doubt("it ended before anything was seen below %s: whatever ends a training of it early costs all of it", checkpointFolder)
	}
	kept, reported := names(killed.training.kept.Files), killed.rows.list()
	again, err := c.train(ctx, killed.kept, nil)
	if err != nil {
		return err
	}
	defer again.workspace.Remove()
	result, err := again.ended()
	if err == nil && result.Score != "" {
		err = c.scores(ctx, again, result)
	}
	if err != nil {
		return fmt.Errorf("killed when it had written %s, and started again with that: %w", kept, err)
	}
	if name, err := c.differing(first, again); err != nil || name != "" {
		return cmp.Or(err, fmt.Errorf("killed when it had written %s, and started again with that, it has left another %s than without", kept, name))
	}
	if len(reported) > 0 && again.rows.first == reported[0].Round {
		return contracts.Doubt("killed after it reported round %d, and started again with %s, it reported round %d again: it seems to have started over", reported[len(reported)-1].Round, kept, reported[0].Round)
	}
	return nil
}

// killed runs a training and kills it at its first checkpoint after a round.
func (c *Check) killed(ctx context.Context, round int64) (*trial, error) {
	killed, err := c.train(ctx, nil, func(x *trial) error {
		if x.rows.last < round {
			return nil
		}
		return errKilled
	})
	if err == nil {
		killed.workspace.Remove()
	}
	return killed, err
}

func names(files []storage.Blob) string {
	return strings.Join(lists.Map(files, func(f storage.Blob) string { return keptPath(f.Name) }), ", ")
}

// differing returns a file, or the metrics, that differs between two deterministic trainings; ""
// for none.
func (c *Check) differing(a, b *trial) (string, error) {
	if !c.Deterministic {
		return "", nil
	}
	left, err := a.left()
	if err != nil {
		return "", err
	}
	right, err := b.left()
	all := maps.Clone(left)
	maps.Copy(all, right)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one, inLeft := left[name]
		other, inRight := right[name]
		if inLeft != inRight || one != other {
			return name, err
		}
	}
	return "", err
}

// left returns the files below out, with metrics replaced by their rows.
func (x *trial) left() (map[string]string, error) {
	files, err := x.contents(outFolder, func(name string) bool { return name != metricsFile })
	files[metricsFile] = fmt.Sprint(x.rows.list())
	return files, err
}

// stops asks a training to end at its first checkpoint.
func (c *Check) stops(ctx context.Context) error {
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stopped, err := c.train(within, nil, func(*trial) error {
		stop(errKilled)
		return nil
	})
	if err != nil {
		return err
	}
	stopped.workspace.Remove()
	e, ok := errors.AsType[*childprocess.StoppedError](stopped.err)
	switch {
	case !ok:
		return contracts.Doubt("it ended before it could be asked to")
	case e.Killed:
		return fmt.Errorf("it went on for %v after SIGTERM, and was killed", childprocess.DefaultGrace)
	}
	return nil
}

// repeats compares a second training with the first.
func (c *Check) repeats(ctx context.Context, first *trial) error {
	if !c.Deterministic {
		return contracts.Skip("it is not called deterministic (--deterministic)")
	}
	second, err := c.train(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer second.workspace.Remove()
	if _, err := second.ended(); err != nil {
		return err
	}
	if name, err := c.differing(first, second); err != nil || name != "" {
		return cmp.Or(err, fmt.Errorf("%s differs from one training to the next", name))
	}
	return nil
}
