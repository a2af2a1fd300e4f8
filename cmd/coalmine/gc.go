package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/runs/retention"
)

const gcHelp = `Delete objects that no existing run needs: commits and blobs of removed runs, expired
checkpoints, leftovers of lost attempts, logs, and sources. "coalmine rm" removes runs.
If this build cannot read a run whose plan is not recorded, gc names the run and the
reason, and deletes no commit, blob or source while that run exists.

gc deletes only old objects: by default older than the task timeout plus an hour, so that
a running attempt or submission keeps its recent objects. --older 0s is safe if nothing
runs. Otherwise running attempts may lose stored objects and repeat their work; results
are not affected. Sources stay for an hour in any case. "coalmine serve --gc-every 24h"
collects once a day.

Only the leading coordinator deletes: the owner of a home, or the process at --server. If
none leads, this command leads while it deletes. Redis records the leader, so --redis must
name the cluster's Redis; with another one this command leads at the same time as the
coordinator, which notices within half a minute and pauses for a minute, without loss of
results. A terminal shows the progress. gc may be interrupted at any time.`

func newCollectCommand(g *global) *cobra.Command {
	var o control.CollectOptions
	var older age
	c := &cobra.Command{
		Use:     "gc",
		Short:   "Delete results that no run needs",
		Long:    gcHelp,
		Example: "  coalmine gc --dry-run\n  coalmine gc --server https://coalmine.example:8080",
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("older") {
				seconds := time.Duration(older).Seconds()
				o.OlderThan = &seconds
			}
			return g.withControl(c.Context(), func(api control.API) error {
				progress, end := g.showDeletion()
				o.Progress = progress
				collected, err := api.Collect(c.Context(), o)
				end()
				if err != nil {
					return err
				}
				if g.json {
					return g.printJSON(struct {
						*retention.Result
						At string `json:"at"`
					}{collected, g.where()})
				}
				g.printf("%s:\n", g.where())
				if err := writeCollection(g.stdout, collected); err != nil || collected.Young.Objects == 0 {
					return err
				}
				g.note("a later gc deletes the younger objects; if nothing runs, --older 0s deletes them now")
				return nil
			})
		},
	}
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "list the objects to delete, without deleting them")
	c.Flags().Var(&older, "older", "minimum age of deleted objects, such as 12h or 30d; by default the task timeout plus an hour")
	return c
}

// showDeletion shows the progress of a collection on a terminal. Elsewhere it prints nothing: the
// outcome suffices.
func (g *global) showDeletion() (progress func(deleted, total int), end func()) {
	f, ok := g.terminal()
	if !ok {
		return nil, func() {}
	}
	display := mpb.New(mpb.WithOutput(f), mpb.WithWidth(30), mpb.WithRefreshRate(200*time.Millisecond))
	var label atomic.Value
	label.Store("looking for unused objects ")
	bar := display.AddBar(0, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(labelOf(&label))), mpb.AppendDecorators(decor.CountersNoUnit("%d/%d objects")))
	progress = func(deleted, total int) {
		label.Store("deleting ")
		bar.SetTotal(int64(total), false)
		bar.SetCurrent(int64(deleted))
	}
	return progress, func() {
		bar.Abort(true)
		display.Wait()
	}
}

func writeCollection(w io.Writer, c *retention.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(label string, a retention.Amount) {
		fmt.Fprintf(t, "%s\t%d\t%s\t\n", label, a.Objects, bytesText(float64(a.Bytes)))
	}
	verb := "deleted"
	if c.DryRun {
		verb = "would go"
	}
	fmt.Fprintf(t, "%s\tOBJECTS\tBYTES\t\n", verb)
	for _, kind := range []storage.ObjectKind{storage.CommitObject, storage.BlobObject, storage.LogObject, storage.RecordObject, storage.SourceObject} {
		if a := c.Collected[kind]; a != nil {
			line(string(kind), *a)
		}
	}
	line("in all", c.Total())
	line("not needed, younger than --older", c.Young)
	line(fmt.Sprintf("needed by runs (%d)", c.Runs), c.Kept)
	if err := t.Flush(); err != nil {
		return err
	}
	return writeHeld(w, c.Held)
}

// writeHeld lists the runs that keep everything from deletion.
func writeHeld(w io.Writer, held []retention.Held) error {
	if len(held) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\nNo commit, blob or source is deleted, because the objects these runs need are unknown:\n"); err != nil {
		return err
	}
	for _, h := range held {
		if _, err := fmt.Fprintf(w, "%s: %s (if you do not need it: coalmine rm %s)\n", h.Run, h.Reason, h.Run); err != nil {
			return err
		}
	}
	return nil
}
