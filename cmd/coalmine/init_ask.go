package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"coalmine/tasks/datasets/source"
	"coalmine/workflows/standalone/starter"
)

// talks reports whether the user can answer questions at a terminal.
func (g *global) talks() bool {
	_, watched := g.terminal()
	return watched && term.IsTerminal(int(os.Stdin.Fd()))
}

// changed returns the names of the flags on the command line.
func changed(s *pflag.FlagSet) (names []string) {
	s.Visit(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// answers asks questions, one per line.
type answers struct {
	from *bufio.Scanner
	to   io.Writer
}

// ask returns the answer, or the default if it is empty.
func (a *answers) ask(question, usual string) string {
	fmt.Fprintf(a.to, "%s [%s]: ", question, usual)
	if !a.from.Scan() {
		return usual
	}
	return cmp.Or(strings.TrimSpace(a.from.Text()), usual)
}

// ask sets the flags by the answers to questions; it repeats a question if a flag rejects the
// answer.
func (f *initFlags) ask() {
	for _, q := range []struct{ flag, question, usual string }{
		{"data", "texts: a file or a directory; Enter selects the included speeches", exampleData},
		{"algorithm", "training: sgd (central) or fedavg (federated)", "sgd"},
		{"private", "compare with differential privacy", "no"},
		{"time", "maximum time of a run", "2m"},
	} {
		value := map[string]string{"no": "false", "n": "false", "yes": "true", "y": "true"}
		for {
			answer := f.answers.ask(q.question, q.usual)
			err := f.set.Set(q.flag, cmp.Or(value[answer], answer))
			if err == nil {
				break
			}
			fmt.Fprintf(f.answers.to, "%v\n", explainValue(err))
		}
	}
}

// none is the answer if no column names the user.
const none = "none"

// askColumns asks for the columns of the text and the user.
func (f *initFlags) askColumns(d *starter.Data) source.Origin {
	o, user := d.Origin, cmp.Or(d.Origin.Columns.User, "user")
	if d.Alone {
		user = none
	}
	fmt.Fprintf(f.answers.to, "columns: %s\n", strings.Join(d.Choices, ", "))
	o.Columns.Text = f.answers.ask("column of the text", cmp.Or(o.Columns.Text, "text"))
	o.Columns.User = f.answers.ask("column of the user, or none", user)
	if o.Columns.User == none {
		o.Columns.User = o.Columns.Text // each text is a user
	}
	return o
}
