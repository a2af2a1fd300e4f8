package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/kernels"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/workers/clients"
	"coalmine/workflows/control"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/runs"
)

const verifyHelp = `Run a random sample of a run's committed nodes again on this machine, and compare the
digests of the outputs with the stored ones. Inputs come from the store; evicted inputs
are recomputed, for a training from the nearest earlier checkpoint, so verifying one
step can take as long as much of its training. The command writes nothing.

--seed draws the sample from the nodes that are committed at the start, so the same
command on a finished run verifies the same nodes. Commits of another processor
architecture are counted but not compared, because bytes are equal only between the kernel
sets of one architecture.

The command reads the store itself (--home or --store). Exit status 1 reports a node that
differs, is damaged or cannot be executed, or that there is nothing to compare.`

type verifyFlags struct {
	sample, parallel int
	seed             uint64
	all              bool
}

func newVerifyCommand(g *global) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:     "verify [RUN]",
		Short:   "Run a sample of a run's tasks again and compare digests",
		Long:    verifyHelp,
		Example: "  coalmine verify quickstart --sample 20\n  coalmine verify quickstart --all --json",
		RunE: func(c *cobra.Command, args []string) error {
			return g.verify(c.Context(), runArgument(args), f)
		},
	}
	c.Flags().IntVar(&f.sample, "sample", 10, "number of nodes")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the draw")
	c.Flags().BoolVar(&f.all, "all", false, "verify all committed nodes")
	c.Flags().IntVar(&f.parallel, "parallel", 0, "number of concurrent nodes; 0 means one per core")
	mayWrite(c.Flags(), &g.writable)
	return c
}

// verified is the output of verify --json.
type verified struct {
	Run        string                    `json:"run"`
	Seed       uint64                    `json:"seed"`
	Candidates int                       `json:"candidates"`
	Counts     map[localexec.Verdict]int `json:"counts"`
	Nodes      []localexec.Node          `json:"nodes"`
}

func (g *global) verify(ctx context.Context, name string, f verifyFlags) error {
	p, err := g.places.place()
	if err != nil {
		return err
	}
	if p.server != "" {
		return fmt.Errorf("verify reads the store itself, but %s is given: expected --store, or --home for a home", p)
	}
	if f.sample < 1 || f.parallel < 0 {
		return fmt.Errorf("--sample %d, --parallel %d: expected at least 1 and at least 0", f.sample, f.parallel)
	}
	if !p.clustered() {
		if err := p.homeExists(); err != nil {
			return err
		}
	}
	archive, done, err := g.planArchive(ctx, p)
	if err != nil {
		return err
	}
	out, err := g.verifyRun(ctx, archive, name, f)
	if ctx.Err() != nil {
		err = &exitError{exitInterrupted, errors.New("interrupted; nothing was written, and the same command starts over")}
	}
	if err = errors.Join(err, done()); err != nil {
		return err
	}
	return g.concludeVerification(out)
}

func (g *global) verifyRun(ctx context.Context, archive *storage.Archive, name string, f verifyFlags) (*verified, error) {
	status, err := control.New(archive, nil, nil).Status(ctx, name)
	if err != nil {
		return nil, err
	}
	run, err := runs.NewService(archive, nil).Get(ctx, status.Run)
	if err != nil {
		return nil, err
	}
	p, err := runs.PlanOf(ctx, archive, run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	v, err := g.newVerifier(archive, p, f)
	if err != nil {
		return nil, err
	}
	candidates, err := v.Candidates(ctx)
	if err != nil {
		return nil, err
	}
	programs := clients.NewPool(clients.Options{Write: g.writable})
	defer programs.Close()
	v.Clients, v.Write = programs, g.writable
	nodes := candidates
	if !f.all {
		nodes = localexec.Sample(candidates, f.sample, f.seed)
	}
	if len(nodes) == 0 {
		return nil, &exitError{exitCellFailed, fmt.Errorf("run %s is %s, but none of its nodes is committed in %s: there is nothing to verify; if the run is done, coalmine retry %s recomputes its missing outputs", run.ID, run.State.Phase, archive, run.ID)}
	}
	g.note("run %s: executing %d of %d committed nodes again", run.ID, len(nodes), len(candidates))
	out := &verified{Run: run.ID, Seed: f.seed, Candidates: len(candidates), Counts: map[localexec.Verdict]int{}}
	out.Nodes, err = v.Verify(ctx, nodes)
	for _, n := range out.Nodes {
		out.Counts[n.Verdict]++
	}
	return out, err
}

func (g *global) newVerifier(archive *storage.Archive, p *plan.Plan, f verifyFlags) (*localexec.Verifier, error) {
	keys, err := g.keysIfThere()
	if err != nil {
		return nil, err
	}
	v := &localexec.Verifier{
		Archive: archive, Plan: p, Kinds: compile.Registry(), Keys: keys, Parallel: f.parallel,
		Here: storage.Provenance{Arch: runtime.GOARCH, Kernels: kernels.Set()},
	}
	said := time.Now()
	v.Begin = func(label, of string) {
		if time.Since(said) >= linesEvery {
			said = time.Now()
			g.note("... %s, for %s", label, of)
		}
	}
	if !g.json {
		v.Done = g.writeVerdict
	}
	return v, nil
}

func (g *global) writeVerdict(n localexec.Node) {
	g.printf("%-12s %s %s, %s", n.Verdict, n.Key.Short(), n.Kind, n.Label)
	if n.Executed > 1 {
		g.printf(" (with %s replayed)", readable.Count(n.Executed-1, "task"))
	}
	g.printf("\n")
	if n.Why == "" {
		return
	}
	g.printf("             %s\n", n.Why)
	if c := n.Committed; c.Worker != "" {
		g.printf("             committed by attempt %s on %s, %s (%s kernels), coalmine %s, at %s\n",
			n.Attempt, c.Host, c.Arch, c.Kernels, c.Version, c.Started.Format(time.RFC3339))
	}
	if n.Verdict == localexec.Differs {
		host, _ := os.Hostname()
		g.printf("             executed again on %s, %s (%s kernels), coalmine %s\n", host, runtime.GOARCH, kernels.Set(), version())
	}
}

// concludeVerification prints a summary, and returns faults as an exit code.
func (g *global) concludeVerification(out *verified) error {
	faults := 0
	for verdict, n := range out.Counts {
		if verdict.Fault() {
			faults += n
		}
	}
	if g.json {
		if err := g.printJSON(out); err != nil {
			return err
		}
	} else {
		g.printf("%d of %d nodes are the same", out.Counts[localexec.Same], len(out.Nodes))
		for _, v := range []localexec.Verdict{localexec.Differs, localexec.Damaged, localexec.Failed, localexec.Incomparable, localexec.MayDiffer} {
			if n := out.Counts[v]; n > 0 {
				g.printf(", %d %s", n, v)
			}
		}
		g.printf("\n")
	}
	if faults > 0 {
		return &exitError{code: exitCellFailed}
	}
	if out.Counts[localexec.Incomparable] == len(out.Nodes) {
		return &exitError{exitCellFailed, fmt.Errorf("run %s: nothing was verified: all nodes of the sample were computed on another processor architecture; verify on such a machine", out.Run)}
	}
	return nil
}
