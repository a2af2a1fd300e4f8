package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/readable"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/standalone/modelaudit"
)

// membershipFlags holds the flags of an audit of members.
type membershipFlags struct {
	members, nonMembers string
	sequence            int
	// prefixUsers and neighbourTexts configure attacks that also score other texts.
	prefixUsers, neighbourTexts int
}

func (m *membershipFlags) add(f *pflag.FlagSet) {
	f.StringVar(&m.members, "members", "", `texts that the model was trained on: {"user": "17", "text": "..."} or a text per line`)
	f.StringVar(&m.nonMembers, "nonmembers", "", "texts of the same kind that it was not trained on")
	f.IntVar(&m.sequence, "sequence", 0, "members: maximum number of words or bytes of a text, as data.sequence of the training")
	f.IntVar(&m.prefixUsers, "prefix-users", 0, "members: number of first non-members whose texts prefix a second scoring of all other texts (ReCaLL); 0: no such attack")
	f.IntVar(&m.neighbourTexts, "neighbour-texts", 0, "members: number of copies of each text, with some words replaced, to score; 0: no such attack")
	f.Lookup("sequence").DefValue = "20, of bytes 100"
}

// checkAsked rejects flags that need --members.
func (a *auditFlags) checkAsked(c *cobra.Command) error {
	if a.controls != "" && (a.canaries == "" || a.References == 0) {
		return errors.New("--controls needs random sampling: expected --canaries, and --references above 0")
	}
	if a.belong.members != "" {
		return nil
	}
	return refuseFlags(c.Flags(), []string{"sequence", "prefix-users", "neighbour-texts"}, "--%s applies to --members and --nonmembers only; remove it")
}

// askedOf holds the canaries, the members, or both, that the model is asked to score.
type askedOf struct {
	canaries []modelaudit.Line
	members  *modelaudit.Membership
}

func (a *auditFlags) asked() (*askedOf, error) {
	asked := new(askedOf)
	var err error
	if a.canaries != "" {
		if asked.canaries, err = readFlag("canaries", a.canaries, "write one canary per line into it", modelaudit.ReadCanaries); err != nil {
			return nil, err
		}
	}
	if a.controls != "" {
		controls, err := readFlag("controls", a.controls, "write one control per line into it", modelaudit.ReadCanaries)
		if err != nil {
			return nil, err
		}
		for _, line := range controls {
			line.Control = true
			asked.canaries = append(asked.canaries, line)
		}
	}
	if a.belong.members == "" {
		return asked, nil
	}
	asked.members = &modelaudit.Membership{Sequence: a.belong.sequence, PrefixUsers: a.belong.prefixUsers, NeighbourTexts: a.belong.neighbourTexts, Seed: a.Seed}
	if asked.members.Members, err = readFlag("members", a.belong.members, "", modelaudit.ReadOwners); err != nil {
		return nil, err
	}
	asked.members.NonMembers, err = readFlag("nonmembers", a.belong.nonMembers, "", modelaudit.ReadOwners)
	return asked, err
}

// audited is a model under audit.
type audited interface {
	Run(context.Context, []modelaudit.Line, modelaudit.Options) (*modelaudit.Report, error)
	Membership(context.Context, modelaudit.Membership) (*modelaudit.MembershipReport, error)
}

func (a *askedOf) audit(ctx context.Context, model audited, o modelaudit.Options) (*modelaudit.Report, error) {
	report := &modelaudit.Report{Canaries: []modelaudit.Canary{}}
	var err error
	if a.canaries != nil {
		if report, err = model.Run(ctx, a.canaries, o); err != nil {
			return nil, err
		}
	}
	if a.members != nil {
		report.Membership, err = model.Membership(ctx, *a.members)
	}
	return report, err
}

// openCell opens a model file or, with two arguments, the model of a run's cell.
func openCell(ctx context.Context, g *global, args []string) (model *modelaudit.Model, err error) {
	if len(args) == 1 {
		if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
			return modelaudit.OpenFolder(args[0])
		}
		model, err = opened(args[0], modelaudit.OpenModel)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; to audit the model of a run, name its cell too: coalmine audit %s CELL", err, args[0])
		}
		return model, err
	}
	err = g.withControl(ctx, func(api control.API) error {
		file, err := api.Model(ctx, args[0], args[1], control.LastRound)
		if err != nil {
			return err
		}
		if model, err = modelaudit.OpenModel(bytes.NewReader(file)); err != nil {
			return notOurs(ctx, api, args, err, "export the file, and give a --command that scores texts with it")
		}
		return nil
	})
	return model, err
}

// notOurs returns the error for a cell with an unreadable model. If a program trained the model, the error
// proposes the alternative instead.
func notOurs(ctx context.Context, api control.API, cell []string, err error, instead string) error {
	spec, unknown := api.Experiment(ctx, cell[0])
	if unknown == nil && slices.ContainsFunc(spec.Cells, func(c experiment.Cell) bool {
		return c.Name == cell[1] && c.Experiment.Training.Algorithm == experiment.External
	}) {
		return fmt.Errorf("run %s, cell %s: a program trained the model (training.command) and wrote it in its own format, which Coalmine cannot read: %s", cell[0], cell[1], instead)
	}
	return fmt.Errorf("run %s, cell %s: %w", cell[0], cell[1], err)
}

func (g *global) writeMembership(r *modelaudit.MembershipReport) {
	if r == nil {
		return
	}
	g.printf("%s\n", strings.ReplaceAll(r.Note(nil), "user", strings.TrimSuffix(r.By, "s")))
	if n := r.SharedTexts; n > 0 {
		g.printf("members share %s with non-members: the model was trained on these texts, which weakens the evidence\n", readable.Count(n, "text"))
	}
}
