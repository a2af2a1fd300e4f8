package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/workflows/compile"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/localexec"
	"coalmine/workflows/plan"
	"coalmine/workflows/sources"
)

func newDataCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use: "data", Short: "Inspect or import a source, export what a run made of it", GroupID: groupOther, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newInspectCommand(g), newImportCommand(g), newDataExportCommand(g))
	return c
}

const sourceHelp = `SOURCE is a
file of JSON lines, plain, .gz or .zst; a directory, of which the files ending in
.jsonl, .jsonl.gz and .jsonl.zst are read in order of their names; or either in
S3, as s3://bucket/key or s3://bucket/prefix/, with ?endpoint= where it is not
Amazon's and credentials as for --store.`

func newInspectCommand(g *global) *cobra.Command {
	var r datasets.Recipe
	var iid bool
	var limits datasets.Limits
	var experimentFlags submitFlags
	c := &cobra.Command{
		Use:   "inspect SOURCE|FILE.yaml",
		Short: "Check every line of a source and count what each step of its preparation leaves",
		Long: `Check every line of a source and count users, examples and words before and
after each step of its preparation, exactly as the tasks will find them. ` + sourceHelp + `

Of an experiment file it prepares the data of every cell in memory, with the
experiment's own settings (and --set): besides the counts it says how many users
carry the canaries of each configuration, and how many examples they replace.`,
		Example: "  coalmine data inspect examples/data/state-of-the-union.jsonl.gz --words 400\n" +
			"  coalmine data inspect examples/quickstart.yaml --set canaries.user_probability=1%\n" +
			"  coalmine data inspect 's3://bucket/texts/?endpoint=https://s3.example.org'",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if ext := filepath.Ext(args[0]); ext == ".yaml" || ext == ".yml" {
				if err := onlyOf(c, args[0], "set", "max-cells"); err != nil {
					return err
				}
				return g.inspectExperiment(c.Context(), &experimentFlags, args[0])
			}
			if len(experimentFlags.sets) > 0 {
				return fmt.Errorf("--set is for experiment files; %s is taken for a source", args[0])
			}
			if r.Level.Scheme().Symbols != nil && !c.Flags().Changed("vocabulary") {
				r.VocabularySize = 0
			}
			return g.inspectSource(c.Context(), args[0], limits, r, iid)
		},
	}
	f := c.Flags()
	addLimits(f, &limits)
	experimentFlags.add(f, false)
	f.BoolVar(&iid, "iid", false, "shuffle and refill too, as partition: iid does without canaries; holds the source in memory")
	f.Uint64Var(&r.Seed, "seed", 1, "seed of the parts")
	f.StringVar((*string)(&r.Level), "level", string(datasets.WordLevel), "read the text as words, or as bytes: word or byte; at the byte level, what is counted in words is counted in bytes")
	f.IntVar(&r.Sequence, "sequence", 0, "length at which sentences are cut (default 20 words or 100 bytes)")
	f.IntVar(&r.VocabularySize, "vocabulary", 10000, "words of the vocabulary; at the byte level it is fixed")
	f.Float64Var(&r.TestFraction, "test", 0.1, "share of the examples in the test part")
	f.Float64Var(&r.ValidationFraction, "validation", 0, "share of the others in the validation part")
	f.IntVar(&r.Words, "words", 2000, "words of a balanced user")
	f.Float64Var(&r.HeldOutUsers, "held-out-users", 0, "share of the balanced users that never train")
	return c
}

// inspectSource counts what a recipe makes of a source.
func (g *global) inspectSource(ctx context.Context, name string, limits datasets.Limits, r datasets.Recipe, iid bool) error {
	source, err := sources.Here{}.Find(ctx, name, "")
	if err != nil {
		return err
	}
	facts, err := source.Survey(ctx, limits, []datasets.Recipe{r})
	if err != nil {
		return err
	}
	found := inspection{Facts: facts[0], SHA256: experiment.SourceDigest(source.Digests()), Files: listed(source)}
	if iid {
		if found.IID, err = refill(ctx, source, limits, r); err != nil {
			return err
		}
	}
	if g.json {
		return g.printJSON(found)
	}
	return writeFacts(g.stdout, &found, r)
}

// onlyOf refuses the flags of a command but for those of these names, since an
// experiment file says all that the others would.
func onlyOf(c *cobra.Command, path string, names ...string) error {
	var wrong error
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(names, f.Name) {
			wrong = fmt.Errorf("--%s is for sources; %s says itself how its data is prepared: override that by --set", f.Name, path)
		}
	})
	return wrong
}

// inspection is what data inspect --json prints.
type inspection struct {
	datasets.Facts
	// SHA256 is data.sha256 of the source, which consists of the files.
	SHA256 storage.Digest `json:"sha256"`
	Files  []listedFile   `json:"files"`
	// IID are the synthetic users of an iid partition, where they were asked for.
	IID *datasets.PartitionMetrics `json:"iid,omitempty"`
}

// listedFile is one file of a source, for programs.
type listedFile struct {
	Name   string         `json:"name"`
	SHA256 storage.Digest `json:"sha256"`
}

func listed(source *sources.Source) []listedFile {
	var files []listedFile
	for _, f := range source.Files {
		files = append(files, listedFile{f.Name, f.Digest})
	}
	return files
}

// contents reads all files of a source into memory.
func contents(ctx context.Context, source *sources.Source) ([][]byte, error) {
	var all [][]byte
	for _, f := range source.Files {
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

// refill runs the tasks up to the iid partition in memory.
func refill(ctx context.Context, source *sources.Source, limits datasets.Limits, r datasets.Recipe) (*datasets.PartitionMetrics, error) {
	files, err := contents(ctx, source)
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
	corpus := node(datasets.Import, r.Import(source.Digests(), limits))
	parts := node(datasets.Encode, r.Encode(), tasks.Input{Name: datasets.CorpusInput, Key: corpus})
	balanced := node(datasets.Balance, r.Balance(), tasks.Input{Name: datasets.PartsInput, Key: parts})
	population := node(datasets.Partition, datasets.PartitionParams{Partition: datasets.IID, Words: r.Words, Seed: r.Seed},
		tasks.Input{Name: datasets.PartsInput, Key: parts}, tasks.Input{Name: datasets.BalancedInput, Key: balanced})
	x := localexec.New(p, compile.Registry(), files...)
	if failed = errors.Join(failed, x.Reach(ctx, plan.Ref{Key: population})); failed != nil {
		return nil, failed
	}
	commit, err := x.Commit(ctx, population)
	if err != nil {
		return nil, err
	}
	var m datasets.PartitionMetrics
	return &m, json.Unmarshal(commit.Metrics, &m)
}

func writeFacts(w io.Writer, f *inspection, r datasets.Recipe) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	level := r.Level.Scheme()
	vocabulary := fmt.Sprintf("%d distinct words in the training part; %d of its words are outside a vocabulary of %d.", f.Parts.DistinctWords, f.Parts.UnknownWords, r.VocabularySize)
	if n := len(level.Symbols); n > 0 {
		vocabulary = fmt.Sprintf("The vocabulary is the %d %s.", n, level.Unit)
	}
	fmt.Fprintf(t, "step\tusers\texamples\t%s\t\n", level.Unit)
	row := func(step string, c datasets.Counts) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t\n", step, c.Users, c.Examples, c.Words)
	}
	row("source", f.Source.Counts)
	row("training part", f.Parts.Train)
	row("test part", f.Parts.Test)
	row("validation part", f.Parts.Validation)
	row("balanced users", f.Balance.Balanced)
	row("held-out users", f.Balance.HeldOut)
	if f.IID != nil {
		row("iid users", f.IID.Counts)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
%d of the source's examples were longer than %d %s and were cut.
%s
%d users of the training part have fewer than %d %s; they and the remainders
of the others are %d examples, %d %s.
`, f.Source.CutExamples, r.Reading.Complete().Sequence, level.Unit, vocabulary,
		f.Balance.DroppedUsers, r.Words, level.Unit, f.Balance.DiscardedExamples, f.Balance.DiscardedWords, level.Unit)
	return err
}

func newImportCommand(g *global) *cobra.Command {
	var limits datasets.Limits
	c := &cobra.Command{
		Use:   "import SOURCE",
		Short: "Check a source and upload it to the store, ahead of any submission",
		Long: `Check a source and upload its files to the store, those that it lacks, ahead of
any submission. ` + sourceHelp + `

Prints data.sha256 of the source.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			source, err := sources.Here{}.Find(c.Context(), args[0], "")
			if err != nil {
				return err
			}
			if _, err := source.Survey(c.Context(), limits, nil); err != nil {
				return err
			}
			return g.withControl(c.Context(), func(api control.API) error {
				if err := source.Upload(c.Context(), api); err != nil {
					return err
				}
				return g.printImported(args[0], source)
			})
		},
	}
	addLimits(c.Flags(), &limits)
	return c
}

// addLimits adds the flags for data.limits.
func addLimits(f *pflag.FlagSet, l *datasets.Limits) {
	f.IntVar(&l.LineBytes, "limit-line", datasets.DefaultLineBytes, "longest line, in bytes")
	f.Int64Var(&l.TotalBytes, "limit-text", datasets.DefaultTotalBytes, "most that the source may hold decompressed, in bytes")
	f.IntVar(&l.Ratio, "limit-ratio", datasets.DefaultRatio, "most times its size that a compressed file may grow, after 16 MiB")
}

func (g *global) printImported(name string, source *sources.Source) error {
	digest := experiment.SourceDigest(source.Digests())
	if g.json {
		return g.printJSON(map[string]any{"source": name, "sha256": digest, "files": listed(source)})
	}
	g.printf("%s\n", digest)
	return nil
}
