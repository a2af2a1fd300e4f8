package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

func newDataCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:     "data",
		Short:   "Inspect, import or convert a source; export the data of a run",
		Example: "  coalmine data inspect texts.jsonl\n  coalmine data export quickstart c01 -o c01",
	}
	c.AddCommand(newInspectCommand(g), newImportCommand(g), newDataListCommand(g), newDataRemoveCommand(g), newConvertCommand(g), newDataExportCommand(g), newDataExampleCommand(g))
	return c
}

const sourceHelp = `SOURCE is one of:

  - a file of JSON lines, or of texts in another --form (CSV, TSV, Parquet, XML of Stack
    Exchange, SQLite of TensorFlow Federated, JSON of LEAF), plain, .gz, .zst, .xz or .lzma
  - a directory of such files, read in the order of their names
  - a directory of text files (.txt), with a folder or a file for each user
  - a file or directory in S3: s3://bucket/key or s3://bucket/prefix/, with ?endpoint= for
    servers other than Amazon's, and the credentials of --store
  - store:NAME, a source named by data import`

func newInspectCommand(g *global) *cobra.Command {
	var look inspecting
	var experimentFlags submitFlags
	c := &cobra.Command{
		Use:   "inspect SOURCE|FILE.yaml",
		Short: "Check a source and count users, examples and words after each step of its preparation",
		Long: `Check every line of a source and count users, examples and words before and
after each step of its preparation, with the same results as in a run.

` + sourceHelp + `

For an experiment file it prepares the data of every cell in memory, with the settings
of the file and of --set, and also counts the users that carry the canaries of each
configuration and the examples that canaries replace.

With --level image the source contains images. The command also counts the images of each
class and user; --sheet draws some of them.`,
		Example: "  coalmine data inspect examples/data/state-of-the-union.jsonl.gz --words 400\n" +
			"  coalmine data inspect examples/quickstart.yaml --set canaries.user_probability=1%\n" +
			"  coalmine data inspect posts.csv --form csv --column user=author --column text=body\n" +
			"  coalmine data inspect 's3://bucket/texts/?endpoint=https://s3.example.org'\n" +
			"  coalmine data inspect examples/data/handwriting.jsonl.gz --level image --sheet digits.png",
		RunE: func(c *cobra.Command, args []string) error {
			if ext := filepath.Ext(args[0]); ext == ".yaml" || ext == ".yml" {
				if flag := otherFlag(c, []string{"set", "max-cells"}); flag != "" {
					return fmt.Errorf("--%s applies to sources; %s is an experiment file with its own settings: override them with --set", flag, args[0])
				}
				return g.inspectExperiment(c.Context(), &experimentFlags, args[0])
			}
			if len(experimentFlags.sets) > 0 {
				return fmt.Errorf("--set applies to experiment files; %s is read as a source", args[0])
			}
			if err := look.complete(c.Flags()); err != nil {
				return err
			}
			return g.inspectSource(c.Context(), args[0], &look)
		},
	}
	experimentFlags.add(c.Flags(), false)
	look.add(c.Flags())
	return c
}

// inspectSource prints the counts of a source under a recipe.
func (g *global) inspectSource(ctx context.Context, name string, look *inspecting) error {
	source, err := g.finder("").Find(ctx, name, "")
	if err != nil {
		return err
	}
	facts, err := source.Survey(ctx, look.limits, []datasets.Recipe{look.Recipe})
	if err != nil {
		return err
	}
	look.Rules = facts[0].Rules
	found := inspection{Facts: facts[0], SHA256: experiment.SourceDigest(source.Digests()), Files: listed(source)}
	if look.iid {
		if found.IID, err = refill(ctx, source, look.limits, look.Recipe); err != nil {
			return err
		}
	}
	if look.Level.Scheme().Images {
		if found.Images, err = look.images(ctx, source); err != nil {
			return err
		}
	}
	return g.show(found, func() error { return writeFacts(g.stdout, &found, look.Recipe) })
}

// inspection is the output of data inspect --json.
type inspection struct {
	datasets.Facts
	// SHA256 is data.sha256 of the source.
	SHA256 storage.Digest `json:"sha256"`
	Files  []listedFile   `json:"files"`
	// IID describes the synthetic users of an iid partition, if requested.
	IID *population.PartitionMetrics `json:"iid,omitempty"`
	// Images describes a source of images.
	Images *sources.Gallery `json:"images,omitempty"`
}

// listedFile is one file of a source in JSON output.
type listedFile struct {
	Name   string         `json:"name"`
	SHA256 storage.Digest `json:"sha256"`
}

func listed(src *sources.Source) []listedFile {
	return lists.Map(src.Files, func(f *sources.File) listedFile { return listedFile{f.Name, f.Digest} })
}

func contents(ctx context.Context, src *sources.Source) ([][]byte, error) {
	var all [][]byte
	for _, f := range src.Files {
		body, err := f.Open(ctx)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		all = append(all, data)
	}
	return all, nil
}

// planHere returns the plan of a submission, and an executor in memory that holds its sources.
func planHere(ctx context.Context, sub *submission.Submission) (*plan.Plan, *localexec.Executor, error) {
	p, err := compile.Plan(sub.Spec)
	if err != nil {
		return nil, nil, err
	}
	var files [][]byte
	for _, source := range sub.Sources() {
		more, err := contents(ctx, source)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, more...)
	}
	return p, localexec.New(p, compile.Registry(), files...), nil
}

// refill runs the tasks up to the iid partition in memory.
func refill(ctx context.Context, src *sources.Source, limits source.Limits, r datasets.Recipe) (*population.PartitionMetrics, error) {
	files, err := contents(ctx, src)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{Nodes: map[storage.Key]*plan.Node{}}
	var failed error
	node := func(kind tasks.Kind, params any, inputs ...tasks.Input) storage.Key {
		spec, err := tasks.NewSpec(kind, params, inputs...)
		failed = errors.Join(failed, err)
		n := &plan.Node{Spec: spec}
		for _, in := range inputs {
			n.Needs = append(n.Needs, plan.Ref{Key: in.Key})
		}
		p.Nodes[spec.Key] = n
		return spec.Key
	}
	corpus := node(datasets.Import, r.Import(src.Digests(), limits))
	parts := node(datasets.Encode, r.Encode(), tasks.Input{Name: datasets.CorpusInput, Key: corpus})
	balanced := node(population.Balance, r.Balance(), tasks.Input{Name: population.PartsInput, Key: parts})
	pop := node(population.Partition, population.PartitionParams{Partition: population.IID, Words: r.Words, Seed: r.Seed},
		tasks.Input{Name: population.PartsInput, Key: parts}, tasks.Input{Name: population.BalancedInput, Key: balanced})
	x := localexec.New(p, compile.Registry(), files...)
	if failed = errors.Join(failed, x.Reach(ctx, plan.Ref{Key: pop})); failed != nil {
		return nil, failed
	}
	commit, err := x.Commit(ctx, pop)
	if err != nil {
		return nil, err
	}
	var m population.PartitionMetrics
	return &m, json.Unmarshal(commit.Metrics, &m)
}

func writeFacts(w io.Writer, f *inspection, r datasets.Recipe) error {
	level := r.Level.Scheme()
	if f.Images != nil {
		return writeImages(w, f, r)
	}
	vocabulary := fmt.Sprintf("%d distinct words in the training part; %d of its words are outside a vocabulary of %d.", f.Parts.DistinctWords, f.Parts.UnknownWords, r.VocabularySize)
	if n := len(level.Symbols); n > 0 {
		vocabulary = fmt.Sprintf("The vocabulary is the %d %s.", n, level.Unit)
	}
	if err := writeSteps(w, &f.Facts, r.Words == 0, level.Unit, countWords, f.refilled()...); err != nil {
		return err
	}
	skipped := ""
	if s := f.Source.Skipped; s != nil {
		skipped = fmt.Sprintf("%d records are faulty and were left out:\n  %s\n", s.Records, strings.Join(s.First, "\n  "))
	}
	remains := fmt.Sprintf("%d users of the training part have fewer than %d %s; they and the remainders\nof the others are %d examples, %d %s.",
		f.Balance.DroppedUsers, r.Words, level.Unit, f.Balance.DiscardedExamples, f.Balance.DiscardedWords, level.Unit)
	if r.Words == 0 {
		remains = "Users are not balanced."
	}
	_, err := fmt.Fprintf(w, `
%s%d of the source's examples were longer than %d %s and were cut.
%s
%s
`, skipped, f.Source.CutExamples, r.Reading.Complete().Sequence, level.Unit, vocabulary, remains)
	return err
}

// step is a step of the preparation of data, with its counts.
type step struct {
	name string
	population.Counts
}

func countWords(c population.Counts) string { return fmt.Sprint(c.Words) }

// refilled returns the step of an iid partition, if one was requested.
func (f *inspection) refilled() []step {
	if f.IID == nil {
		return nil
	}
	return []step{{"iid users", f.IID.Counts}}
}

// writeSteps writes a table of the counts after each step, with balanced or whole users. The caller
// defines its last column, and further steps.
func writeSteps(w io.Writer, f *datasets.Facts, whole bool, last string, text func(population.Counts) string, further ...step) error {
	trained := "balanced users"
	if whole {
		trained = "users that train"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "step\tusers\texamples\t%s\t\n", last)
	for _, s := range append([]step{
		{"source", f.Source.Counts}, {"training part", f.Parts.Train}, {"test part", f.Parts.Test}, {"validation part", f.Parts.Validation},
		{trained, f.Balance.Balanced}, {"held-out users", f.Balance.HeldOut},
	}, further...) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t\n", s.name, s.Users, s.Examples, text(s.Counts))
	}
	return t.Flush()
}
