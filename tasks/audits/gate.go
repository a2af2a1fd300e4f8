package audits

import (
	"fmt"
	"math"
)

// Gate is a limit on the lower ends of intervals over users. A number of too few users to be
// certainly above the limit, however well these are told, and that is not certainly below it, is
// not judged. Where no number can be, the cell does not pass.
type Gate struct {
	Limit float64

	breaches, tooFew []string
	judged           bool
}

// Factor judges how many times as well as by chance something is found: a number in [0, 1] over
// chance. Without chance nothing is said.
func (g *Gate) Factor(what string, users int, found Bounded, chance float64) {
	if chance > 0 {
		g.judge(fmt.Sprintf("%s is %.4g times chance", what, found.Value/chance), users, found, chance)
	}
}

// Number judges a number in [0, 1].
func (g *Gate) Number(what string, users int, found Bounded) {
	g.judge(fmt.Sprintf("%s is %.4g", what, found.Value), users, found, 1)
}

// judge compares a lower end with the limit, which counts in units.
func (g *Gate) judge(what string, users int, found Bounded, unit float64) {
	if few := TooFew(what, users, found.High/unit, g.Limit, unit); few != "" {
		g.tooFew = append(g.tooFew, few)
		return
	}
	g.judged = true
	g.breaches = append(g.breaches, Above(what+"; at least it", found.Low/unit, g.Limit)...)
}

// TooFew says why a limit on a number in [0, 1], in units such as chance, decides nothing: however
// well so few users are told, the number is not certainly above, and by its upper end it is not
// certainly below. It is empty otherwise, and of 0 users, which outcomes of earlier versions have.
func TooFew(what string, users int, high, limit, unit float64) string {
	fewest := FewestAbove(limit * unit)
	if users == 0 || users >= fewest || high <= limit {
		return ""
	}
	return fmt.Sprintf("%s, of too few users: %d, where it takes %d to be certainly above the limit of %.4g; so it is not certainly below", what, users, fewest, limit)
}

// Breaches are those of all numbers that could be judged; if none could, why.
func (g *Gate) Breaches() []string {
	if !g.judged {
		return g.tooFew
	}
	return g.breaches
}

// Unjudged are the numbers of too few users where others are judged.
func (g *Gate) Unjudged() []string {
	if !g.judged {
		return nil
	}
	return g.tooFew
}

// FewestAbove is how many users it takes for the lower end of the interval of a number in [0, 1],
// 1 of each user, to be above a limit: of n users it is that of n out of n. It is 0 where nothing
// is above.
func FewestAbove(limit float64) int {
	if limit >= 1 {
		return 0
	}
	return 1 + int(math.Log(intervalTail)/math.Log(limit))
}

// TooFewToTell are words for a number in [0, 1] of so few users that the lower end of its interval
// cannot be above chance; empty of more.
func TooFewToTell(users int, chance float64) string {
	if fewest := FewestAbove(chance); 0 < users && users < fewest {
		return fmt.Sprintf(", too few users to tell it from chance: %d of at least %d", users, fewest)
	}
	return ""
}
