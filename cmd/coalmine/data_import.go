package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/internal/kernels"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/open"
	"coalmine/tasks/datasets/source"
	"coalmine/workflows/control"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs/datadir"
)

func newImportCommand(g *global) *cobra.Command {
	var look inspecting
	var name string
	c := &cobra.Command{
		Use:   "import SOURCE",
		Short: "Check a source and upload it to the store",
		Long: `Check a source, upload the files that the store lacks, and print data.sha256 of
the source.

` + sourceHelp + `

With --name the command also parses the source into shards that all workers share, and
experiments refer to it as store:NAME. An experiment with the same data.form, columns,
splits, level and limits reuses the shards, so no worker parses the files again. A name
belongs to one source, and "coalmine gc" keeps it until data remove. --name requires
--store, or --home for a directory.`,
		Example: "  coalmine data import texts.jsonl.zst --store s3://coalmine/runs\n" +
			"  coalmine data import dump/ --name history-meta",
		RunE: func(c *cobra.Command, args []string) error {
			if err := look.complete(c.Flags()); err != nil {
				return err
			}
			return g.importSource(c.Context(), args[0], name, &look)
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the source in the store; experiments refer to it as store:NAME")
	look.addReading(c.Flags())
	return c
}

// importSource reads a source into the store, under a name if one is given.
func (g *global) importSource(ctx context.Context, from, name string, look *inspecting) error {
	source, err := g.finder("").Find(ctx, from, "")
	if err != nil {
		return err
	}
	facts, err := source.Survey(ctx, look.limits, look.read())
	if err != nil {
		return err
	}
	look.Rules = facts[0].Rules
	if skipped := facts[0].Source.Skipped; skipped != nil {
		g.note("%v", skipped)
	}
	if name != "" {
		return g.nameSource(ctx, from, name, source, look)
	}
	return g.withControl(ctx, func(api control.API) error {
		if err := source.Upload(ctx, api); err != nil {
			return err
		}
		return g.printImported(from, source)
	})
}

func (g *global) nameSource(ctx context.Context, from, name string, src *sources.Source, look *inspecting) error {
	archive, err := g.storeHere(ctx)
	if err != nil {
		return err
	}
	if look.Reading.SplitByFile() {
		look.Files = source.FileSplits(src.Splits())
	}
	e := sources.Entry{
		Name: name, SHA256: experiment.SourceDigest(src.Digests()), Files: src.Digests(), Splits: src.Splits(),
		Reading: look.Reading, Limits: look.limits.Shortest(),
	}
	importer := sources.Importer{Archive: archive, Version: version(), Kernels: kernels.Set()}
	if err := importer.Add(ctx, src, &e); err != nil {
		return err
	}
	if g.json {
		return g.printJSON(e)
	}
	if err := g.printImported(from, src); err != nil {
		return err
	}
	g.note("experiments refer to it as %s%s", sources.StorePrefix, name)
	return nil
}

// storeHere returns the store of a cluster or, without one, of the home. Several processes may use
// either.
func (g *global) storeHere(ctx context.Context) (*storage.Archive, error) {
	p, err := g.places.place()
	switch {
	case err != nil:
		return nil, err
	case p.server != "":
		return nil, fmt.Errorf("names of sources are in the store, but this command uses %s: give --store instead of --server", p)
	case p.clustered():
		return g.openStore(ctx, p)
	}
	if err := dir.Make(p.home, 0o700); err != nil {
		return nil, fmt.Errorf("home %s: %w", p.home, err)
	}
	store, err := open.Dir(datadir.StorePath(p.home))
	if err != nil {
		return nil, err
	}
	return g.archive(store), nil
}

// library returns the named sources of the store, for reading. For a home it needs no write permission.
func (g *global) library(ctx context.Context) (*sources.Library, error) {
	p, err := g.places.place()
	if err != nil {
		return nil, err
	}
	if p.home != "" {
		if err := p.homeExists(); err != nil {
			return nil, err
		}
		store, err := dir.OpenReadOnly(datadir.StorePath(p.home))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			return &sources.Library{Archive: g.archive(store)}, nil
		}
	}
	archive, err := g.storeHere(ctx)
	if err != nil {
		return nil, err
	}
	return &sources.Library{Archive: archive}, nil
}

func (g *global) printImported(name string, src *sources.Source) error {
	digest := experiment.SourceDigest(src.Digests())
	return g.report(map[string]any{"source": name, "sha256": digest, "files": listed(src)}, "%s\n", digest)
}

func newDataListCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the named sources of the store",
		Long:    "List the sources that data import has named, with their content and settings of reading.",
		Example: "  coalmine data list --store s3://coalmine/runs",
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := g.library(c.Context())
			if err != nil {
				return err
			}
			entries, err := all.Entries(c.Context())
			if err != nil {
				return err
			}
			return g.show(map[string]any{"sources": entries}, func() error { return writeEntries(g.stdout, entries) })
		},
	}
}

func writeEntries(w io.Writer, entries []sources.Entry) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "source\tsha256\tfiles\tusers\texamples\twords\tread as")
	for _, e := range entries {
		fmt.Fprintf(t, "%s%s\t%s\t%d\t%d\t%d\t%d\t%s\n", sources.StorePrefix, e.Name, e.SHA256.Short(), len(e.Files), e.Holds.Users, e.Holds.Examples, e.Holds.Words, readAs(e.Reading))
	}
	return t.Flush()
}

// readAs describes in a few words how a source was read.
func readAs(r source.Reading) string {
	words := []string{string(r.Complete().Level)}
	if r.Form != "" {
		words = append(words, string(r.Form))
	}
	if r.Split != "" {
		words = append(words, "split "+r.Split)
	}
	return strings.Join(words, ", ")
}

func newDataRemoveCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove the name of a source from the store",
		Long: `Remove the name of a source from the store. The imported data stay while a run needs them;
otherwise the next "coalmine gc" deletes them.`,
		Example: "  coalmine data remove history-meta && coalmine gc",
		RunE: func(c *cobra.Command, args []string) error {
			name := strings.TrimPrefix(args[0], sources.StorePrefix)
			all, err := g.library(c.Context())
			if err != nil {
				return err
			}
			if _, err := all.Find(c.Context(), name); err != nil && !errors.Is(err, storage.ErrCorrupt) {
				return err
			}
			archive, err := g.storeHere(c.Context())
			if err != nil {
				return err
			}
			if err := archive.DeleteEntry(c.Context(), name); err != nil {
				return err
			}
			return g.report(map[string]string{"removed": name, "at": g.where()}, "%s%s: removed from %s\n", sources.StorePrefix, name, g.where())
		},
	}
}
