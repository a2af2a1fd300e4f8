package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/forecast"
)

const powerHelp = `Show the probability that each audit of an experiment finds a leak, before it runs.

A statement of an audit, such as "the lower bound of the AUC is above 0.5", has a model of the leak
that it looks for: canaries that are memorized with a probability, a true epsilon, an AUC.
docs/method/power.md states each model. Power is the probability of a finding if the leak
exists; each limit of audit.fail_if is a separate statement. The table has a line for each
number that power depends on: the power with a quarter, a half, twice and four times that
number, the smallest number found with a power of 80%, and the time of such a run on this
machine. With several seeds, one of them suffices for a finding. The line above the table
says which number the audit's result exceeds with a probability of 80%.

--effect sets the size of a leak by the name of its statement: --effect one_run=4.
--time=false leaves out the time. json and csv have a row for each point.`

// powerFlags holds the flags of the command.
type powerFlags struct {
	submitFlags
	effects          []string
	format           string
	time, byPrograms bool
}

var powerFormats = []string{"table", "json", "csv"}

func newPowerCommand(g *global) *cobra.Command {
	var f powerFlags
	c := &cobra.Command{
		Use:     "power FILE",
		Short:   "Show the probability that the audits of an experiment find a leak",
		Long:    powerHelp,
		Example: "  coalmine power examples/membership.yaml\n  coalmine power experiment.yaml --effect \"membership auc=0.55\" --effect one_run=4\n  coalmine power experiment.yaml --format csv > power.csv",
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(powerFormats, f.format) {
				return fmt.Errorf("--format %q: expected %s", f.format, strings.Join(powerFormats, ", "))
			}
			if g.json {
				f.format = "json"
			}
			leaks, err := leaksOf(f.effects)
			if err != nil {
				return err
			}
			return g.power(c.Context(), &f, args[0], leaks)
		},
	}
	c.Flags().StringArrayVar(&f.effects, "effect", nil, "size of a leak, by the name of the statement: --effect one_run=4 (repeatable)")
	c.Flags().StringVar(&f.format, "format", powerFormats[0], strings.Join(powerFormats, ", "))
	c.Flags().BoolVar(&f.time, "time", true, "predict the time of a run that is large enough")
	c.Flags().BoolVar(&f.byPrograms, "programs", true, "measure the programs of the experiment on synthetic data; without it their time is unknown")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(powerFormats, cobra.ShellCompDirectiveNoFileComp))
	f.add(c.Flags(), false)
	return c
}

// leaksOf parses NAME=SIZE.
func leaksOf(effects []string) (map[string]float64, error) {
	leaks := map[string]float64{}
	for _, effect := range effects {
		name, size, _ := strings.Cut(effect, "=")
		leak, err := strconv.ParseFloat(size, 64)
		if err != nil {
			return nil, fmt.Errorf("--effect %q: expected the name of a statement and the size of its leak, such as one_run=4", effect)
		}
		leaks[name] = leak
	}
	return leaks, nil
}

type powers struct {
	Powers []forecast.Power `json:"powers"`
	// Powerless are the audits without a power.
	Powerless []experiment.Powerless `json:"powerless,omitempty"`
	// Seconds is the time of the unchanged run without cached results; null if unknown.
	Seconds *float64 `json:"seconds"`
}

func (g *global) power(ctx context.Context, f *powerFlags, file string, leaks map[string]float64) error {
	path, text, err := g.readExperiment(file)
	if err != nil {
		return err
	}
	sub, err := f.prepareText(ctx, g, path, text)
	if err != nil {
		return err
	}
	p := powers{Powerless: sub.Spec.Powerless()}
	if p.Powers, err = forecast.Powers(sub.Spec, leaks); err != nil {
		return fmt.Errorf("--effect: %w", err)
	}
	table := f.format == powerFormats[0]
	if table {
		g.powerless(&p)
	}
	if f.time && !(table && len(p.Powers) == 0) {
		t := timing{g: g, flags: f, path: path, text: text, known: map[string]*float64{}}
		if err := t.times(ctx, sub, &p); err != nil {
			return err
		}
	}
	switch f.format {
	case "json":
		return g.printJSON(p)
	case "csv":
		return g.powerCSV(p.Powers)
	}
	return g.powerTable(&p)
}

// timing predicts the time of an experiment with other sizes.
type timing struct {
	g     *global
	flags *powerFlags
	path  string
	text  []byte
	speed machineSpeed
	known map[string]*float64
}

// times predicts the time of the experiment, and of its sufficiently large variants.
func (t *timing) times(ctx context.Context, sub *submission.Submission, p *powers) (err error) {
	t.speed = measureSpeed()
	if p.Seconds, err = t.of(ctx, sub); err != nil {
		return err
	}
	for i := range p.Powers {
		for j := range p.Powers[i].By {
			if v := &p.Powers[i].By[j]; v.Enough != nil && *v.Enough > v.N {
				if err := t.larger(ctx, v, p.Seconds); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// larger predicts the time with a sufficient number. If the data determine the number, it scales the
// time in proportion.
func (t *timing) larger(ctx context.Context, v *forecast.Varied, now *float64) (err error) {
	if v.Value == nil {
		if now != nil {
			v.Seconds = new(*now * float64(*v.Enough) / float64(v.N))
		}
		return nil
	}
	set := fmt.Sprintf("%s=%d", v.Path, *v.Value)
	if known, there := t.known[set]; there {
		v.Seconds = known
		return nil
	}
	options := experiment.Options{Sets: append(slices.Clone(t.flags.sets), set), MaxCells: t.flags.maxCells}
	key := submissionKey{global: t.g}
	sub, err := submission.PrepareFile(ctx, t.path, t.text, options, t.g.finder(filepath.Dir(t.path)), key.fingerprint)
	if err != nil {
		v.Refused = firstAndLast(err.Error())
		return ctx.Err()
	}
	v.Seconds, err = t.of(ctx, sub)
	t.known[set] = v.Seconds
	return err
}

// of predicts the time of an experiment without cached results; nil if unknown.
func (t *timing) of(ctx context.Context, sub *submission.Submission) (*float64, error) {
	return timeUncached(ctx, sub, t.g.programs(ctx, sub, t.flags.byPrograms), t.speed)
}

// powerless prints the audits without power, before anything is measured.
func (g *global) powerless(p *powers) {
	for _, audit := range p.Powerless {
		g.printf("%s: no power: it reports %s\n", audit.Audit, audit.Reports)
	}
	if len(p.Powers) == 0 {
		g.printf("no audit of the experiment has a statement whose power can be computed before it runs (results have that of a program's audit.neighbours)\n")
	}
}

func (g *global) powerTable(p *powers) error {
	for i := range p.Powers {
		s := &p.Powers[i]
		if i > 0 || len(p.Powerless) > 0 {
			g.printf("\n")
		}
		g.printf("%s: %s if %s %.4g: power %s%s (cells: %d)\n", s.Title(), s.Finds, s.Leak.Means, s.Leak.Value, readable.Percent(s.Power), reached(s), len(s.Cells))
		if s.None != "" {
			g.printf("  no power: %s\n", s.None)
		}
		t := tabwriter.NewWriter(g.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "  by\tpower\t%s from\ttime\n", readable.Percent(forecast.Enough))
		for j := range s.By {
			v := &s.By[j]
			points := lists.Map(v.Points, func(p forecast.Point) string { return fmt.Sprintf("%d: %s", p.N, readable.Percent(p.Power)) })
			enough, time := enoughText(v)
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", v.Unit, strings.Join(points, ", "), enough, time)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if p.Seconds != nil {
		g.printf("\nthe unchanged experiment takes about %s on this machine, with nothing cached\n", roughly(*p.Seconds))
	}
	return nil
}

func reached(s *forecast.Power) string {
	if s.Reaches == nil {
		return ""
	}
	return fmt.Sprintf("; the result is above %.3g with a probability of %s", *s.Reaches, readable.Percent(forecast.Enough))
}

func enoughText(v *forecast.Varied) (enough, time string) {
	switch {
	case v.Enough == nil:
		return fmt.Sprintf("none up to %d", v.Most), "-"
	case v.Refused != "":
		return fmt.Sprint(*v.Enough), "refused: " + v.Refused
	case v.Seconds == nil:
		return fmt.Sprint(*v.Enough), "-"
	}
	return fmt.Sprint(*v.Enough), "about " + roughly(*v.Seconds)
}

func (g *global) powerCSV(list []forecast.Power) error {
	w := csv.NewWriter(g.data)
	rows := [][]string{{"audit", "statement", "cells", "finds", "leak", "leak_size", "by", "number", "power", "enough", "seconds"}}
	for _, s := range list {
		for _, v := range s.By {
			enough, seconds := "", ""
			if v.Enough != nil {
				enough = strconv.Itoa(*v.Enough)
			}
			if v.Seconds != nil {
				seconds = strconv.FormatFloat(*v.Seconds, 'g', 4, 64)
			}
			for _, point := range v.Points {
				rows = append(rows, []string{
					s.Audit, s.Statement, strings.Join(s.Cells, " "), s.Finds, s.Leak.Name, strconv.FormatFloat(s.Leak.Value, 'g', -1, 64),
					v.Unit, strconv.Itoa(point.N), strconv.FormatFloat(point.Power, 'g', -1, 64), enough, seconds,
				})
			}
		}
	}
	return w.WriteAll(rows)
}

// writePower prints a line with the power of each statement, as a range if it differs between cells, and
// the audits without power.
func (g *global) writePower(list []forecast.Power, powerless []experiment.Powerless) {
	var names []string
	least, most := map[string]float64{}, map[string]float64{}
	for i := range list {
		p := &list[i]
		title := p.Title()
		if p.Gate != "" {
			title = "gate " + p.Gate // a gate may be named as its audit is
		}
		name := fmt.Sprintf("%s (%s %.3g)", title, p.Leak.Name, p.Leak.Value)
		if _, known := least[name]; !known {
			names = append(names, name)
			least[name], most[name] = p.Power, p.Power
		}
		least[name], most[name] = min(least[name], p.Power), max(most[name], p.Power)
	}
	for i, name := range names {
		text := readable.Percent(least[name])
		if most[name] > least[name] {
			text += " to " + readable.Percent(most[name]) + " over the cells"
		}
		names[i] += " " + text
	}
	for _, audit := range powerless {
		names = append(names, audit.Audit+" none (no interval, no test)")
	}
	if len(names) > 0 {
		g.printf("power to find a leak: %s; for its size: coalmine power\n", strings.Join(names, ", "))
	}
}
