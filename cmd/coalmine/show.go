package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/workflows/control"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/localexec"
)

const showHelp = `Print the resolved experiment of a run: the cells of its grid, with --set, all defaults
and the digest of the data. With CELL the output is an experiment file that runs again from
the cache. Its relative paths are those of the submitted file, so keep it in the same
folder.

--nodes lists the nodes instead: key, kind and version, parameters, inputs, whether it is
committed, and outputs with sizes and digests. For a training it lists the steps with
stored records, each with its parts; the records of parts are deleted when their step is
done. "coalmine logs RUN NODE" prints the last output of an external training.`

func newShowCommand(g *global) *cobra.Command {
	nodes := false
	c := &cobra.Command{
		Use:   "show RUN [CELL]",
		Short: "Print the experiment of a run or of one cell, with all defaults",
		Long:  showHelp,
		Example: "  coalmine show latest\n  coalmine show quickstart c02 > again.yaml && coalmine run again.yaml\n" +
			"  coalmine show quickstart c02 --nodes --json | jq '.nodes[] | select(.kind == \"datasets/encode\")'",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			if nodes {
				return g.showNodes(ctx, api, args)
			}
			spec, err := api.Experiment(ctx, args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				if err := onlyCell(spec, args[1]); err != nil {
					return fmt.Errorf("run %s: %w", args[0], err)
				}
			}
			return g.show(spec, func() error { return g.writeSpec(spec) })
		}),
	}
	c.Flags().BoolVar(&nodes, "nodes", false, "list the nodes with their inputs and outputs")
	return c
}

func onlyCell(spec *experiment.Spec, name string) error {
	if c := lists.Find(spec.Cells, func(c *experiment.Cell) bool { return c.Name == name }); c != nil {
		spec.Cells = []experiment.Cell{*c}
		return nil
	}
	return fmt.Errorf("no cell %q; the run has %s", name, readable.Range(spec.Cells[0].Name, spec.Cells[len(spec.Cells)-1].Name))
}

// writeSpec prints the cells as YAML documents.
func (g *global) writeSpec(spec *experiment.Spec) error {
	text, err := spec.YAML()
	if err != nil {
		return err
	}
	g.printf("%s", text)
	return nil
}

// shownNodes is the output of show --nodes --json.
type shownNodes struct {
	Nodes []control.Node `json:"nodes"`
}

func (g *global) showNodes(ctx context.Context, api control.API, args []string) error {
	var which control.NodeQuery
	if len(args) == 2 {
		which.Cell = args[1]
	}
	nodes, err := api.Nodes(ctx, args[0], which)
	if err != nil {
		return err
	}
	return g.show(shownNodes{nodes}, func() error {
		for i := range nodes {
			writeNode(g.stdout, &nodes[i])
		}
		return nil
	})
}

// writeNode prints a node as a block of lines.
func writeNode(w io.Writer, n *control.Node) {
	state := "no cached result"
	if n.Committed {
		state = "committed"
	}
	fmt.Fprintf(w, "%s  %s@%d  %s\n", n.Key, n.Kind, n.Version, state)
	fmt.Fprintf(w, "  label   %s (%s)\n", readable.Text(n.Label), strings.Join(n.Cells, ", "))
	fmt.Fprintf(w, "  params  %s\n", readable.Lines(string(n.Params)))
	for _, in := range n.Inputs {
		fmt.Fprintf(w, "  reads   %s  %s\n", in.Key, in.Name)
	}
	for _, b := range n.Blobs {
		deleted := ""
		if !b.Stored {
			deleted = ", deleted since"
		}
		fmt.Fprintf(w, "  wrote   %s  %s, %d bytes%s\n", b.SHA256, readable.Text(b.Name), b.Bytes, deleted)
	}
	if len(n.Metrics) > 0 {
		fmt.Fprintf(w, "  metrics %s\n", n.Metrics)
	}
}

// preparation describes the steps from an experiment's source to the population that some of its
// cells train on, as printed by data inspect FILE.yaml.
type preparation struct {
	Cells []string `json:"cells"`
	// Label is the plan's name of the last step.
	Label string `json:"label"`
	// unit is the name of the counted tokens; whole is set if users are not balanced.
	unit  string
	whole bool
	// Selects describes the words of the source that form the examples, spelled in bytes; it is
	// absent for texts.
	Selects string `json:"selects,omitempty"`
	datasets.Facts
	Population population.PartitionMetrics `json:"population"`
	// Insertions and Canaries are absent for an experiment without canaries.
	Insertions *canaries.InsertMetrics `json:"insertions,omitempty"`
	Canaries   []insertedConfiguration `json:"canaries,omitempty"`
}

// insertedConfiguration counts the insertions of one configuration.
type insertedConfiguration struct {
	UserProbability    string `json:"user_probability,omitempty"`
	ExampleProbability string `json:"example_probability,omitempty"`
	InsertedTimes      int    `json:"inserted_times,omitempty"`
	// Canaries is the number of canaries; NeverInserted of them have no copy.
	Canaries      int `json:"canaries"`
	NeverInserted int `json:"never_inserted"`
	// Users, Holders and Insertions are sums over the canaries: the secret sharers,
	// the users of the population that hold a copy, and the copies.
	Users      int `json:"users"`
	Holders    int `json:"holders"`
	Insertions int `json:"insertions"`
}

func (c *insertedConfiguration) configuration() canaries.Configuration {
	return canaries.Configuration{UserProbability: c.UserProbability, ExampleProbability: c.ExampleProbability, Times: c.InsertedTimes}
}

// inspectExperiment prepares the data of an experiment in memory, exactly as its tasks do, and
// prints the counts.
func (g *global) inspectExperiment(ctx context.Context, flags *submitFlags, path string) error {
	sub, err := flags.prepare(ctx, g, path)
	if err != nil {
		return err
	}
	found, err := preparations(ctx, sub)
	if err != nil {
		return err
	}
	return g.show(map[string]any{"experiment": sub.Spec.Name, "preparations": found}, func() error {
		for i, p := range found {
			if i > 0 {
				g.printf("\n")
			}
			if err := p.write(g.stdout); err != nil {
				return err
			}
		}
		return nil
	})
}

// preparations returns the distinct preparations of all cells, in the order of the cells.
func preparations(ctx context.Context, sub *submission.Submission) ([]*preparation, error) {
	p, x, err := planHere(ctx, sub)
	if err != nil {
		return nil, err
	}
	known := map[storage.Key]*preparation{}
	var found []*preparation
	for i, cell := range p.Cells {
		data := &sub.Spec.Cells[i].Experiment.Data
		for _, key := range populationsOf(p, cell.Report) {
			if known[key] == nil {
				if known[key], err = prepare(ctx, x, p, p.Nodes[key]); err != nil {
					return nil, err
				}
				known[key].unit, known[key].whole = data.Level.Scheme().Unit, data.Users.Words == 0
				found = append(found, known[key])
			}
			known[key].Cells = append(known[key].Cells, cell.Name)
		}
	}
	return found, nil
}

// populationsOf returns the keys of the partitions that a node depends on.
func populationsOf(p *plan.Plan, from plan.Ref) []storage.Key {
	nodes, _ := p.Needed(from)
	partitions := lists.Filter(nodes, func(n *plan.Node) bool { return n.Kind == population.Partition.Name })
	found := lists.Map(partitions, func(n *plan.Node) storage.Key { return n.Key })
	slices.SortFunc(found, storage.Key.Compare)
	return found
}

// prepare runs the tasks up to a partition, and reads their counts.
func prepare(ctx context.Context, x *localexec.Executor, whole *plan.Plan, n *plan.Node) (*preparation, error) {
	if err := x.Reach(ctx, plan.Ref{Key: n.Key}); err != nil {
		return nil, err
	}
	p := &preparation{Label: n.Label}
	parts, balanced := n.Input(population.PartsInput), n.Input(population.BalancedInput)
	if source := whole.Nodes[parts]; source.Kind == datasets.OutOfVocabulary.Name {
		p.Selects = source.Label
	}
	corpus := whole.Nodes[parts].Input(datasets.CorpusInput)
	read := map[storage.Key]any{n.Key: &p.Population, corpus: &p.Source, parts: &p.Parts, balanced: &p.Balance}
	if insertions := n.Input(population.InsertionsInput); !insertions.IsZero() {
		p.Insertions = &canaries.InsertMetrics{}
		read[insertions] = p.Insertions
	}
	for key, into := range read {
		c, err := x.Commit(ctx, key)
		if err == nil {
			err = json.Unmarshal(c.Metrics, into)
		}
		if err != nil {
			return nil, err
		}
	}
	if p.Insertions == nil {
		return p, nil
	}
	data, err := x.Blob(ctx, n.Key, population.CanariesBlob)
	if err != nil {
		return nil, err
	}
	var placements []population.Placement
	if err := json.Unmarshal(data, &placements); err != nil {
		return nil, err
	}
	p.Canaries = byConfiguration(placements)
	return p, nil
}

// byConfiguration sums placements by configuration, in order of first occurrence.
func byConfiguration(placements []population.Placement) []insertedConfiguration {
	var all []insertedConfiguration
	for _, p := range placements {
		if p.HeldBack {
			continue
		}
		i := slices.IndexFunc(all, func(c insertedConfiguration) bool {
			return c.configuration() == canaries.ConfigurationOf(&p.Canary)
		})
		if i < 0 {
			i = len(all)
			all = append(all, insertedConfiguration{UserProbability: p.UserProbability, ExampleProbability: p.ExampleProbability, InsertedTimes: p.InsertedTimes})
		}
		c := &all[i]
		c.Canaries++
		c.Users += p.Users
		c.Holders += p.Holders
		c.Insertions += p.Insertions
		if p.Insertions == 0 {
			c.NeverInserted++
		}
	}
	return all
}

func (p *preparation) write(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n", strings.Join(p.Cells, ", "), readable.Text(p.Label))
	if err := writeSteps(w, &p.Facts, p.whole, p.unit, countWords, step{"population", p.Population.Counts}); err != nil {
		return err
	}
	p.writeReading(w)
	if p.Insertions == nil {
		return nil
	}
	return p.writeCanaries(w)
}

// writeReading describes changes made while reading the source.
func (p *preparation) writeReading(w io.Writer) {
	if p.Selects != "" {
		fmt.Fprintf(w, "\nThe examples of the parts and the population are %s, and their words are bytes.\n", p.Selects)
	}
	for _, f := range p.Source.Faults {
		fmt.Fprintf(w, "\n%s%s.\n", strings.ToUpper(f.String()[:1]), f.String()[1:])
	}
}

func (p *preparation) writeCanaries(w io.Writer) error {
	m := p.Insertions
	fmt.Fprintf(w, "\n%d of %d balanced users carry a canary; %d of their %d examples are replaced (%s).\n",
		m.SecretSharers, m.Users, m.ReplacedExamples, m.Examples, readable.Share(float64(m.ReplacedExamples)/float64(max(1, m.Examples))))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "p_u, p_e\tcanaries\tnever inserted\tusers each\tholders each\tcopies each\t\n")
	for _, c := range p.Canaries {
		each := func(sum int) float64 { return float64(sum) / float64(c.Canaries) }
		fmt.Fprintf(t, "%s\t%d\t%d\t%.3g\t%.3g\t%.3g\t\n", c.configuration(),
			c.Canaries, c.NeverInserted, each(c.Users), each(c.Holders), each(c.Insertions))
	}
	return t.Flush()
}
