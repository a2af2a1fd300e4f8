package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	bench "coalmine/bench/clients"
)

const benchClientsHelp = `Have a program train clients by the contract "client" (docs/contracts/client.md), and print
what that costs beside the program's own loop: from a user's examples to the update in the
sum, with the parameters' way to the program and back. The program tells the seconds of its
loop by the metric "seconds" of fit; clients/python/examples/paper_lstm.py does, with a model
of the paper's size.`

func newBenchClientsCommand(g *global) *cobra.Command {
	o, config := bench.Options{}, ""
	c := &cobra.Command{
		Use:     "clients",
		Short:   "What it costs that a program trains clients",
		Long:    benchClientsHelp,
		Example: `  coalmine bench clients --command "python3 clients/python/examples/paper_lstm.py"`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var block map[string]any
			if json.Unmarshal([]byte(config), &block) != nil || block == nil {
				return fmt.Errorf("--config %s: expected a JSON object, such as {\"batch\": 16}", config)
			}
			o.Config = json.RawMessage(config)
			r, err := bench.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if g.json {
				return g.printJSON(r)
			}
			r.Print(g.stdout)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Command, "command", "", "the program, as the system's shell reads it")
	f.StringVar(&config, "config", `{"batch": 16}`, "what training.job of an experiment file would be, as a JSON object")
	f.IntVar(&o.Words, "words", 10_000, "words of the vocabulary")
	f.IntVar(&o.Examples, "examples", 320, "examples of a user: 20 batches of 16")
	f.IntVar(&o.Length, "length", 20, "words of an example")
	f.IntVar(&o.Clients, "clients", 6, "clients that are measured, after a first one that is not")
	if err := c.MarkFlagRequired("command"); err != nil {
		panic(err)
	}
	return c
}
