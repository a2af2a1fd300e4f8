package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/contracts"
	"coalmine/internal/lists"
	"coalmine/internal/score"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/external"
	"coalmine/workflows/standalone/modelaudit"
)

// findingsHelp describes the output of the checks of a program.
const findingsHelp = `(docs/contracts/%s.md), and print a line for each check: pass; fail, with the
violated sentence; doubt, for behavior that may be correct or unavoidable for some models;
skip, if there is nothing to check.%s

Exit status: 0 no rule is violated; 1 a rule is violated.`

func newContractCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:     "contract",
		Short:   "Check an external program against its contract",
		Example: `  coalmine contract check score --command "python3 scorer.py"`,
	}
	check := &cobra.Command{
		Use:     "check",
		Short:   "Check a program; a failed check names the rule of the contract",
		Example: c.Example,
	}
	check.AddCommand(newContractScoreCommand(g), newContractTrainCommand(g), newContractClientCommand(g))
	c.AddCommand(check)
	return c
}

// checked is the result of a check: the report for JSON and, for people, its findings and the
// program's answer to describe.
type checked struct {
	report   any
	findings []contracts.Finding
	itself   string
}

// contractCheck is a command that checks programs against a contract.
type contractCheck struct {
	contract string
	does     string // verb phrase for the work of the programs
	more     string // end of the help
	example  string // flags
	program  *commandFlags
	timeout  time.Duration // default of --timeout
	allows   string        // help of --timeout after "timeout of"
	run      func(context.Context) (checked, error)
}

func (g *global) newContractCheck(k contractCheck) *cobra.Command {
	short := fmt.Sprintf("Check a program that %s by the contract %q", k.does, k.contract)
	c := &cobra.Command{
		Use:     k.contract,
		Short:   short,
		Long:    short + "\n" + fmt.Sprintf(findingsHelp, k.contract, k.more),
		Example: "  coalmine contract check " + k.contract + " " + k.example,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.program.complete(); err != nil {
				return err
			}
			found, err := k.run(c.Context())
			if err != nil {
				return err
			}
			return g.writeConformance(&found)
		},
	}
	k.program.add(c.Flags(), "command line of the program, such as \"python3 program.py\"", "")
	c.Flags().DurationVar(&k.program.timeout, "timeout", k.timeout, "timeout of "+k.allows)
	if err := c.MarkFlagRequired("command"); err != nil {
		panic(err)
	}
	return c
}

// answerAllows is contractCheck.allows for programs that answer requests.
const answerAllows = "a request, and of the program's start"

func newContractScoreCommand(g *global) *cobra.Command {
	var flags commandFlags
	var texts string
	var images imageShape
	c := g.newContractCheck(contractCheck{
		contract: "score", does: "scores texts, or classifies images,", example: `--command "python3 scorer.py" --texts sentences.txt`,
		program: &flags, timeout: time.Minute, allows: answerAllows,
		run: func(ctx context.Context) (checked, error) {
			report, err := checkScorer(ctx, flags.options(), images.Shape, texts)
			if err != nil {
				return checked{}, err
			}
			return checked{report, report.Findings, describeScorer(report.Command)}, nil
		},
	})
	c.Flags().StringVar(&texts, "texts", "", "text file with sentences to score, one per line; by default some English ones")
	images.add(c.Flags(), "classify images")
	c.MarkFlagsMutuallyExclusive("texts", "images")
	return c
}

// jsonObject parses the value of a flag that is a JSON object.
func jsonObject(flag, text, example string) (json.RawMessage, error) {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) != nil || object == nil {
		return nil, fmt.Errorf("--%s %s: expected a JSON object, such as %s", flag, text, example)
	}
	return json.RawMessage(text), nil
}

// checkScorer checks a program that classifies images of a shape, or scores the texts of a file.
func checkScorer(ctx context.Context, o score.Options, m images.Shape, texts string) (*score.Report, error) {
	if m != (images.Shape{}) {
		return score.CheckImages(ctx, o, external.ShapeOf(m), m.Classes)
	}
	about, err := checkedTexts(texts)
	if err != nil {
		return nil, err
	}
	return score.Check(ctx, o, about)
}

// imageShape is a flag for the shape of the images in a check; zero means texts.
type imageShape struct{ images.Shape }

var _ pflag.Value = (*imageShape)(nil)

func (s *imageShape) add(flags *pflag.FlagSet, does string) {
	flags.Var(s, "images", "check that it can "+does+" of this shape (synthetic): width x height x channels x classes, such as 28x28x1x10")
}

// Type implements pflag.Value.
func (*imageShape) Type() string { return "shape" }

// String implements pflag.Value.
func (s *imageShape) String() string {
	if s.Shape == (images.Shape{}) {
		return ""
	}
	return fmt.Sprintf("%dx%dx%dx%d", s.Width, s.Height, s.Channels, s.Classes)
}

// Set implements pflag.Value.
func (s *imageShape) Set(text string) error {
	var m images.Shape
	var rest string
	n, _ := fmt.Sscanf(text+" .", "%dx%dx%dx%d %s", &m.Width, &m.Height, &m.Channels, &m.Classes, &rest)
	if n != 5 || rest != "." {
		return errors.New("expected width x height x channels x classes, such as 28x28x1x10")
	}
	s.Shape = m
	return m.Check()
}

// checkedTexts returns the texts of a file, or the built-in ones.
func checkedTexts(path string) ([]string, error) {
	if path == "" {
		return score.DefaultTexts, nil
	}
	lines, err := readFlag("texts", path, "", modelaudit.ReadCanaries)
	if err != nil {
		return nil, err
	}
	texts := lists.Map(lines, func(line modelaudit.Line) string { return line.Text })
	if err := score.CheckTexts(texts); err != nil {
		return nil, fmt.Errorf("--texts: %s: %w", path, err)
	}
	return texts, nil
}

// writeConformance prints a report as JSON, or a line for each finding and the program's
// description.
func (g *global) writeConformance(c *checked) error {
	broken := contracts.CountFailed(c.findings)
	if g.json {
		if err := g.printJSON(c.report); err != nil {
			return err
		}
	} else {
		for _, f := range c.findings {
			g.printf("%-5s  %s\n", f.Status, f.Check)
			if f.Message != "" {
				g.printf("       %s\n", f.Message)
			}
			if f.Status == contracts.Failed {
				g.printf("       rule %d: %s\n", f.Rule, f.Sentence)
			}
		}
		g.printf("%s%d of %d checks failed\n", c.itself, broken, len(c.findings))
	}
	if broken > 0 {
		return &exitError{code: exitCellFailed}
	}
	return nil
}

// describeScorer describes a program that scores texts.
func describeScorer(d *score.Description) string {
	if d == nil {
		return ""
	}
	longest := "unbounded"
	if d.LongestInput > 0 {
		longest = fmt.Sprintf("%d tokens", d.LongestInput)
	}
	return fmt.Sprintf("model %s, longest input %s, methods %q\n", d.Model, longest, d.Methods)
}
