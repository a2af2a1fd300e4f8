package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/tasks/clientprograms"
	"coalmine/workers/clients"
)

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
			program := clientprograms.Program{Command: flags.line, Config: block, Image: models.ImageShape(images.Image)}
			report, err := clients.Check(ctx, program, clients.Options{Terms: flags.Terms, Write: g.writable})
			if err != nil {
				return checked{}, err
			}
			return checked{report, report.Findings, describeClient(report.Program)}, nil
		},
	})
	c.Flags().StringVar(&config, "config", "{}", "the value of training.job in an experiment file, as a JSON object")
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
