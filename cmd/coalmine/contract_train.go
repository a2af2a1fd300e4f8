package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/workspace"
	"coalmine/tasks/external"
)

const contractTrainHelp = `Ask a program that is to train a whole model for all that the contract "train"
wants (docs/contracts/train.md), and print a line for each check: pass; fail, with the
sentence that was broken; doubt, where something looks wrong that may be right; skip,
where there is nothing to check. The program trains up to six times on users and
sentences that are made up: once to the end, once until it is killed in the middle, at
a checkpoint, and again from there to the end, after which all files that its result
names are used; once until it is asked to end.

Exit status: 0 no rule is broken; 1 one is.`

// trainCheck are the flags of contract check train.
type trainCheck struct {
	external.Check
	code, job, memory string
	canaries          int
	timeout           time.Duration
	images            imageShape
}

func newContractTrainCommand(g *global) *cobra.Command {
	var f trainCheck
	c := &cobra.Command{
		Use:     "train",
		Short:   `Check a program that trains a whole model by the contract "train"`,
		Long:    contractTrainHelp,
		Example: `  coalmine contract check train --command "python3 train.py" --code trainer --job '{"epochs": 2}'`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			f.Write = g.writable
			report, err := f.Run(c.Context())
			if err != nil {
				return err
			}
			return g.writeConformance(report, report.Findings, "")
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.Command, "command", "", `a command line that trains a model by the contract "train": "python3 train.py"`)
	flags.StringVar(&f.code, "code", "", "the directory with its code, training.code of an experiment file")
	flags.StringVar(&f.job, "job", "{}", "what training.job of an experiment file would be, as a JSON object")
	flags.IntVar(&f.Rounds, "rounds", 1, "what training.rounds would be")
	flags.IntVar(&f.Shards, "shards", 0, "the files of the training data, training.shards of an experiment file; none is one file")
	f.images.add(flags, "train on images")
	flags.BoolVar(&f.Deterministic, "deterministic", false, "look whether a second training leaves the same files")
	flags.IntVar(&f.canaries, "canary-clients", 0, "ask it for so many canary clients, as audit.one_shot does, and for as many unseen directions; 0 does not")
	flags.StringVar(&f.memory, "command-memory", "", "how much memory its processes may have together, such as 8GiB; none is no limit (Linux)")
	flags.StringSliceVar(&f.Terms.Environment, "command-env", nil, "environment variables to pass on besides the usual ones, such as HF_TOKEN")
	flags.BoolVar(&f.Terms.Network, "network", false, "leave it the network")
	mayWrite(flags, &g.writable)
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long a training may take")
	if err := c.MarkFlagRequired("command"); err != nil {
		panic(err)
	}
	return c
}

// complete checks the flags and reads the code.
func (f *trainCheck) complete() error {
	var job map[string]any
	if json.Unmarshal([]byte(f.job), &job) != nil || job == nil {
		return fmt.Errorf("--job %s: expected a JSON object, such as {\"epochs\": 2}", f.job)
	}
	f.Job = json.RawMessage(f.job)
	switch {
	case f.Command == "":
		return errors.New("--command is empty: expected a command line, such as \"python3 train.py\"")
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %v: expected a time above 0", f.timeout)
	case f.Rounds < 1:
		return fmt.Errorf("--rounds %d: expected a number from 1", f.Rounds)
	case f.canaries < 0:
		return fmt.Errorf("--canary-clients %d: expected a number from 0", f.canaries)
	case f.canaries > 0:
		f.OneShot = &external.OneShot{Canaries: f.canaries, Unseen: f.canaries, Final: true}
	}
	if f.Shards < 0 || f.Shards > external.MaxShards {
		return fmt.Errorf("--shards %d: expected at most %d files", f.Shards, external.MaxShards)
	}
	if f.Shards == 1 {
		f.Shards = 0
	}
	f.Image = f.images.Image
	f.Terms.Seconds = f.timeout.Seconds()
	var err error
	if f.Terms.Memory, err = memoryLimit(f.memory); err != nil {
		return fmt.Errorf("--command-memory %s: %w", f.memory, err)
	}
	if f.code == "" {
		return nil
	}
	if f.Code, err = workspace.Pack(os.DirFS(f.code), nil); err != nil {
		return fmt.Errorf("--code %s: %w", f.code, err)
	}
	return nil
}
