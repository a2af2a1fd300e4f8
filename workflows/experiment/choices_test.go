package experiment

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/privacy/rdp"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

const choicesIntro = `# The words of an experiment file

The words that fields of an [experiment file](experiment-file.md) take, and their meanings.
` + "`go test ./workflows/experiment -rewrite`" + ` generates this page from entries of the code
([extending.md](extending.md)).
`

// choice is one section of the page.
type choice struct {
	fields string
	header []string
	rows   [][]string
}

// markdown is a table or, if only a source follows the meaning, a list.
func (c choice) markdown() string {
	var b strings.Builder
	if sourced := c.header[len(c.header)-1] == "source"; len(c.header) == 2 || len(c.header) == 3 && sourced {
		fmt.Fprintf(&b, "\n## %s\n\n%s:\n\n", c.fields, strings.ToUpper(c.header[1][:1])+c.header[1][1:])
		for _, row := range c.rows {
			fmt.Fprintf(&b, "- `%s`: %s", row[0], row[1])
			if len(row) == 3 && row[2] != "" {
				fmt.Fprintf(&b, " (%s)", row[2])
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	fmt.Fprintf(&b, "\n## %s\n\n|%s|\n%s|\n", c.fields, strings.Join(c.header, " |"), strings.Repeat("|---", len(c.header)))
	for _, row := range c.rows {
		fmt.Fprintf(&b, "|`%s` |%s|\n", row[0], strings.Join(row[1:], " |"))
	}
	return b.String()
}

func levelChoice() choice {
	c := choice{"`data.level`", []string{"word", "an example is read as", "vocabulary", "sentences are cut after"}, nil}
	for _, l := range text.Levels() {
		vocabulary := "the most frequent ones"
		if n := len(l.Symbols); n > 0 {
			vocabulary = fmt.Sprintf("all %d", n)
		} else if l.Subwords {
			vocabulary = "the tokenizer's"
		}
		cut := fmt.Sprintf("%d %s", l.Sequence, l.Unit)
		if l.Images {
			cut = "never: all examples have one length, by default " + cut
		}
		c.rows = append(c.rows, []string{string(l.Level), l.Summary, vocabulary, cut})
	}
	return c
}

func faultChoice() choice {
	c := choice{"`data.faults`, `fault`", []string{"word", "the fault", "levels"}, nil}
	for _, f := range faults.All() {
		c.rows = append(c.rows, []string{string(f.Fault), f.Summary, listed(f.Levels)})
	}
	return c
}

func patternChoice() choice {
	c := choice{"`data.sanitize.patterns`", []string{"word", "finds"}, nil}
	for _, f := range filters.Definitions() {
		c.rows = append(c.rows, []string{string(f.Pattern), f.Summary})
	}
	return c
}

func removalChoice() choice {
	c := choice{"`data.sanitize.remove`", []string{"word", "the remaining text"}, nil}
	for _, r := range filters.Removals() {
		c.rows = append(c.rows, []string{string(r.Removal), r.Summary})
	}
	return c
}

func partitionChoice() choice {
	c := choice{"`data.partition`", []string{"word", "the population", "a guarantee protects a", "with `users.words: 0` a", "source"}, nil}
	for _, p := range population.Partitions() {
		c.rows = append(c.rows, []string{string(p.Partition), p.Summary, p.Unit, p.WholeUnit, p.Source})
	}
	return c
}

func alphabetChoice() choice {
	c := choice{"`canaries.alphabet`", []string{"word", "symbols"}, nil}
	for _, a := range canaries.Alphabets() {
		c.rows = append(c.rows, []string{string(a.Alphabet), a.Summary})
	}
	return c
}

func modelChoice() choice {
	c := choice{"`model.kind`", []string{"word", "the network", "source"}, nil}
	for _, k := range models.CellKinds() {
		c.rows = append(c.rows, []string{string(k.Kind), k.Summary, k.Source})
	}
	for _, k := range models.ImageKinds() {
		c.rows = append(c.rows, []string{string(k.Kind), k.Summary, k.Source})
	}
	for _, k := range models.ReaderKinds() {
		c.rows = append(c.rows, []string{string(k.Kind), k.Summary, k.Source})
	}
	return c
}

func samplingChoice() choice {
	c := choice{"`training.sampling`", []string{"word", "a cohort is", "epsilon is proved for", "by"}, nil}
	for _, s := range privacy.Schemes() {
		if s.Drawn() {
			c.rows = append(c.rows, []string{string(s.Sampling), s.Summary, string(s.Neighbouring), s.Source})
		}
	}
	return c
}

func conversionChoice() choice {
	c := choice{"`training.privacy.conversion`", []string{"word", "epsilon at delta", "source"}, nil}
	for _, t := range rdp.Theorems() {
		c.rows = append(c.rows, []string{string(t.Conversion), t.Summary, t.Source})
	}
	return c
}

func mechanismChoice() choice {
	c := choice{"`training.privacy.mechanism.kind`", []string{"word", "the correlation of the noise over rounds", "source"}, nil}
	for _, s := range correlated.Sorts() {
		c.rows = append(c.rows, []string{string(s.Kind), s.Summary, s.Source})
	}
	return c
}

func optimizerChoice() choice {
	c := choice{"`training.client.optimizer`, `training.server.optimizer`", []string{"word", "the update rule", "parameters by default", "source"}, nil}
	for _, r := range optimizers.Rules() {
		c.rows = append(c.rows, []string{string(r.Kind), r.Summary, parameterText(r), r.Source})
	}
	return c
}

// parameterText lists a rule's parameters, those that no file states as fixed.
func parameterText(r optimizers.Rule) string {
	var all []string
	for _, p := range r.Parameters {
		text := p.Name + " " + strconv.FormatFloat(p.Value, 'g', -1, 64)
		if _, stated := lookup("training.client." + p.Name); !stated {
			text += " (fixed)"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func scheduleChoice() choice {
	c := choice{"`training.client.schedule.kind`, `training.server.schedule.kind`", []string{"word", "the learning rate", "source"}, nil}
	for _, s := range optimizers.Courses() {
		c.rows = append(c.rows, []string{string(s.Kind), s.Summary, s.Source})
	}
	return c
}

func TestThePageOfChoicesMatchesEntries(t *testing.T) {
	t.Parallel()
	page := choicesIntro
	for _, c := range []choice{
		levelChoice(), faultChoice(), partitionChoice(), patternChoice(), removalChoice(), alphabetChoice(), modelChoice(), samplingChoice(),
		optimizerChoice(), scheduleChoice(), conversionChoice(), mechanismChoice(),
	} {
		page += c.markdown()
	}
	taskstest.File(t, "../../docs/choices.md", []byte(page))
}
