package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coalmine/models"
	"coalmine/tasks/clientprograms"
	"coalmine/workers/clients"
)

const contractClientHelp = `Ask a program that is to train clients for all that the contract "client" wants
(docs/contracts/client.md), and print a line for each check: pass; fail, with the
sentence that was broken; doubt, where something looks wrong that may be right; skip,
where there is nothing to check. The program is asked about users and words that are
made up.

Exit status: 0 no rule is broken; 1 one is.`

// clientCheck are the flags of contract check client.
type clientCheck struct {
	command, config, memory string
	images                  imageShape
	clients.Options
}

func newContractClientCommand(g *global) *cobra.Command {
	var f clientCheck
	c := &cobra.Command{
		Use:     "client",
		Short:   `Check a program that trains clients by the contract "client"`,
		Long:    contractClientHelp,
		Example: `  coalmine contract check client --command "python3 client.py" --config '{"batch": 16}'`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			program, err := f.program()
			if err != nil {
				return err
			}
			f.Write = g.writable
			report, err := clients.Check(c.Context(), program, f.Options)
			if err != nil {
				return err
			}
			return g.writeConformance(report, report.Findings, clientSays(report.Program))
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.command, "command", "", `a command line that trains clients by the contract "client": "python3 client.py"`)
	flags.StringVar(&f.config, "config", "{}", "what training.job of an experiment file would be, as a JSON object")
	flags.StringVar(&f.memory, "command-memory", "", "how much memory its processes may have together, such as 8GiB; none is no limit (Linux)")
	f.images.add(flags, "train on images")
	flags.StringSliceVar(&f.Keep, "command-env", nil, "environment variables to pass on besides the usual ones, such as HF_TOKEN")
	mayWrite(flags, &g.writable)
	flags.DurationVar(&f.Timeout, "timeout", time.Minute, "how long a request may take, or the program to describe itself")
	if err := c.MarkFlagRequired("command"); err != nil {
		panic(err)
	}
	return c
}

// program is what the flags name.
func (f *clientCheck) program() (p clientprograms.Program, err error) {
	var config map[string]any
	if json.Unmarshal([]byte(f.config), &config) != nil || config == nil {
		return p, fmt.Errorf("--config %s: expected a JSON object, such as {\"batch\": 16}", f.config)
	}
	if f.command == "" {
		return p, errors.New("--command is empty: expected a command line, such as \"python3 client.py\"")
	}
	if f.Timeout <= 0 {
		return p, fmt.Errorf("--timeout %v: expected a time above 0", f.Timeout)
	}
	if f.Memory, err = memoryLimit(f.memory); err != nil {
		return p, fmt.Errorf("--command-memory %s: %w", f.memory, err)
	}
	return clientprograms.Program{Command: f.command, Config: json.RawMessage(f.config), Image: models.ImageShape(f.images.Image)}, nil
}

// clientSays is what a program that trains clients says of itself.
func clientSays(d *clientprograms.Description) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("program %s, %d tensors, reads %s\n", d.Program, len(d.Parameters), d.Input)
}
