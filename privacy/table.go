package privacy

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"text/tabwriter"

	"coalmine/internal/readable"
)

// WriteTable prints the reports of a sweep, one per line, then their common assumptions, unit and
// exclusions. reports is not empty; all reports have the same recipe except for its rounds.
func WriteTable(w io.Writer, reports []Report) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	convention, withLoss := !reports[0].proved(), reports[0].LossDistribution != nil
	header := "rounds\tepsilon proved\tby\tRényi\torder\t"
	if withLoss {
		header += "loss distribution\t"
	}
	if convention {
		header += "papers' convention\torder\t"
	}
	fmt.Fprintln(table, header)
	for _, r := range reports {
		h := r.Headline(0)
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t", r.Rounds, h.Proved, cmp.Or(r.AccountantProved, "-"), r.EpsilonRenyi, formatOrder(r.OrderProved))
		if withLoss {
			fmt.Fprintf(table, "%s to %s\t", r.LossDistribution.Lower, r.LossDistribution.Upper)
		}
		if convention {
			fmt.Fprintf(table, "%s\t%s\t", r.Epsilon, formatOrder(r.Order))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	writeFacts(&text, reports[0])
	for _, r := range reports {
		if r.Group != nil {
			writeFact(&text, "group", "%s", r.groupText())
		}
	}
	for _, r := range reports {
		if r.Headline(0).Underestimates {
			writeFact(&text, "underestimates", "the papers' convention, %s after %d %s: for %s some data have %s at least",
				r.Epsilon, r.Rounds, inTermsOf(r.Unit, []string{"{round}s"})[0], r.Neighbouring, r.LossDistribution.Lower)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func writeFact(b *strings.Builder, name, format string, args ...any) {
	fmt.Fprintf(b, "%-17s %s\n", name, fmt.Sprintf(format, args...))
}

// groupText describes the joint cost of several members.
func (r *Report) groupText() string {
	g := r.Group
	group := fmt.Sprintf("of %s together after %s, where one has %s", readable.Count(g.Members, r.Unit), readable.Count(r.Rounds, inTermsOf(r.Unit, []string{"{round}"})[0]), r.EpsilonProved)
	if g.Theorem == "" {
		return fmt.Sprintf("epsilon %s: nothing is proved %s", g.EpsilonProved, group)
	}
	return fmt.Sprintf("epsilon %s proved %s: %s", g.EpsilonProved, group, g.Theorem)
}

// orLess is the suffix of a number at the lower limit of a search.
func orLess(ended bool) string {
	if !ended {
		return ""
	}
	return " or less stays within the target: the search ends here"
}

func formatOrder(order float64) string {
	if order == 0 {
		return "-"
	}
	return fmt.Sprintf("%g", order)
}

func writeFacts(b *strings.Builder, r Report) {
	fact := func(name, format string, args ...any) { writeFact(b, name, format, args...) }
	b.WriteByte('\n')
	if r.RoundsAtLeast {
		fact("rounds", "at least 2^%d stay within the target, where the search ends", bits.TrailingZeros(uint(r.Rounds)))
	}
	fact("delta", "%g%s", r.Delta, orLess(r.DeltaAtMost))
	if warning := r.DeltaWarning(); warning != "" {
		fact("WARNING", "%s", warning)
	}
	fact("noise multiplier", "%g%s", r.NoiseMultiplier, orLess(r.NoiseAtMost))
	if warning := r.NoiseWarning(); warning != "" {
		fact("WARNING", "%s", warning)
	}
	if r.UpdateNoise > 0 {
		fact("noise on updates", "%.6g, the rest being on the count of adaptive clipping", r.UpdateNoise)
	}
	if r.proved() {
		fact("sigma", "%g for all epsilons, relative to the sensitivity", r.Sigma)
	} else {
		fact("sigma", "%g for what is proved, %g for the papers' convention, relative to the sensitivity", r.SigmaProved, r.Sigma)
	}
	if r.Sampling == NoSampling {
		fact("sampling", "%s: no credit for the choice of %d of %d a round", r.Sampling, r.Cohort, r.Population)
	} else {
		fact("sampling", "%s, %d of %d a round (rate %.3g)", r.Sampling, r.Cohort, r.Population, r.SamplingRate)
	}
	fact("neighbouring", "%s", r.Neighbouring)
	fact("conversion", "%s", r.Conversion)
	if r.Rho > 0 {
		fact("rho", "%s after %d rounds, zero-concentrated (Bun and Steinke 2016)", r.Rho, r.Rounds)
	}
	if r.Mu > 0 {
		fact("mu", "%s after %d rounds, Gaussian privacy (Dong, Roth and Su 2019); neither rho nor mu is lowered by sampling", r.Mu, r.Rounds)
	}
	if r.TheoremProved != "" {
		fact("proved by", "%s", r.TheoremProved)
	}
	fact("Rényi", "%s", r.Accountant)
	if l := r.LossDistribution; l != nil {
		fact("loss distribution", "%s", l.Accountant)
	}
	fact("unit", "%s", r.Unit)
	if validity := r.Validity(); validity != "" {
		fact("validity", "%s", validity)
	}
	fact("not covered", "%s", strings.Join(r.NotCovered, ", "))
	for i, assumption := range r.Assumptions {
		name := ""
		if i == 0 {
			name = "assumptions"
		}
		fact(name, "%s", assumption)
	}
}
