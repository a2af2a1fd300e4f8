package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/external"
	"coalmine/workers/clients"
)

const contractTrainHelp = `
The program trains up to six times on synthetic users and sentences: once to the end; once
until it is killed at a checkpoint, and again from there to the end, followed by a check of
all files in its result; once until it is asked to stop.`

// trainCheck holds the flags of contract check train.
type trainCheck struct {
	external.Check
	program   commandFlags
	code, job string
	canaries  int
	replays   int
	images    imageShape
}

func newContractTrainCommand(g *global) *cobra.Command {
	var f trainCheck
	c := g.newContractCheck(contractCheck{
		contract: "train", does: "trains a whole model", more: contractTrainHelp, example: `--command "python3 train.py" --code trainer --job '{"epochs": 2}'`,
		program: &f.program, timeout: 10 * time.Minute, allows: "a training",
		run: func(ctx context.Context) (checked, error) {
			if err := f.complete(); err != nil {
				return checked{}, err
			}
			f.Write = g.writable
			report, err := f.Run(ctx)
			if err != nil {
				return checked{}, err
			}
			return checked{report, report.Findings, ""}, nil
		},
	})
	flags := c.Flags()
	flags.StringVar(&f.code, "code", "", "directory of its code, training.code of an experiment file")
	flags.StringVar(&f.job, "job", "{}", "value of training.job in an experiment file, as a JSON object")
	flags.IntVar(&f.Rounds, "rounds", 1, "value of training.rounds")
	flags.IntVar(&f.Shards, "shards", 0, "number of files of the training data, training.shards of an experiment file; default one file")
	f.images.add(flags, "train on images")
	flags.BoolVar(&f.Deterministic, "deterministic", false, "check that a second training writes the same files")
	flags.IntVar(&f.canaries, "canary-clients", 0, "number of canary clients to request, as audit.one_shot does, and of unseen directions")
	flags.IntVar(&f.replays, "replays", 0, "number of steps to replay, as audit.neighbours requests")
	flags.BoolVar(&f.program.Network, "network", false, "allow it to use the network")
	mayWrite(flags, &g.writable)
	return c
}

// complete checks the flags and reads the code.
func (f *trainCheck) complete() (err error) {
	if f.Job, err = jsonObject("job", f.job, `{"epochs": 2}`); err != nil {
		return err
	}
	switch {
	case f.Rounds < 1:
		return fmt.Errorf("--rounds %d: expected at least 1", f.Rounds)
	case f.canaries < 0:
		return fmt.Errorf("--canary-clients %d: expected at least 0", f.canaries)
	case f.canaries > 0:
		f.OneShot = &external.OneShot{Canaries: f.canaries, Unseen: f.canaries, Final: true}
	}
	if f.replays < 0 {
		return fmt.Errorf("--replays %d: expected at least 0", f.replays)
	}
	if f.replays > 0 {
		f.Replay = &external.Replay{Repeats: f.replays}
	}
	if f.Shards < 0 || f.Shards > external.MaxShards {
		return fmt.Errorf("--shards %d: expected at most %d files", f.Shards, external.MaxShards)
	}
	if f.Shards == 1 {
		f.Shards = 0
	}
	f.Command, f.Terms, f.Image = f.program.line, f.program.Terms, f.images.Shape
	f.Terms.Seconds = f.program.timeout.Seconds()
	if f.code == "" {
		return nil
	}
	archive, err := clientprograms.PackCode(os.DirFS(f.code), nil)
	if err != nil {
		return fmt.Errorf("--code %s: %w", f.code, err)
	}
	f.Code = clientprograms.Packed(archive)
	return nil
}

func newContractClientCommand(g *global) *cobra.Command {
	var flags commandFlags
	var config string
	var images imageShape
	c := g.newContractCheck(contractCheck{
		contract: "client", does: "trains clients", more: "\nThe checks use synthetic users and words.", example: `--command "python3 client.py" --config '{"batch": 16}'`,
		program: &flags, timeout: time.Minute, allows: answerAllows,
		run: func(ctx context.Context) (checked, error) {
			block, err := jsonObject("config", config, `{"batch": 16}`)
			if err != nil {
				return checked{}, err
			}
			flags.AnswerSeconds = flags.timeout.Seconds()
			program := clientprograms.Program{Command: flags.line, Config: block, Image: models.ImageShape(images.Shape)}
			report, err := clients.Check(ctx, program, clients.Options{Terms: flags.Terms, Write: g.writable})
			if err != nil {
				return checked{}, err
			}
			return checked{report, report.Findings, describeClient(report.Program)}, nil
		},
	})
	c.Flags().StringVar(&config, "config", "{}", "value of training.job in an experiment file, as a JSON object")
	images.add(c.Flags(), "train on images")
	mayWrite(c.Flags(), &g.writable)
	return c
}

func describeClient(d *clientprograms.Description) string {
	if d == nil {
		return ""
	}
	together := ""
	if d.Together != nil {
		together = fmt.Sprintf(", up to %s at once", readable.Count(int64(d.Together.Users), "user"))
	}
	return fmt.Sprintf("program %s, %d tensors, reads %s%s\n", d.Program, len(d.Parameters), d.Input, together)
}
