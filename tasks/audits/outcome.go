package audits

import (
	"fmt"

	"coalmine/privacy"
	"coalmine/tasks/selection"
)

// Outcome is the result of an audit: a pointer to a struct that its JSON is decoded into.
type Outcome any

// Noter is implemented by outcomes that explain their row of a table.
type Noter interface {
	// Note returns a line below the table, which may be empty.
	Note(c *Cell) string
}

// LowerBounder is implemented by outcomes that bound the epsilon of a training from below.
type LowerBounder interface {
	// EpsilonAtLeast returns the bound at the delta of the training, or 0 without one.
	EpsilonAtLeast() privacy.Epsilon
}

// EpsilonAtLeast returns the highest lower bound, or 0.
func (c *Cell) EpsilonAtLeast() privacy.Epsilon {
	highest := privacy.Epsilon(0)
	for _, v := range c.Outcomes {
		if b, ok := v.(LowerBounder); ok {
			highest = max(highest, b.EpsilonAtLeast())
		}
	}
	return highest
}

// Mark follows the leading texts of a marked outcome, and begins its note.
const Mark = "*"

// Figured is implemented by outcomes that can be drawn.
type Figured interface {
	// Figure returns nil if there is nothing to draw.
	Figure(c *Cell) *Figure
}

type Picture struct {
	// Title is the caption. Text describes the picture for screen readers.
	Title, Text string
	PNG         []byte
}

// Change compares a number of two models.
type Change struct {
	Label  string  `json:"what"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// P is the p-value of the difference, given the randomness of samples drawn from the models; nil if there
	// is none. It does not cover the randomness of the training.
	P *float64 `json:"p,omitempty"`
}

func (c Change) String() string {
	text := fmt.Sprintf("%s: %.4g -> %.4g", c.Label, c.Before, c.After)
	if c.P == nil {
		return text + " (exact)"
	}
	return fmt.Sprintf("%s (%s)", text, PText(*c.P))
}

// minP is the smallest p-value that is distinct from 0.
const minP = 1e-300

// PText prints a p-value: "p 0.013".
func PText(p float64) string {
	if p < minP {
		return fmt.Sprintf("p below %g", minP)
	}
	return fmt.Sprintf("p %.2g", p)
}

// OwnCanary is one of an audit's own canaries, with its outcome.
type OwnCanary struct {
	Words         []string
	CanaryOutcome CanaryOutcome
}

// CanaryOutcome is the result for one canary: a pointer to a struct that members of its JSON are decoded
// into.
type CanaryOutcome any

// UsersAlone begins the note that intervals over users do not cover the variation by initial values. The caller
// appends a method to measure that variation.
const UsersAlone = "; the intervals hold the chance of users, not that of the network's initial values: "

// Replicated is the method for audits that train one network; see UsersAlone.
const Replicated = "grid.replicates above 1, which trains all anew, measures both"

// LastEpoch warns that the last epoch of a network's training still improved it.
func LastEpoch(epochs int) string {
	return fmt.Sprintf(" (its training ended with its last epoch, %d: more may tell more)", epochs)
}

// Cell is a finished cell.
type Cell struct {
	// Name is unique within its run.
	Name string
	// Privacy is the cost of the training; nil if no privacy is claimed.
	Privacy *privacy.Report
	// Selection is the selection by data.select; nil without one, and for words.
	Selection *selection.Selection
	Outcomes  []Outcome
	// Canaries are the canaries of the canaries block.
	Canaries []Canary
}

// Canary is a canary of the canaries block, with its places and outcomes.
type Canary struct {
	Role               Role
	Words              []string
	UserProbability    float64
	ExampleProbability float64
	// InsertedTimes is the configured number of insertions, or 0.
	InsertedTimes int
	// Format is set if there are several.
	Format string
	// Users share it before an iid shuffle; Holders hold copies after it; Insertions is the number of copies.
	Users, Holders, Insertions int
	Outcomes                   []CanaryOutcome
}

func (c *Canary) Configuration() *Configuration {
	return &Configuration{c.UserProbability, c.ExampleProbability, c.InsertedTimes}
}

// Role is the role of a canary. Only inserted canaries are counted.
type Role string

const (
	Inserted      Role = "inserted"
	NeverInserted Role = "never_inserted" // drawn into no user's data
	HeldBack      Role = "control"        // drawn and held back, as a control of the audits
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

// AboveLimit returns a breach if the value is above a limit.
func AboveLimit[N int | float64](name string, value, limit N) []string {
	if value <= limit {
		return nil
	}
	return []string{fmt.Sprintf("%s is %.4g, above the limit of %.4g", name, float64(value), float64(limit))}
}

// Figure is drawn for one cell. Figures of one name share their axes in all cells.
type Figure struct {
	// Name is the caption, About explains it, Title describes it for screen readers.
	Name, About, Title string
	// Of distinguishes figures with the same name in a cell. Empty for a single figure.
	Of   string
	X, Y Axis
	// Limit is a dashed horizontal line; 0: no line.
	Limit float64
	Bars  []Bar
	// Ranges are vertical lines.
	Ranges []Range
	// Line goes through its points, which ascend in X.
	Line []Point
	// Lines differ by colours and strokes, which the legend names.
	Lines []Line
	Dots  []Dot
	// Filled, Open and Grey name such dots in the legend.
	Filled, Open, Grey string
	// Means is the axis title for the mean of the dots at equal X, which figures of all cells compare. Empty:
	// not compared.
	Means string
}

type Line struct {
	Name   string
	Points []Point
}

type Bar struct{ From, To, Y float64 }

type Range struct{ X, Low, High float64 }

type Point struct{ X, Y float64 }

// Axis is an axis from Min to Max. Logarithmic axes show log(1 + x).
type Axis struct {
	// Title includes the unit.
	Title       string
	Min, Max    float64
	Logarithmic bool
	// Whole limits the tick labels to integers.
	Whole bool
}

type Dot struct {
	X, Y float64
	// About explains the meaning of Filled and Grey.
	Filled, Grey bool
	About        string
}
