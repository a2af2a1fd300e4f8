package experiment

import (
	"fmt"

	"coalmine/privacy/onerun"
)

// oneRun checks that the audit is the experiment that its theorem is about, and
// that it can find anything.
func (c *checker) oneRun() {
	o := c.Audit.OneRun
	if o == nil {
		return
	}
	const path = "audit.one_run"
	if o.Canaries == 0 {
		c.fail([]string{path + ".canaries"}, "missing; expected how many canaries are drawn for this audit alone, such as 1000, each in a user of its own by a fair coin: those of the canaries block are inserted by user_probability, and cannot serve")
		return
	}
	guesses := []string{path + ".guesses", path + ".canaries"}
	if k := o.Guesses.KPlus + o.Guesses.KMinus; k > o.Canaries || k == 0 {
		c.fail(guesses, "are %d (k_plus %d, k_minus %d); expected from 1 to %d, the canaries of the audit", k, o.Guesses.KPlus, o.Guesses.KMinus, o.Canaries)
		return
	}
	c.oneRunRoom()
	if p := c.Training.Privacy; p != nil && p.NoiseMultiplier > 0 && p.Delta > 0 && o.Delta != p.Delta {
		c.fail([]string{path + ".delta", "training.privacy.delta"}, "is %g, and training.privacy.delta is %g; the two bounds can be compared only at the same delta: remove it here", o.Delta, p.Delta)
		return
	}
	c.oneRunPower(guesses)
}

// oneRunRoom checks that there are so many canaries, and none too long.
func (c *checker) oneRunRoom() {
	const path = "audit.one_run"
	o, space := c.Audit.OneRun, c.OneRunSpace()
	over := fmt.Sprintf("words over a vocabulary of %d", c.Data.Ordinary())
	if space.Alphabet != "" {
		over = fmt.Sprintf("symbols over the alphabet %s", space.Alphabet)
	}
	if room := space.Sequences(c.Data.Ordinary(), 0); float64(2*o.Canaries) > room {
		c.fail([]string{path + ".canaries", path + ".words", "data.vocabulary.size", "canaries.alphabet"},
			"is %d; expected at most half of the %.0f sequences of %d %s", o.Canaries, room, o.Words, over)
	}
	if longest := c.Data.Reading().Sequence; o.Words > longest {
		c.fail([]string{path + ".words", "data.sequence"}, "is %d; expected at most data.sequence, %d", o.Words, longest)
	}
}

// oneRunPower refuses an audit whose bound is 0 however well it guesses.
func (c *checker) oneRunPower(guesses []string) {
	o := c.Audit.OneRun
	k := o.Guesses.KPlus + o.Guesses.KMinus
	best, err := onerun.LowerBound(onerun.Outcome{Units: o.Canaries, Guesses: k, Correct: k}, o.Delta, o.Confidence.Float64())
	if err != nil || best.Epsilon > 0 {
		return
	}
	c.fail(append(guesses, "audit.one_run.confidence", "audit.one_run.delta"),
		"are %d, and were all of them right, no epsilon above 0 would be certified with %s confidence at delta %g; make more guesses, or use more canaries", k, o.Confidence, o.Delta)
}
