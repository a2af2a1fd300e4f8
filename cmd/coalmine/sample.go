package main

import (
	"bytes"
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/tasks/audits/models/samples"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/standalone/modelaudit"
)

const sampleHelp = `Draw samples from the model of a cell and print one per line: words separated by spaces,
or the text of a model of bytes with escaped unprintable bytes. <unk> is a word out of
vocabulary. Equal flags print equal samples; with the seed, length, temperature and top-k
of audit.samples, the samples are those of the audit.

--json adds the natural logarithm of each sample's joint probability under the model, at
temperature 1 and after the prefix, and whether the sample was cut before its end.

A GAN generates images: --sheet writes them side by side to one PNG file, by default
RUN-CELL.png, and --output writes one PNG file each to a directory. With the seed of the
experiment they are the first --count images of audit.generated_images.

For an unfinished training the model is the newest stored one.`

// sampleFlags holds the flags of the command.
type sampleFlags struct {
	modelaudit.SampleOptions
	round int
	// sheet is the file for a grid of all images, in columns; output is the directory for single images.
	sheet, output string
	columns       int
}

func newSampleCommand(g *global) *cobra.Command {
	flags := sampleFlags{round: control.NewestRound}
	c := &cobra.Command{
		Use:   "sample RUN CELL",
		Short: "Print samples of a cell's model; of a gan, write images",
		Long:  sampleHelp,
		Example: "  coalmine sample quickstart c01\n  coalmine sample quickstart c01 --count 5 --prefix \"the people of\" --temperature 0.7 --top-k 40\n" +
			"  coalmine sample augenstein c01 --sheet sheet.png\n  coalmine sample augenstein c01 --count 1000 -o images",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkRound(c, flags.round); err != nil {
				return err
			}
			return g.withControl(c.Context(), func(api control.API) error {
				file, err := api.Model(c.Context(), args[0], args[1], flags.round)
				if err != nil {
					return err
				}
				if flags.round == control.NewestRound {
					g.noteUnfinishedModel(c.Context(), api, args[1], file)
				}
				generator, ok, err := modelaudit.OpenGenerator(file)
				if err != nil {
					return notOurs(c.Context(), api, args, err, "draw samples with that program; coalmine export writes its file")
				}
				if ok {
					return g.sampleImages(c, generator, &flags, args[0]+"-"+args[1])
				}
				return g.sampleText(c, file, &flags)
			})
		},
	}
	flags.add(c.Flags())
	return c
}

// noteUnfinishedModel names the round of a cell's newest model if the cell's training has not reached its end.
func (g *global) noteUnfinishedModel(ctx context.Context, api control.API, cell string, file []byte) {
	run, round := control.ExportedRound(file)
	if round == "" {
		return
	}
	s, err := api.Status(ctx, run)
	if err != nil {
		return
	}
	for _, c := range s.Cells {
		if c.Cell == cell && c.Phase != runs.Done && round != strconv.Itoa(c.Steps) {
			g.note("run %s, cell %s (%s): the samples are from the model after %s %s of %d", run, cell, c.Phase, c.Unit, round, c.Steps)
		}
	}
}

func (s *sampleFlags) add(f *pflag.FlagSet) {
	f.IntVar(&s.Count, "count", 20, "samples to draw")
	f.Lookup("count").DefValue = "20, of images 36"
	f.IntVar(&s.Length, "length", 0, "maximum number of words (model of bytes: bytes) of a sample, its end included")
	f.Lookup("length").DefValue = "21, of bytes 101"
	f.Float64Var(&s.Temperature, "temperature", 1, "divisor of the logits")
	f.IntVar(&s.TopK, "top-k", 0, "number of most probable tokens to draw from; 0 for all")
	f.Uint64Var(&s.Seed, "seed", 1, "seed of the samples")
	f.StringVar(&s.Prefix, "prefix", "", "text that every sample begins with")
	f.IntVar(&s.round, "round", s.round, "round (sgd: step) of the model; 0 is the initial model")
	f.Lookup("round").DefValue = "the newest stored"
	f.StringVar(&s.sheet, "sheet", "", "for a GAN: PNG file with all images side by side")
	f.IntVar(&s.columns, "columns", 6, "for a GAN: columns of the sheet")
	f.StringVarP(&s.output, "output", "o", "", "for a GAN: directory of the images, separate PNG files")
}

// sampleText prints samples of a language model as they are drawn; JSON output waits for all.
func (g *global) sampleText(c *cobra.Command, file []byte, flags *sampleFlags) error {
	if err := refuseFlags(c.Flags(), []string{"sheet", "columns", "output"}, "--%s applies to models that generate images; remove it"); err != nil {
		return err
	}
	model, err := modelaudit.OpenModel(bytes.NewReader(file))
	if err != nil {
		return err
	}
	var all []samples.Text
	err = modelaudit.Sample(c.Context(), model, flags.SampleOptions, func(text samples.Text) error {
		if g.json {
			all = append(all, text)
		} else {
			g.printf("%s\n", text.Text)
		}
		return nil
	})
	if err != nil || !g.json {
		return err
	}
	return g.printJSON(all)
}
