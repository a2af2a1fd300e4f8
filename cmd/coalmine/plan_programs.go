package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
	"coalmine/workers/clients"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/forecast"
	"coalmine/workflows/plan/compile"
)

// maxMeasuring is the maximum total time to measure the programs of a plan.
const maxMeasuring = time.Minute

// programs returns a function that measures the program of a cell, each program once. It notes
// programs that cannot be measured.
func (g *global) programs(ctx context.Context, sub *submission.Submission, measure bool) func(cell int) *forecast.Speed {
	known, end := map[string]*forecast.Speed{}, time.Now().Add(maxMeasuring)
	return func(cell int) *forecast.Speed {
		if !measure || ctx.Err() != nil {
			return nil
		}
		c := &sub.Spec.Cells[cell]
		p := measured{g, sub, cell, &c.Experiment}
		name := p.name()
		if speed, asked := known[name]; asked {
			return speed
		}
		g.note("measuring the speed of the program of %s, for at most a minute", c.Name)
		g.trial(ctx, end, c.Name, "measured", func(ctx context.Context) (err error) {
			known[name], err = p.speed(ctx)
			return err
		})
		return known[name]
	}
}

// trial tries the program of a cell, until end at the latest, and warns of a failure. done is the participle in that
// warning, such as "measured".
func (g *global) trial(ctx context.Context, end time.Time, cell, done string, try func(context.Context) error) {
	limited, cancel := context.WithDeadlineCause(ctx, end, fmt.Errorf("the program did not end within %v", maxMeasuring))
	defer cancel()
	if err := goroutines.Recover(func() error { return try(limited) }); err != nil && ctx.Err() == nil {
		g.note("warning: the program of %s could not be %s: %s", cell, done, firstAndLast(err.Error()))
	}
}

// warnOfReplays tries each program whose training is to run and to be replayed, and warns of one
// whose step is missing or wrong.
// A failure of the trial does not keep the experiment from running.
func (g *global) warnOfReplays(ctx context.Context, sub *submission.Submission) {
	if !slices.ContainsFunc(sub.Spec.Cells, func(c experiment.Cell) bool { return c.Experiment.Replay() != nil }) {
		return
	}
	p, x, err := planOf(ctx, sub, g.knownResults)
	if err != nil {
		if ctx.Err() == nil {
			g.note("programs of trainings that audit.neighbours replays were not tried: %v", err)
		}
		return
	}
	tried, end := map[[2]string]bool{}, time.Now().Add(maxMeasuring)
	for i := range sub.Spec.Cells {
		c := &sub.Spec.Cells[i]
		program := [2]string{c.Experiment.Training.Command, c.Experiment.Training.CodeSHA256}
		if ctx.Err() != nil || c.Experiment.Replay() == nil || tried[program] || len(trainingToRun(&p.Cells[i], x, i)) == 0 {
			continue
		}
		tried[program] = true
		g.note("trying the program of %s on synthetic data, for at most a minute: audit.neighbours needs its step", c.Name)
		g.trial(ctx, end, c.Name, "tried", func(ctx context.Context) error {
			m := measured{g, sub, i, &c.Experiment}
			lacks, err := m.pace().Lacks(ctx)
			if lacks != "" {
				g.note("warning: audit.neighbours (%s) will fail after the training: %s", c.Label, lacks)
			}
			return err
		})
	}
}

// firstAndLast returns the informative lines of a message: the lines between are a traceback.
func firstAndLast(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	return lines[0] + " " + strings.TrimSpace(lines[len(lines)-1])
}

// measured is a program to measure on synthetic data of the size of a cell's data.
type measured struct {
	*global
	sub        *submission.Submission
	cell       int
	experiment *experiment.Experiment
}

// name identifies a program.
func (m *measured) name() string {
	t := &m.experiment.Training
	trainer, _ := compile.Trainer(m.experiment) // the plan has compiled it before
	text, _ := json.Marshal([]any{t.Command, trainer, t.ScorerSHA256, t.CodeSHA256, t.Job, t.Rounds, m.users(), m.length(), m.words()})
	return string(text)
}

// users returns the maximum number of users that train together, in one task.
func (m *measured) users() int {
	t := &m.experiment.Training
	return (t.Cohort + t.Chunks - 1) / max(1, t.Chunks)
}

// length returns the mean length of an example in words or bytes, without its end.
func (m *measured) length() int { return max(1, int(math.Round(m.sub.TokensPerExample[m.cell]))-1) }

// most returns the length at which examples are cut.
func (m *measured) most() int {
	return cmp.Or(m.experiment.Data.Sequence, m.experiment.Data.Level.Scheme().Sequence)
}

// symbols returns the symbols of the level; nil for words.
func (m *measured) symbols() []string { return m.experiment.Data.Level.Scheme().Symbols }

// words returns the ordinary tokens.
func (m *measured) words() []string {
	if symbols := m.symbols(); symbols != nil {
		return symbols
	}
	return lists.Make(max(2, m.experiment.Data.OrdinaryTokens()), func(i int) string { return fmt.Sprintf("w%d", i) })
}

// examples returns the mean number of examples of a user.
func (m *measured) examples() int {
	return max(1, int(math.Round(m.sub.TokensPerUser[m.cell]/m.sub.TokensPerExample[m.cell])))
}

func (m *measured) terms() childprocess.Terms {
	t := childprocess.Terms{Environment: m.experiment.Training.Environment, Seconds: maxMeasuring.Seconds()}
	if l := m.experiment.Training.Limits; l != nil {
		t.Network = l.Network
	}
	return t
}

// code returns the code with a digest, nil for an empty digest.
func (m *measured) code(digest string) clientprograms.Code {
	for _, source := range m.sub.Sources() {
		if source.Digests()[0].String() == digest && len(source.Files) == 1 {
			return source.Files[0].Open
		}
	}
	return nil
}

func (m *measured) speed(ctx context.Context) (*forecast.Speed, error) {
	if m.experiment.Training.Command == "" {
		return m.client(ctx)
	}
	return m.training(ctx)
}

// pace returns a Pace that measures a training.command on synthetic data.
func (m *measured) pace() *external.Pace {
	t := &m.experiment.Training
	code := m.code(t.CodeSHA256)
	p := &external.Pace{
		Check: external.Check{
			Command: t.Command, Code: code, Job: json.RawMessage(t.Job), Rounds: t.Rounds, Shards: t.Shards, Image: m.experiment.Data.Shape(),
			Replay: m.experiment.Replay(), Terms: m.terms(), Write: m.writable,
		},
		Scorer: code,
		Sample: external.Sample{
			Users: int(m.sub.TrainTokens[m.cell]/m.sub.TokensPerUser[m.cell]) + 1, Examples: m.examples(),
			Words: m.words(), Length: m.length(), MaxWords: m.most(), Symbols: m.symbols() != nil,
		},
	}
	if t.ScorerSHA256 != "" {
		p.Scorer = m.code(t.ScorerSHA256)
	}
	return p
}

// training measures a training.command.
func (m *measured) training(ctx context.Context) (*forecast.Speed, error) {
	s, err := m.pace().Measure(ctx)
	if err != nil {
		return nil, err
	}
	return &forecast.Speed{
		Train: forecast.Pace{Start: s.Start, Token: s.Example / m.sub.TokensPerExample[m.cell]},
		Score: forecast.Pace{Start: s.Load, Token: s.Text / m.scored()},
	}, nil
}

// scored returns the number of states in a scored text.
func (m *measured) scored() float64 {
	if m.experiment.Data.Level.Scheme().Images {
		return 1
	}
	return external.ScoredWords
}

// client measures a training.client_command, or the trainer of training.engine: pytorch. It does not score their
// models.
func (m *measured) client(ctx context.Context) (*forecast.Speed, error) {
	program, err := compile.Trainer(m.experiment)
	if err != nil {
		return nil, err
	}
	setting := clientprograms.Setting{Program: *program, Words: append(text.Specials(), m.words()...), Terms: m.terms(), Archive: m.code(program.Code)}
	examples := lists.Make(m.examples(), m.example)
	native := m.experiment.Training.Engine == experiment.PyTorchEngine
	var text func(i int) clientprograms.Pair
	if !native {
		text = func(i int) clientprograms.Pair {
			return clientprograms.Pair{Context: m.tokens(i, 1), Continuation: m.tokens(i+1, external.ScoredWords)}
		}
	}
	pace, err := clients.Measure(ctx, setting, clients.Options{Terms: childprocess.Terms{AnswerSeconds: maxMeasuring.Seconds()}, Write: m.writable}, examples, m.users(), text)
	if err != nil {
		return nil, err
	}
	s := &forecast.Speed{Begin: pace.Begin, Train: forecast.Pace{Token: pace.Fit / m.sub.TokensPerUser[m.cell]}}
	if !native {
		s.Score, s.Network = forecast.Pace{Token: pace.Text / m.scored()}, pace.Network
	}
	return s, nil
}

// example returns a synthetic text or image.
func (m *measured) example(i int) []int32 {
	if shape := m.experiment.Data.Shape(); shape != (images.Shape{}) {
		return images.Sentence(i%shape.Classes, contracts.Image(shape.Pixels(), shape.Classes, i))
	}
	content := append([]int32{text.Begin}, m.tokens(i, external.Spread(i, m.length(), m.most()))...)
	return append(content, text.End)
}

func (m *measured) tokens(i, n int) []int32 {
	return lists.Map(contracts.Numbers(i, n, m.experiment.Data.OrdinaryTokens()), func(number int) int32 { return text.FirstWord + int32(number) })
}
