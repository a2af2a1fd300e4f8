package audits

import (
	"fmt"

	"coalmine/privacy"
	"coalmine/tasks/selection"
)

// Outcome is what an audit has found: a pointer to a struct that its JSON is decoded
// into. Description.Measures are read off it.
type Outcome any

// Noter is implemented by outcomes that can't stand in a table without a word on what
// they mean.
type Noter interface {
	// Note is a line below the table, empty for none.
	Note(c *Cell) string
}

// LowerBounder is implemented by outcomes that bound the epsilon of a training from below.
type LowerBounder interface {
	// EpsilonAtLeast is the bound at the delta of the training, 0 for none.
	EpsilonAtLeast() privacy.Epsilon
}

// EpsilonAtLeast is the highest of the bounds from below that there are, 0 without one.
func (c *Cell) EpsilonAtLeast() privacy.Epsilon {
	highest := privacy.Epsilon(0)
	for _, v := range c.Outcomes {
		if b, ok := v.(LowerBounder); ok {
			highest = max(highest, b.EpsilonAtLeast())
		}
	}
	return highest
}

// Mark stands behind the leading texts of a marked outcome, and before the note that explains it.
const Mark = "*"

// Figured is implemented by outcomes that can be drawn.
type Figured interface {
	// Figure is nil where there is nothing to draw.
	Figure(c *Cell) *Figure
}

// Picture is a picture of an outcome.
type Picture struct {
	// Title says what it shows; Text says in words and numbers what is to be seen, for those
	// who do not see it.
	Title, Text string
	// PNG is a file.
	PNG []byte
}

// Change is a number that two models have.
type Change struct {
	What   string  `json:"what"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// P is the probability that the two are as far apart or farther by the chance of what was
	// drawn from the models, were these the same in it; nil where no chance takes part. What
	// is left to the chance of the training is in neither.
	P *float64 `json:"p,omitempty"`
}

// String is a line for people.
func (c Change) String() string {
	text := fmt.Sprintf("%s: %.4g -> %.4g", c.What, c.Before, c.After)
	if c.P == nil {
		return text + " (exact)"
	}
	return fmt.Sprintf("%s (%s)", text, PText(*c.P))
}

// leastP is what a test can tell from 0.
const leastP = 1e-300

// PText is the outcome of a test for people: "p 0.013".
func PText(p float64) string {
	if p < leastP {
		return fmt.Sprintf("p below %g", leastP)
	}
	return fmt.Sprintf("p %.2g", p)
}

// Own is a canary of an audit's own, and what it says of it as Description.Outcome.
type Own struct {
	Words         []string
	CanaryOutcome CanaryOutcome
}

// CanaryOutcome is what an audit says of one canary: a pointer to a struct that members of its
// JSON are decoded into. Description.Canary are read off it.
type CanaryOutcome any

// LastEpoch says of a network of an audit that its training was still of use when its epochs were
// over.
func LastEpoch(epochs int) string {
	return fmt.Sprintf(" (its training ended with its last epoch, %d: more may tell more)", epochs)
}

// Cell is a finished cell as far as results know it.
type Cell struct {
	// Name is the cell's within its run.
	Name string
	// Privacy is what the training cost; nil where none is claimed.
	Privacy *privacy.Report
	// Selection is what data.select chose; nil without, and of words.
	Selection *selection.Selection
	// Outcomes are those that there are.
	Outcomes []Outcome
	// Canaries are those of the canaries block.
	Canaries []Canary
}

// Canary is a canary of the canaries block: where it went and what became of it.
type Canary struct {
	Role               Role
	Words              []string
	UserProbability    float64
	ExampleProbability float64
	// InsertedTimes is the chosen number of insertions, 0 without one.
	InsertedTimes int
	// Format names what it was drawn from, where there are several formats.
	Format string
	// Users are the sharers, before an iid shuffle; Holders the users that hold
	// copies after it; Insertions the copies.
	Users, Holders, Insertions int
	// Outcomes are what the audits say of it.
	Outcomes []CanaryOutcome
}

// Configuration is how often the canary was meant to be inserted.
func (c *Canary) Configuration() *Configuration {
	return &Configuration{c.UserProbability, c.ExampleProbability, c.InsertedTimes}
}

// Role is what a canary is there for.
type Role string

// Roles of canaries. Only those that were inserted are counted.
const (
	Inserted      Role = "inserted"
	NeverInserted Role = "never_inserted" // drawn into no user's data
	Control       Role = "control"        // held back on purpose
)

// OutcomeOf finds the outcome of a type.
func OutcomeOf[V Outcome](c *Cell) (V, bool) {
	for _, v := range c.Outcomes {
		if found, ok := v.(V); ok {
			return found, true
		}
	}
	var none V
	return none, false
}

// Above is a breach where the value is above a limit.
func Above[N int | float64](what string, value, limit N) []string {
	if value <= limit {
		return nil
	}
	return []string{fmt.Sprintf("%s is %.4g, above the limit of %.4g", what, float64(value), float64(limit))}
}

// Figure is a picture of what an audit has found in one cell. Figures of one name have
// the same axes in all cells, so that the eye can compare.
type Figure struct {
	// Name is its caption, About what is to be known to read it, Title what it shows, for
	// those who hear it.
	Name, About, Title string
	// Of tells it from the others of its name in one cell; empty where there is one.
	Of   string
	X, Y Axis
	// Limit is drawn as a dashed line across; 0 for none.
	Limit float64
	Bars  []Bar
	// Ranges are drawn as vertical lines.
	Ranges []Range
	// Line is drawn through its points, which ascend in X.
	Line []Point
	// Lines are told apart by their strokes, which the caption names.
	Lines []Line
	Dots  []Dot
}

// Line is one of several in a figure. Its points ascend in X.
type Line struct {
	Name   string
	Points []Point
}

// Bar stands on the horizontal axis.
type Bar struct{ From, To, Y float64 }

// Range is an interval at a place of the horizontal axis.
type Range struct{ X, Low, High float64 }

// Point is a place in a figure.
type Point struct{ X, Y float64 }

// Axis is as long as its largest value. Logarithmic axes are those of the logarithm of 1
// more, so that 0 has a place.
type Axis struct {
	Most        float64
	Logarithmic bool
}

// Dot is a thing that was measured.
type Dot struct {
	X, Y float64
	// Filled and Grey say something of it; About does in words.
	Filled, Grey bool
	About        string
}
