package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/childprocess"
	"coalmine/internal/score"
	"coalmine/workflows/standalone/modelaudit"
)

// commandFlags holds the flags for the user's own program.
type commandFlags struct {
	childprocess.Terms
	line, memory string
	timeout      time.Duration
}

// add adds the flags. command is the help of --command; the help of each other flag begins with the text only.
func (s *commandFlags) add(f *pflag.FlagSet, command, only string) {
	f.StringVar(&s.line, "command", "", command)
	f.StringVar(&s.memory, "command-memory", "", only+"memory limit of all its processes, such as 8GiB; none means no limit (Linux)")
	f.StringSliceVar(&s.Environment, "command-env", nil, only+"additional environment variables to pass on, such as HF_TOKEN")
}

// complete checks the flags, and sets the terms.
func (s *commandFlags) complete() (err error) {
	if s.line == "" {
		return errors.New("--command is empty: expected a command line, such as \"python3 program.py\"")
	}
	if s.timeout <= 0 {
		return fmt.Errorf("--timeout %v: expected a time above 0", s.timeout)
	}
	if s.Memory, err = memoryLimit(s.memory); err != nil {
		return fmt.Errorf("--command-memory %q: %w", s.memory, err)
	}
	return nil
}

// options returns the options of a client for the command, which is trusted. The flags must be complete.
func (s *commandFlags) options() (o score.Options) {
	o.Name, o.Args, o.Terms = s.line, childprocess.Shell(s.line), s.Terms
	o.Network, o.AnswerSeconds = true, s.timeout.Seconds()
	return o
}

// memoryLimit returns the memory limit of a command's processes in bytes; 0 means no limit.
func memoryLimit(text string) (int64, error) {
	if text == "" || text == "none" {
		return 0, nil
	}
	bytes, err := humanize.ParseBytes(text)
	if err != nil || bytes == 0 || bytes > 1<<60 {
		return 0, errors.New("expected a size such as 8GiB, or none")
	}
	return int64(bytes), nil
}

// auditCommand audits a model whose scores the command computes.
func (a *auditFlags) auditCommand(c *cobra.Command, g *global, asked *askedOf) (report *modelaudit.Report, err error) {
	if err := a.checkPace(); err != nil {
		return nil, err
	}
	vocabulary, err := a.words()
	if err != nil {
		return nil, err
	}
	if err := a.scorer.complete(); err != nil {
		return nil, err
	}
	options := a.scorer.options()
	options.Concurrency = a.concurrency
	client, err := score.Start(c.Context(), options)
	if err != nil {
		return nil, err
	}
	defer func() {
		if ended := client.Close(); err == nil && ended != nil {
			g.note("%v", ended) // all answers have arrived
		}
	}()
	command, err := modelaudit.NewCommand(client, vocabulary, a.batch)
	if err != nil {
		return nil, err
	}
	command.Ranked = g.noteRanked(client.Requests)
	return asked.audit(c.Context(), command, a.remoteOptions(c))
}

// words returns the vocabulary of canaries and references.
func (a *auditFlags) words() (*modelaudit.Vocabulary, error) {
	if a.vocabulary == "" {
		return modelaudit.BytesVocabulary(), nil
	}
	return readFlag("vocabulary", a.vocabulary, "", func(_ string, r io.Reader) (*modelaudit.Vocabulary, error) { return modelaudit.ReadWords(r) })
}

// writeCommanded prints the number of requests to a command, and the largest exposure that they can
// show.
func (g *global) writeCommanded(r *modelaudit.Report) {
	d := r.Command
	if d == nil {
		return
	}
	determinism := "not declared deterministic"
	if d.Deterministic {
		determinism = "declared deterministic"
	}
	g.printf("command: model %s, %s; %d sequences in %d requests; alone and in a batch, the log-perplexities of %d differ by at most %.3g nats\n",
		d.Model, determinism, d.Sequences, d.Requests, d.Compared, d.LargestDifference)
	if d.MaxExposure != nil {
		g.printf("references are scored one by one, so there are few: exposures above %.1f bits cannot be measured without more --references or --skew-normal\n", *d.MaxExposure)
	}
}

// samplesText returns the number of samples that contain a canary with probability 1/2.
func samplesText(c *modelaudit.Canary) string {
	if c.Queries == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", *c.Queries)
}
