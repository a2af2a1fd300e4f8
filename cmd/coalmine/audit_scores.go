package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/workflows/standalone/canaryfiles"
	"coalmine/workflows/standalone/modelaudit"
)

// scoresFlags holds the flags of an audit of scores without a model.
type scoresFlags struct {
	scores, initial string
	plain           bool
}

func (s *scoresFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.scores, "scores", "", `scores of all lines of --canaries, instead of MODEL: {"id": "canary-0", "log_probability": -12.5, "greedy": false} per line, or samples of lm_eval`)
	f.StringVar(&s.initial, "initial-scores", "", "scores: scores of the same lines by the untrained model, for coins")
	f.BoolVar(&s.plain, "plain-loss", false, "scores: guess coins from the trained model alone, if this was decided before the training")
}

// ofScores are the flags that apply to an audit of scores.
var ofScores = []string{"canaries", "scores", "initial-scores", "plain-loss", "json"}

// auditScores audits a file of scores without a model.
func (a *auditFlags) auditScores(c *cobra.Command, g *global) error {
	if flag := otherFlag(c, ofScores); flag != "" {
		return fmt.Errorf("--%s with --scores, which queries no model: remove it", flag)
	}
	if a.scored.plain && a.scored.initial != "" {
		return errors.New("--plain-loss and --initial-scores: expected the one that was chosen before the training")
	}
	report, err := a.scored.audit(a.canaries)
	if err != nil {
		return err
	}
	return g.show(report, func() error { return g.writeScored(report) })
}

func (s *scoresFlags) audit(canaries string) (*canaryfiles.Report, error) {
	file, err := readFlag("canaries", canaries, "coalmine canaries export writes it", canaryfiles.Read)
	if err != nil {
		return nil, err
	}
	scores, err := readFlag("scores", s.scores, "", canaryfiles.ReadScores)
	if err != nil {
		return nil, err
	}
	options := canaryfiles.Options{PlainLoss: s.plain}
	if s.initial != "" {
		if options.Initial, err = readFlag("initial-scores", s.initial, "", canaryfiles.ReadScores); err != nil {
			return nil, err
		}
	}
	report, err := canaryfiles.Audit(file, scores, options)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", canaries, s.scores, err)
	}
	return report, nil
}

// writeScored prints a line for each canary, and the overall result.
func (g *global) writeScored(r *canaryfiles.Report) error {
	table := tabwriter.NewWriter(g.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "canary\trank\texposure\tgreedy\tsamples\ttext")
	for _, list := range [][]canaryfiles.Measured{r.Canaries, r.Controls} {
		for _, m := range list {
			c := &modelaudit.Canary{Ranked: m.CanaryOutcome, Written: modelaudit.Written{Queries: m.Queries, Greedy: m.Greedy}}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, rankText(c), exposureText(c), foundText(c.Greedy), samplesText(c), m.Text)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Of > 0 {
		g.printf("%d of %d canaries have rank 1; ranked among %s: %s\n", r.Memorized, r.Of, basisTexts[r.Basis], r.Why)
	}
	if r.MannWhitneyP != nil {
		g.printf("inserted and held-back canaries differ with p = %.3g (Mann-Whitney)\n", *r.MannWhitneyP)
	}
	if v := r.OneRun; v != nil {
		g.printf("one-run: epsilon >= %.3g with %g%% confidence at delta %g (%s, %s); %d of %d guesses right, score %s\n",
			v.EpsilonLower, 100*v.Confidence, v.Delta, v.Unit, v.Neighbouring, v.Correct, v.KPlus+v.KMinus, v.Score)
	}
	if r.NoOneRun != "" {
		g.printf("one-run: none; %s (--initial-scores, --plain-loss)\n", r.NoOneRun)
	}
	return nil
}

var basisTexts = map[canaryfiles.Basis]string{
	canaryfiles.References: "references", canaryfiles.Controls: "held-back canaries", canaryfiles.Nothing: "nothing",
}
