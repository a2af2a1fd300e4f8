package forecast

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"coalmine/internal/readable"
)

// WriteTable writes a line for each training at each scale, the lines for all trainings together, and an
// explanation of the numbers.
func (a *PrivacyAnswer) WriteTable(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "training\tscale\tprotected\tcohort\tnoise\trounds\tdelta\tepsilon proved\tby\tpapers' convention")
	for i := range a.Trainings {
		c := &a.Trainings[i]
		for j := range c.Scales {
			name := ""
			if j == 0 {
				name = fmt.Sprintf("%s (%s)", a.name(c.Run, c.Cell), c.Label)
			}
			writeCost(t, name, &c.Scales[j])
		}
	}
	for i, c := range a.Together {
		name := ""
		if i == 0 {
			name = fmt.Sprintf("all %d together", c.Trainings)
		}
		fmt.Fprintf(t, "%s\t%d\t\t\t\t\t%.3g\t%s\t%s\t%s\n", name, c.Scale, c.Delta, c.EpsilonProved, c.AccountantProved, marked(c.Epsilon.String(), c.PapersRefuted))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteByte('\n')
	a.writeNotes(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCost(w io.Writer, name string, c *PrivacyCost) {
	protected := readable.Count(c.Population, c.Unit)
	if c.OfUsers > c.Population {
		protected = fmt.Sprintf("%d of %s", c.Population, readable.Count(c.OfUsers, c.Unit))
	}
	h, convention := c.Headline(0), "-"
	if h.Convention != nil {
		convention = marked(h.Convention.String(), h.Underestimates)
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%.4g\t%d\t%.3g\t%s\t%s\t%s\n",
		name, c.Scale, protected, c.Cohort, c.NoiseMultiplier, c.Rounds, c.Delta, h.Proved, c.AccountantProved, convention)
}

// marked returns the epsilon of the papers' convention, with a mark if it underestimates.
func marked(convention string, underestimates bool) string {
	if underestimates {
		return convention + " underestimates"
	}
	return convention
}

// name returns the name of a cell, with its run if there are several.
func (a *PrivacyAnswer) name(run, cell string) string {
	if slices.ContainsFunc(a.Trainings, func(c PrivacyCosts) bool { return c.Run != a.Trainings[0].Run }) {
		return run + "/" + cell
	}
	return cell
}

func (a *PrivacyAnswer) writeNotes(b *strings.Builder) {
	for _, note := range a.Notes {
		fmt.Fprintf(b, "- %s\n", note)
	}
	if len(a.Together) > 0 && a.Together[0].TheoremProved != "" {
		fmt.Fprintf(b, "- together, proved by: %s\n", a.Together[0].TheoremProved)
	}
	if a.NotTogether != "" {
		fmt.Fprintf(b, "- not composed: %s\n", a.NotTogether)
	}
	for _, l := range a.Unbounded {
		fmt.Fprintf(b, "- left out: %s (%s): %s\n", a.name(l.Run, l.Cell), l.Label, l.Why)
	}
	for _, fact := range a.facts() {
		fmt.Fprintf(b, "- %s\n", fact)
	}
}

// facts returns the distinct assumptions of the epsilons, in the order of the trainings.
func (a *PrivacyAnswer) facts() []string {
	var facts []string
	add := func(more ...string) {
		for _, fact := range more {
			if !slices.Contains(facts, fact) {
				facts = append(facts, fact)
			}
		}
	}
	for i := range a.Trainings {
		r := &a.Trainings[i].Scales[0].Report
		add(fmt.Sprintf("protected: a %s (%s), %s, %s conversion", r.Unit, r.Neighbouring, r.Sampling.Phrase(), r.Conversion))
		if validity := r.Validity(); validity != "" {
			add("as trained, " + validity)
		}
	}
	for i := range a.Trainings {
		r := &a.Trainings[i].Scales[0].Report
		add(r.Assumptions...)
		add("not covered: " + strings.Join(r.NotCovered, ", "))
	}
	return facts
}
