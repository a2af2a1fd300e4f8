package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/tempfiles"
	"coalmine/tasks/datasets/source"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/forecast"
	"coalmine/workflows/standalone/starter"
)

const initHelp = `Write an experiment file that runs, with a comment that explains each number.

With --data SOURCE, init finds the columns of texts and users, counts users and words, and
chooses sizes, canaries (expected in less than 1%% of the training data) and as many epochs
as fit into --time by the forecast of plan. No choice depends on memorization. %s

With --trainer, init runs the programs on synthetic data, for at most a minute, to choose the
share of the data that fits.

Without --data the experiment uses texts that the binary contains. On a terminal, init
without flags asks questions. Next to FILE it writes %s, with which
editors complete and check the file.`

// initFlags holds the flags of the command.
type initFlags struct {
	look                     inspecting // columns and form
	data, like               string
	algorithm, name, trainer string
	seed                     uint64
	time                     time.Duration
	private, force, onlyShow bool
	set                      *pflag.FlagSet
	answers                  *answers // from the terminal; nil if not interactive
}

func newInitCommand(g *global) *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a first experiment file, for your data or for the included example",
		Long:  fmt.Sprintf(initHelp, sourceHelp, starter.SchemaFile),
		Example: "  coalmine init\n  coalmine init --data posts.csv\n  coalmine init --data posts.csv --column user=author --column text=body --time 10m\n" +
			"  coalmine init --trainer torch --data posts.csv\n  coalmine init --like thakkar-2020/table-1-small\n  coalmine init federated.yaml --data posts.jsonl --algorithm fedavg --private",
		RunE: func(c *cobra.Command, args []string) error {
			file := "experiment.yaml"
			if len(args) > 0 {
				file = args[0]
			}
			return g.initialize(c.Context(), &f, file)
		},
	}
	f.add(c.Flags())
	return c
}

func (f *initFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.data, "data", "", "source of the texts")
	f.look.addTable(s)
	s.StringVar(&f.like, "like", "", "copy an example instead: quickstart, thakkar-2020/table-1-small, ...")
	s.StringVar(&f.algorithm, "algorithm", "sgd", "training: sgd (central) or fedavg (federated averaging over users)")
	s.StringVar(&f.trainer, "trainer", "", "torch: also write programs that train and score a PyTorch module, trainer/model.py")
	s.BoolVar(&f.private, "private", false, "compare the training with a differentially private one")
	s.DurationVar(&f.time, "time", 2*time.Minute, "time of a run on this machine")
	s.StringVar(&f.name, "name", "", "name of the experiment (default: from FILE or the data)")
	s.Uint64Var(&f.seed, "seed", 1, "seed of the experiment")
	s.BoolVar(&f.force, "force", false, "replace existing files")
	s.BoolVar(&f.onlyShow, "dry-run", false, "print the experiment file and write nothing, as FILE - does")
	f.set = s
}

// outputs holds the files that init writes, by path.
type outputs struct {
	experiment string
	text       []byte
	beside     map[string][]byte
	notes      []string
}

// initialize writes the files of a first experiment, all or none.
func (g *global) initialize(ctx context.Context, f *initFlags, file string) error {
	if file == "-" {
		f.onlyShow = true
	}
	if len(changed(f.set)) == 0 && g.talks() {
		f.answers = &answers{bufio.NewScanner(os.Stdin), g.stderr}
		f.ask()
	}
	if err := f.check(file); err != nil {
		return err
	}
	if !f.onlyShow {
		if err := mayWriteFile(file, f.force); err != nil {
			return err
		}
	}
	out := &outputs{experiment: file, beside: map[string][]byte{filepath.Join(filepath.Dir(file), starter.SchemaFile): experiment.Schema()}}
	fill := g.propose
	if f.like != "" {
		fill = g.copyExample
	}
	if err := fill(ctx, f, out); err != nil {
		return err
	}
	if f.onlyShow {
		_, err := g.data.Write(out.text)
		return err
	}
	if err := out.write(); err != nil {
		return err
	}
	return g.noteNext(out)
}

func (f *initFlags) check(file string) error {
	if ext := filepath.Ext(file); file != "-" && ext != ".yaml" && ext != ".yml" {
		return fmt.Errorf("FILE %q: expected a name that ends in .yaml (--data names data)", file)
	}
	if f.algorithm != "sgd" && f.algorithm != "fedavg" {
		return fmt.Errorf("--algorithm %q: expected sgd or fedavg", f.algorithm)
	}
	if f.time <= 0 {
		return fmt.Errorf("--time %v: expected a time above 0, such as 2m", f.time)
	}
	if err := f.checkTrainer(); err != nil {
		return err
	}
	return f.look.readColumns()
}

// nameOf derives the name of an experiment from a file name.
func nameOf(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".")
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(base), "-"), "-")
	return cmp.Or(strings.TrimRight(name[:min(48, len(name))], "-"), "experiment")
}

const exampleData = "examples/data/state-of-the-union.jsonl.gz"

// propose makes an experiment file for data.
func (g *global) propose(ctx context.Context, f *initFlags, out *outputs) error {
	data, named := cmp.Or(f.data, exampleData), out.experiment
	if named == "-" || filepath.Base(named) == "experiment.yaml" {
		named = data
	}
	source, err := g.finder("").Find(ctx, data, "")
	if err == nil {
		err = oneTextFile(data)
	}
	if err != nil {
		return err
	}
	looked, err := starter.Inspect(ctx, source, f.look.Origin)
	if err == nil && f.answers != nil && looked.Choices != nil {
		looked, err = starter.Inspect(ctx, source, f.askColumns(looked))
	}
	if err != nil {
		return err
	}
	folder := filepath.Dir(out.experiment)
	options := starter.Options{
		Name: cmp.Or(f.name, nameOf(named)), Source: fromFolder(data, folder), Seed: f.seed,
		Federated: f.algorithm == "fedavg", Private: f.private, Epochs: programEpochs,
	}
	if f.trainer != "" {
		options.Code = trainerFolder
	}
	p, err := looked.Propose(ctx, options)
	if err != nil {
		return err
	}
	out.notes = append(out.notes, p.Summary())
	if f.trainer != "" {
		return g.addTrainer(ctx, p, f, out)
	}
	if p, err = g.fitTime(ctx, p, f.time, folder); err != nil {
		return err
	}
	out.text = p.Text()
	return nil
}

// oneTextFile explains how a text file becomes a source.
func oneTextFile(data string) error {
	if info, err := os.Stat(data); filepath.Ext(data) == ".txt" && err == nil && info.Mode().IsRegular() {
		return &source.Error{File: data, Err: fmt.Errorf("is one text file; expected a directory with a file, or a folder of files, for each user: mkdir texts, move the file there, and use --data texts")}
	}
	return nil
}

// fromFolder returns the path of data relative to a folder.
func fromFolder(data, folder string) string {
	if _, err := os.Stat(data); err != nil || filepath.IsAbs(data) || folder == "." {
		return data // also embedded data, and names that are not paths
	}
	if relative, err := filepath.Rel(absolute(folder), absolute(data)); err == nil {
		return filepath.ToSlash(relative)
	}
	return data
}

const (
	maxEpochs = 20
	// minEpochs is the minimum number of epochs. If they take too long on all data, the experiment trains on a
	// fraction of the data.
	minEpochs = 4
)

// fitTime chooses the epochs that fit into a time and, if these are too few, a fraction of the
// data.
func (g *global) fitTime(ctx context.Context, p *starter.Proposal, budget time.Duration, folder string) (*starter.Proposal, error) {
	each, fixed, err := g.timesOf(ctx, p, folder)
	if err != nil {
		return nil, err
	}
	epochs, percent := (budget.Seconds()-fixed)/each, 100
	if epochs < minEpochs {
		percent = int(max(float64(p.PercentOf(starter.MinTexts)), min(100, 100*epochs/minEpochs)))
	}
	p, err = p.With(ctx, int(max(minEpochs, min(maxEpochs, epochs))), percent)
	if err != nil {
		return nil, err
	}
	seconds, err := g.secondsOf(ctx, p.Text(), folder, unmeasured)
	if err != nil {
		return nil, err
	}
	g.recordTime(p, seconds, budget)
	return p, nil
}

// recordTime records the time of a run in a proposal, and notes if it exceeds the budget.
func (g *global) recordTime(p *starter.Proposal, seconds float64, budget time.Duration) {
	p.Time = fmt.Sprintf("about %s here (coalmine plan)", roughly(max(1, seconds)))
	if seconds > 1.2*budget.Seconds() {
		g.note("a run takes about %s; --time %v is too short for these data", roughly(seconds), budget)
	}
}

// timesOf returns the time of an epoch of a proposal and the fixed time, in seconds.
func (g *global) timesOf(ctx context.Context, p *starter.Proposal, folder string) (each, fixed float64, err error) {
	var seconds [2]float64
	for i := range seconds {
		p, err := p.With(ctx, i+1, p.Percent)
		if err != nil {
			return 0, 0, err
		}
		if seconds[i], err = g.secondsOf(ctx, p.Text(), folder, unmeasured); err != nil {
			return 0, 0, err
		}
	}
	each = max(seconds[1]-seconds[0], seconds[1]*1e-3)
	return each, max(0, seconds[0]-each), nil
}

// unmeasured returns nil, because the speed of programs is not measured.
func unmeasured(int) *forecast.Speed { return nil }

// secondsOf returns the time of an experiment on this machine, in seconds, with an empty cache; 0 if it runs a
// program of unknown speed.
func (g *global) secondsOf(ctx context.Context, text []byte, folder string, speed func(cell int) *forecast.Speed) (float64, error) {
	sub, err := g.prepareProposed(ctx, text, folder)
	if err != nil {
		return 0, err
	}
	seconds, err := timeUncached(ctx, sub, speed, measureSpeed())
	if err != nil || seconds == nil {
		return 0, err
	}
	return *seconds, nil
}

func (g *global) prepareProposed(ctx context.Context, text []byte, folder string) (*submission.Submission, error) {
	return submission.PrepareFile(ctx, "the proposed experiment", text, experiment.Options{}, g.finder(folder), nil)
}

// write writes the experiment last, so that an experiment file implies that its other files are
// complete.
func (o *outputs) write() error {
	err := o.writeFiles()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w; name a FILE in a writable folder: coalmine init FOLDER/experiment.yaml", err)
	}
	return err
}

func (o *outputs) writeFiles() error {
	for path, text := range o.beside {
		if err := writeWhole(path, text); err != nil {
			return err
		}
	}
	return writeWhole(o.experiment, o.text)
}

// writeWhole writes a file as a whole, and makes its folder.
func writeWhole(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return tempfiles.WriteFile(path, text)
}

func (g *global) noteNext(o *outputs) error {
	place := g.places.repeated()
	next := []string{"coalmine plan " + o.experiment + place, "coalmine run " + o.experiment + place}
	if g.json {
		return g.printJSON(map[string]any{"file": o.experiment, "next": next, "text": string(o.text)})
	}
	g.printf("wrote %s\n", o.experiment)
	for _, note := range o.notes {
		g.printf("%s\n", note)
	}
	g.printf("next:\n  %s    # tasks and time; runs nothing\n  %s\n", next[0], next[1])
	return nil
}
