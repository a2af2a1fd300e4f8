package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/workflows/compile"
	"coalmine/workflows/control"
	"coalmine/workflows/inline"
	"coalmine/workflows/plan"
	"coalmine/workflows/submission"
)

func newDataCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use: "data", Short: "Inspect or import a source", GroupID: groupOther, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newInspectCommand(g), newImportCommand(g))
	return c
}

func newInspectCommand(g *global) *cobra.Command {
	var r datasets.Recipe
	var iid bool
	c := &cobra.Command{
		Use:   "inspect SOURCE",
		Short: "Check every line of a source and count what each step of its preparation leaves",
		Long: `Check every line of a source and count users, examples and words before and
after each step of its preparation, exactly as the tasks will find them.`,
		Example: "  coalmine data inspect examples/data/state-of-the-union.jsonl.gz --words 400",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			facts, err := datasets.Survey(c.Context(), submission.LocalFiles(args[0]), datasets.Limits{}, []datasets.Recipe{r})
			if err != nil {
				return err
			}
			found := inspection{Facts: facts[0]}
			if iid {
				if found.IID, err = refill(c.Context(), args[0], r); err != nil {
					return err
				}
			}
			if g.json {
				return g.printJSON(found)
			}
			return writeFacts(g.stdout, &found, r)
		},
	}
	f := c.Flags()
	f.BoolVar(&iid, "iid", false, "shuffle and refill too, as partition: iid does without canaries; holds the source in memory")
	f.Uint64Var(&r.Seed, "seed", 1, "seed of the parts")
	f.IntVar(&r.VocabularySize, "vocabulary", 10000, "words of the vocabulary")
	f.Float64Var(&r.TestFraction, "test", 0.1, "share of the examples in the test part")
	f.Float64Var(&r.ValidationFraction, "validation", 0, "share of the others in the validation part")
	f.IntVar(&r.Words, "words", 2000, "words of a balanced user")
	f.Float64Var(&r.HeldOutUsers, "held-out-users", 0, "share of the balanced users that never train")
	return c
}

// inspection is what data inspect --json prints.
type inspection struct {
	datasets.Facts
	// IID are the synthetic users of an iid partition, where they were asked for.
	IID *datasets.PartitionMetrics `json:"iid,omitempty"`
}

// refill runs the tasks up to the iid partition in memory.
func refill(ctx context.Context, path string, r datasets.Recipe) (*datasets.PartitionMetrics, error) {
	source, err := os.ReadFile(path)
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
	corpus := node(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{storage.DigestOf(source)}})
	parts := node(datasets.Encode, r.Encode(), tasks.Input{Name: datasets.CorpusInput, Key: corpus})
	balanced := node(datasets.Balance, r.Balance(), tasks.Input{Name: datasets.PartsInput, Key: parts})
	population := node(datasets.Partition, datasets.PartitionParams{Partition: datasets.IID, Words: r.Words, Seed: r.Seed},
		tasks.Input{Name: datasets.PartsInput, Key: parts}, tasks.Input{Name: datasets.BalancedInput, Key: balanced})
	x := inline.New(p, compile.Registry(), source)
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
	fmt.Fprintln(t, "step\tusers\texamples\twords\t")
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
%d of the source's examples were longer than %d words and were cut.
%d distinct words in the training part; %d of its words are outside a vocabulary of %d.
%d users of the training part have fewer than %d words; they and the remainders
of the others are %d examples, %d words.
`, f.Source.CutExamples, datasets.SentenceWords, f.Parts.DistinctWords, f.Parts.UnknownWords, r.VocabularySize,
		f.Balance.DroppedUsers, r.Words, f.Balance.DiscardedExamples, f.Balance.DiscardedWords)
	return err
}

func newImportCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "import SOURCE",
		Short: "Check a source and upload it to the store, ahead of any submission",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := datasets.Survey(c.Context(), submission.LocalFiles(args[0]), datasets.Limits{}, nil); err != nil {
				return err
			}
			return g.withControl(c.Context(), func(api control.API) error {
				digest, err := importSource(c.Context(), api, args[0])
				if err != nil {
					return err
				}
				if g.json {
					return g.printJSON(map[string]string{"source": args[0], "sha256": digest.String()})
				}
				g.printf("%s\n", digest)
				return nil
			})
		},
	}
}
