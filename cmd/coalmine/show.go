package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/internal/readable"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
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
		GroupID: groupLook,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return g.withControl(c.Context(), func(api control.API) error {
				if nodes {
					return g.showNodes(c.Context(), api, args)
				}
				spec, err := api.Experiment(c.Context(), args[0])
				if err != nil {
					return err
				}
				if len(args) == 2 {
					if err := onlyCell(spec, args[1]); err != nil {
						return fmt.Errorf("run %s: %w", args[0], err)
					}
				}
				if g.json {
					return g.printJSON(spec)
				}
				return g.writeSpec(spec)
			})
		},
	}
	c.Flags().BoolVar(&nodes, "nodes", false, "list the nodes with their inputs and outputs")
	return c
}

// onlyCell reduces a spec to one cell.
func onlyCell(spec *experiment.Spec, name string) error {
	for _, c := range spec.Cells {
		if c.Name == name {
			spec.Cells = []experiment.Cell{c}
			return nil
		}
	}
	return fmt.Errorf("there is no cell %q: it has %s", name, readable.Range(spec.Cells[0].Name, spec.Cells[len(spec.Cells)-1].Name))
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
	if g.json {
		return g.printJSON(shownNodes{nodes})
	}
	for i := range nodes {
		writeNode(g.stdout, &nodes[i])
	}
	return nil
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
		fmt.Fprintf(w, "  wrote   %s  %s, %d bytes%s\n", b.SHA256, readable.Text(b.Name), b.Bytes, storedText(b))
	}
	if len(n.Metrics) > 0 {
		fmt.Fprintf(w, "  metrics %s\n", n.Metrics)
	}
}

func storedText(b control.NodeBlob) string {
	if b.Stored {
		return ""
	}
	return ", deleted since"
}
