package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// newSteerCommands returns the commands that affect an existing run.
func newSteerCommands(g *global) []*cobra.Command {
	return []*cobra.Command{
		newPhaseCommand(g, "pause", "Pause a run: running tasks end, no others begin", runs.PauseEntry),
		newPhaseCommand(g, "resume", "Resume a paused or cancelled run, or a done run whose outputs are missing", runs.ResumeEntry),
		newPhaseCommand(g, "cancel", "Cancel a run; its finished tasks stay in the store", runs.CancelEntry),
		newRetryCommand(g),
		newPriorityCommand(g),
		newPinCommand(g, "pin", "Keep a run, or some of its cells, from retention and removal", true),
		newPinCommand(g, "unpin", "Unpin a run, or some of its cells", false),
		newNoteCommand(g),
		newTagCommand(g),
		newRemoveCommand(g),
		newDrainCommand(g),
	}
}

func newPhaseCommand(g *global, use, short string, kind runs.Kind) *cobra.Command {
	return &cobra.Command{
		Use: use + " [RUN]", Short: short, Example: "  coalmine " + use + " quickstart",
		RunE: g.steers(func([]string) runs.Entry { return runs.Entry{Kind: kind} }),
	}
}

// steers returns the function of a command that appends an entry to the log of a run, its first argument.
func (g *global) steers(entry func(args []string) runs.Entry) func(*cobra.Command, []string) error {
	return g.onRuns(func(ctx context.Context, api control.API, args []string) error {
		return g.steer(ctx, api, runArgument(args), entry(args))
	})
}

func (g *global) steer(ctx context.Context, api control.API, run string, e runs.Entry) error {
	id, err := api.Steer(ctx, run, e)
	if err != nil {
		return err
	}
	return g.report(map[string]string{"run": id, "command": string(e.Kind), "at": g.where()}, "%s: %s (%s)\n", id, commandText(e), g.where())
}

const retryHelp = `Retry the failed nodes of a run and the nodes that depend on them. --node selects nodes
by their names in "coalmine status RUN" or by prefixes of their keys.

The run keeps the fields, data and code (training.code) of its submission. If the code
has changed since, the command reports it; "coalmine run FILE" submits the changed code as
another run, which reuses the results that do not depend on it.

A finished run recomputes its missing outputs, for instance after a backup without
commits/ or blobs/ was restored. If none is missing, the command fails.`

func newRetryCommand(g *global) *cobra.Command {
	var nodes []string
	c := &cobra.Command{
		Use:     "retry [RUN]",
		Short:   "Retry failed tasks of a run",
		Long:    retryHelp,
		Example: "  coalmine retry quickstart\n  coalmine retry quickstart --node 3fa2c1 --node 'random sampling at 400'",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			run, e := runArgument(args), runs.Entry{Kind: runs.RetryEntry}
			if len(nodes) > 0 {
				status, err := api.Status(ctx, run)
				if err != nil {
					return err
				}
				run = status.Run
				if e.Keys, err = failedNodes(status, nodes); err != nil {
					return err
				}
			}
			return g.retry(ctx, api, run, e)
		}),
	}
	c.Flags().StringArrayVar(&nodes, "node", nil, "name of a failed node, or a prefix of its key; repeatable; default all")
	return c
}

// retry steers a run, and prints the code that it runs.
func (g *global) retry(ctx context.Context, api control.API, run string, e runs.Entry) error {
	if err := g.steer(ctx, api, run, e); err != nil {
		return err
	}
	spec, err := api.Experiment(ctx, run)
	if err != nil {
		return nil //nolint:nilerr // the retry succeeded: an unreadable part only lacks a note
	}
	said := map[string]bool{}
	for i := range spec.Cells {
		t := &spec.Cells[i].Experiment.Training
		if t.Code != "" && !said[t.Code] {
			said[t.Code] = true
			g.note("%s", retriedCode(ctx, t))
		}
	}
	return nil
}

// retriedCode compares the code of a recorded training with its local directory.
func retriedCode(ctx context.Context, t *experiment.Training) string {
	recorded := fmt.Sprintf("it runs the code of %s as submitted", t.Code)
	now, err := sources.LocalFinder{}.Pack(ctx, t.Code, "", func(file string) bool { return t.CodeRoles.Omits(t.TrainedBy(), file) })
	switch {
	case err != nil:
		return recorded + "; for other code: coalmine run FILE"
	case now.Digests()[0].String() == t.CodeSHA256:
		return recorded + ", which has not changed"
	}
	return recorded + ", which has changed since; to run the changed code: coalmine run FILE"
}

// failedNodes finds failed nodes of a run by labels or unique prefixes of keys.
func failedNodes(s *status.Run, names []string) ([]storage.Key, error) {
	var keys []storage.Key
	for _, name := range names {
		found := lists.Filter(s.Failures, func(f status.Failure) bool {
			return f.Label == name || name != "" && strings.HasPrefix(f.Key.String(), strings.ToLower(name))
		})
		switch len(found) {
		case 1:
			keys = append(keys, found[0].Key)
		case 0:
			return nil, fmt.Errorf("--node %q: no failed node of run %s has that name or key prefix%s", name, s.Run, listedNodes(s.Failures))
		default:
			return nil, fmt.Errorf("--node %q matches several failed nodes of run %s: use their keys%s", name, s.Run, listedNodes(found))
		}
	}
	return keys, nil
}

// listedNodes returns "; they are:" with a line for each failed node.
func listedNodes(failures []status.Failure) string {
	if len(failures) == 0 {
		return "; none has failed"
	}
	text := "; they are:"
	for _, f := range failures {
		text += fmt.Sprintf("\n  %s  %s (cells %s)", f.Key.Short(), f.Label, strings.Join(f.Cells, ", "))
	}
	return text
}

func newPriorityCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "priority RUN NUMBER",
		Short:   "Set the priority of a run; higher runs first",
		Example: "  coalmine priority quickstart 10\n  coalmine priority -- quickstart -5",
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("priority %q: expected a whole number", args[1])
			}
			return g.steers(func([]string) runs.Entry { return runs.Entry{Kind: runs.Prioritized, Priority: n} })(c, args)
		},
	}
}

// commandText describes the effect of a command on a run.
func commandText(e runs.Entry) string {
	text := string(e.Kind)
	if e.Kind == runs.PinEntry && !e.Pinned {
		text = "unpinned"
	}
	if len(e.Cells) > 0 {
		text += " " + strings.Join(e.Cells, ", ")
	}
	return text
}

const pinHelp = `A pinned run cannot be removed (rm). It keeps every checkpoint at a multiple of
training.checkpoints.every; an unpinned run keeps the newest training.checkpoints.keep of
them, the audited rounds and the last round. With cells (c01, ...) only those keep all
their checkpoints, and the run still cannot be removed.

The storage of a pinned run grows with its training. "coalmine unpin" or pin --remove
ends the pin; the next "coalmine gc" deletes the checkpoints.`

func newPinCommand(g *global, use, short string, pins bool) *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use: use + " RUN [CELL...]", Short: short, Long: short + ".\n\n" + pinHelp,
		Example: "  coalmine pin quickstart c03\n  coalmine unpin quickstart",
		RunE: g.steers(func(args []string) runs.Entry {
			return runs.Entry{Kind: runs.PinEntry, Pinned: pins && !remove, Cells: args[1:]}
		}),
	}
	if pins {
		c.Flags().BoolVar(&remove, "remove", false, "end the pin, like unpin")
	}
	return c
}

func newNoteCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "note RUN [TEXT]",
		Short:   "Set the note of a run; no text removes it",
		Example: "  coalmine note quickstart 'learning rate too high, see the next one'",
		RunE: g.steers(func(args []string) runs.Entry {
			return runs.Entry{Kind: runs.NoteEntry, Note: strings.Join(args[1:], "")}
		}),
	}
}

func newTagCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "tag RUN [TAG...]",
		Short:   "Set the tags of a run; no tag removes them",
		Example: "  coalmine tag quickstart paper table-1\n  coalmine status --json | jq -r '.runs[] | select(.tags // [] | index(\"paper\")) | .run'",
		RunE:    g.steers(func(args []string) runs.Entry { return runs.Entry{Kind: runs.TagEntry, Tags: args[1:]} }),
	}
}

const removeHelp = `Remove the record of a run: its submission, its events and the logs of its attempts.
Cancel an unfinished run first, and unpin a pinned one. The command prints the home, store
or server of the run, and the size of the models and results that the next "coalmine gc"
deletes because no other run needs them. Until then, submitting the same experiment again
restores the run from the cache.`

func newRemoveCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "rm RUN...", Short: "Remove the record of finished runs", Long: removeHelp, Example: "  coalmine rm quickstart && coalmine gc",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			var removed []*control.Removed
			for _, run := range args {
				r, err := api.Remove(ctx, run)
				if err != nil {
					return err
				}
				removed = append(removed, r)
				if !g.json {
					g.writeRemoved(r)
				}
			}
			if g.json {
				return g.printJSON(map[string]any{"removed": removed, "at": g.where()})
			}
			return nil
		}),
	}
}

func (g *global) writeRemoved(r *control.Removed) {
	total := r.Freed.Total()
	total.Objects += r.Freed.Young.Objects
	total.Bytes += r.Freed.Young.Bytes
	g.printf("%s: removed from %s; gc can free %s in %s", r.Run, g.where(), bytesText(float64(total.Bytes)), readable.Count(total.Objects, "object"))
	if young := r.Freed.Young; young.Objects > 0 {
		g.printf(", of which %s in objects younger than its --older", bytesText(float64(young.Bytes)))
	}
	g.printf("\n")
	for _, h := range r.Freed.Held {
		g.note("gc keeps every commit, blob and source because of run %s: %s", h.Run, h.Reason)
	}
}

const drainHelp = `Ask workers of a cluster to take no more tasks. A draining worker finishes its tasks,
without a time limit, and exits with status 0. WORKER is an id or a prefix of one, as in
"coalmine status RUN", or the name of a host for all its workers.`

func newDrainCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "drain WORKER...", Short: "Make workers finish their tasks and exit", Long: drainHelp, Example: "  coalmine drain node7",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			var all []string
			for _, name := range args {
				ids, err := api.Drain(ctx, name)
				if err != nil {
					return err
				}
				all = append(all, ids...)
			}
			return g.show(map[string]any{"draining": all, "at": g.where()}, func() error {
				for _, id := range all {
					g.printf("%s: draining (%s)\n", id, g.where())
				}
				return nil
			})
		}),
	}
}
