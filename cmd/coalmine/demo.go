package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/examples"
)

// demoFile is the embedded experiment of the demonstration.
const demoFile = "examples/demo.yaml"

const demoHelp = `Train four models on State of the Union addresses, with plain SGD, with clipped
gradients, and with DP-SGD without and with its noise, and count the canaries that each
memorizes. The demo takes less than a minute on two cores, and needs no file and no
network. Its run stays under --home, where a second demo finds it.

The binary contains the experiment, examples/demo.yaml. --set
grid.replicates=3 repeats it with three seeds.`

// demoMeaning explains the table, unless --set has changed the experiment.
const (
	demoMeaning = `
RS memorized counts canaries: random sequences, inserted 4, 8 or 16 times among
17,000 sentences, that the model finds more probable than 10,000 other random
ones. Clipping the gradient of each sentence does not keep the model from
memorizing them. DP-SGD memorizes none, but not because of its noise: it takes
larger cohorts and fewer steps, and learns less, as its perplexity shows. The noise
adds a proof: epsilon bounds the effect of any sentence, not only of these canaries.
`
)

// demoNext lists further commands; place holds the flags that name the demonstration's place, "" for the default.
func demoNext(place string) string {
	return fmt.Sprintf(`
Next:
  coalmine results latest --rows canaries%[1]s              # copies, rank and exposure
  coalmine results latest --format html -o demo.html%[1]s   # a report with figures
  coalmine run quickstart%[1]s                              # federated training, a minute
  coalmine init --data FILE%[2]s                            # an experiment with your own texts
`, place, strings.Repeat(" ", len(place)))
}

func newDemoCommand(g *global) *cobra.Command {
	var flags submitFlags
	c := &cobra.Command{
		Use:     "demo",
		Short:   "Show how memorization falls from plain to private training, in a minute",
		Long:    demoHelp,
		Example: "  coalmine demo\n  coalmine demo --set grid.replicates=3",
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := fs.ReadFile(examples.Root, demoFile)
			if err != nil {
				return err
			}
			sub, err := flags.prepareText(c.Context(), g, demoFile, text)
			if err != nil {
				return err
			}
			if err := g.runSubmission(c.Context(), &flags, sub); err != nil {
				return err
			}
			if len(flags.sets) == 0 && !g.json {
				g.printf("%s", demoMeaning)
			}
			if !g.json {
				g.printf("%s", demoNext(g.places.repeated()))
			}
			return nil
		},
	}
	flags.add(c.Flags(), true)
	flags.makesHome = true
	g.coordinates(c.Flags())
	g.works(c.Flags())
	return c
}
