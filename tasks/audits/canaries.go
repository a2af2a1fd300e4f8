package audits

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
)

// ReadLists concatenates the JSON arrays in a blob of some inputs.
func ReadLists[T any](ctx context.Context, t *tasks.Task, blob string, inputs ...string) (all []T, err error) {
	for _, input := range inputs {
		var some []T
		if err := t.InputJSON(ctx, input, blob, &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// PartInputs returns the names of the first inputs tasks.PartInput.
func PartInputs(parts int) []string { return lists.Make(parts, tasks.PartInput) }

// ReadParts is ReadLists for a known number of elements in total, such as one for each canary.
func ReadParts[T any](ctx context.Context, t *tasks.Task, blob string, total int, inputs ...string) ([]T, error) {
	list, err := ReadLists[T](ctx, t, blob, inputs...)
	if err == nil && len(list) != total {
		err = tasks.Permanent(fmt.Errorf("%d %s in %d parts; expected %d", len(list), blob, len(inputs), total))
	}
	return list, err
}

// Memorized is the number of inserted canaries that are memorized.
type Memorized struct {
	Memorized, Of int
	// Lowest is the rarest configuration with a memorized canary, by expected insertion frequency and then by
	// expected users; nil if there is none.
	Lowest *Configuration
}

// Configuration is the intended frequency of a canary: probabilities of users and of their examples, or a
// number of insertions.
type Configuration struct {
	UserProbability    float64 `json:"user_probability,omitzero" doc:"p_u, the probability that a user has the canary"`
	ExampleProbability float64 `json:"example_probability,omitzero" doc:"p_e, the probability that the canary replaces an example of such a user"`
	InsertedTimes      int     `json:"inserted_times,omitzero" doc:"copies of each canary"`
}

// NewConfiguration returns the configuration of a canary, nil if it is held back.
func NewConfiguration(c *population.Canary) (*Configuration, error) {
	if c.HeldBack {
		return nil, nil
	}
	user, example, err := canaries.ConfigurationOf(c).Probabilities()
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("canary %d: %w", c.Number, err))
	}
	return &Configuration{user, example, c.InsertedTimes}, nil
}

// String returns the form of the papers, "1/5000, 10%" or "4 times"; "-" for nil.
func (c *Configuration) String() string {
	switch {
	case c == nil:
		return "-"
	case c.InsertedTimes == 1:
		return "once"
	case c.InsertedTimes > 0:
		return readable.Count(c.InsertedTimes, "time")
	}
	return probability(c.UserProbability) + ", " + probability(c.ExampleProbability)
}

// Columns returns the numbers for tables. Numbers that do not apply are nil.
func (c *Configuration) Columns() (user, example *float64, times *int64) {
	switch {
	case c == nil:
		return nil, nil, nil
	case c.InsertedTimes > 0:
		return nil, nil, new(int64(c.InsertedTimes))
	}
	return &c.UserProbability, &c.ExampleProbability, nil
}

// Lowest returns the measures of the rarest memorized configuration: its numbers and, if shown has a header,
// a column of tables. The Doc of shown names the configuration.
func Lowest[V any](audit string, shown Measure, find func(*V) *Configuration) []Measure {
	var list []Measure
	of := " of the " + shown.Doc
	if shown.Header != "" {
		shown.Text = Of(func(v *V) string { return find(v).String() })
		shown.Doc += ": its copies, or p_u, the probability that a user has a canary, and p_e, the probability that it replaces an example of such a user"
		list = append(list, shown)
	}
	return append(list, Within(find,
		Measure{Name: audit + "_lowest_user_probability", Doc: "p_u, the probability that a user has the canary," + of, Of: Of(func(c *Configuration) *float64 { user, _, _ := c.Columns(); return user })},
		Measure{Name: audit + "_lowest_example_probability", Doc: "p_e, the probability that the canary replaces an example of such a user," + of, Of: Of(func(c *Configuration) *float64 { _, example, _ := c.Columns(); return example })},
		Measure{Name: audit + "_lowest_inserted_times", Doc: "copies of each canary" + of, Of: Of(func(c *Configuration) *int64 { _, _, times := c.Columns(); return times })},
	)...)
}

// probability formats p as a whole percentage, a short fraction, or a decimal.
func probability(p float64) string {
	exact, err := numbers.ProbabilityOf(p)
	if text := exact.String(); err == nil && len(text) <= 12 {
		return text
	}
	return strconv.FormatFloat(p, 'g', 3, 64)
}

// Count counts the inserted canaries that are memorized.
func Count(placed []population.Placement, memorized func(canary int) bool) (Memorized, error) {
	var m Memorized
	var lowest canaries.Configuration
	for i, p := range placed {
		if p.HeldBack || p.Insertions == 0 {
			continue
		}
		m.Of++
		if !memorized(i) {
			continue
		}
		m.Memorized++
		c := canaries.ConfigurationOf(&p.Canary)
		found, err := NewConfiguration(&p.Canary)
		if err != nil {
			return m, err
		}
		if m.Lowest == nil || c.Compare(lowest) < 0 {
			lowest, m.Lowest = c, found
		}
	}
	return m, nil
}

// Prefix returns the number of leading symbols of the canaries that an audit gives to the model. If asked is
// 0, it is the number of symbols before the first random one of the format.
func (g *Group) Prefix(asked int) int {
	return cmp.Or(asked, g.DefaultPrefix())
}

// PrefixField is the field of audits that give a model the beginning of each canary.
type PrefixField struct {
	// Given words of the canary, with canaries.format by default those before its first #. 0: those of
	// each format, the default with canaries.formats.
	Prefix int `json:"prefix" default:"1" range:"[0,999]" unit:"words (byte level: bytes)"`
}

// CompletePrefix sets the prefix to the symbols before the first random one of the format. With several
// formats it is 0; see Group.Prefix. In this method and the next ones, audit is the path of the block.
func (f *PrefixField) CompletePrefix(s *Setting, audit string, given func(path string) bool) {
	switch {
	case s.Canaries == nil || given(audit+".prefix") && f.Prefix > 0:
	case len(s.Canaries.Groups) == 1:
		f.Prefix = s.Canaries.Groups[0].DefaultPrefix()
	default:
		f.Prefix = 0
	}
}

// CheckPrefix reports a prefix that leaves nothing to find, or an experiment without canaries.
func (f *PrefixField) CheckPrefix(s *Setting, audit string, fail Fail) {
	if s.Canaries == nil {
		fail([]string{audit, "canaries"}, "looks for canaries, but the experiment inserts none; add canaries, or remove %s", audit)
		return
	}
	for _, g := range s.Canaries.Groups {
		g.checkPrefix(s.Ordinary, audit, g.Prefix(f.Prefix), fail)
	}
}

func (g *Group) checkPrefix(ordinary int, audit string, prefix int, fail Fail) {
	paths, length := []string{audit + ".prefix", "canaries.words", "canaries.format", "canaries.formats"}, "canaries.words"
	if g.Format != "" {
		length = "the length of canaries.format"
	}
	switch {
	case prefix >= g.Words:
		fail(paths, "is %d; expected less than %s, %d, which leaves a word to find", prefix, length, g.Words)
	case g.Cuts(prefix):
		fail([]string{audit + ".prefix", "canaries.symbols", "canaries.formats"},
			"is %d, which ends within a random word of canaries.symbols; expected a prefix that ends before or after one, such as %d", prefix, g.DefaultPrefix())
	case g.Blanks() > 0 && !g.Echoes() && g.Sequences(ordinary, prefix) == 1:
		fail([]string{audit + ".prefix", "canaries.format", "canaries.formats"},
			"is %d, which leaves no random symbol of canaries.format to find; expected at most %d", prefix, g.LastBlank())
	case g.Target != "":
		g.checkPair(audit, prefix, fail)
	}
}

// CheckSteps reports canaries of whole words over bytes, for audits that try the choices of each position in
// turn.
func CheckSteps(s *Setting, audit string, fail Fail) {
	if s.Canaries == nil {
		return // see CheckPrefix
	}
	if g := lists.Find(s.Canaries.Groups, func(g *Group) bool { return g.WholeWords() }); g != nil {
		fail([]string{audit, "canaries.symbols", "canaries.formats"},
			"searches byte by byte, but canaries.symbols has words of %d characters; remove it, and use audit.random_sampling or audit.skew_normal", g.SymbolBytes)
	}
}

// FitReferences lowers a default number of references to the number of sequences that may follow the prefix,
// without the canaries, unless that is below least. The prefix must be complete.
func (f *PrefixField) FitReferences(s *Setting, references *int, least int) {
	if s.Canaries == nil {
		return // see CheckPrefix
	}
	for _, g := range s.Canaries.Groups {
		if given := g.Prefix(f.Prefix); given < g.Words {
			if room := g.Sequences(s.Ordinary, given) - float64(g.Count); room < float64(*references) {
				*references = max(least, int(room))
			}
		}
	}
}

// CheckReferences reports a number of references above the number of sequences after the prefix.
func (f *PrefixField) CheckReferences(s *Setting, audit string, references int, fail Fail) {
	if s.Canaries == nil {
		return // see CheckPrefix
	}
	for _, g := range s.Canaries.Groups {
		if given := g.Prefix(f.Prefix); given < g.Words {
			g.checkReferences(s.Ordinary, audit, given, references, fail)
		}
	}
}

func (g *Group) checkReferences(ordinary int, audit string, prefix, references int, fail Fail) {
	over, unit, larger := fmt.Sprintf("vocabulary of %d words", ordinary), "word", "vocabulary"
	switch {
	case g.Alphabet != "":
		over, unit, larger = fmt.Sprintf("alphabet %s", g.Alphabet), "byte", "alphabet"
	case g.Symbols != "":
		over, larger = "listed words", "list of symbols"
	}
	room := g.Sequences(ordinary, prefix)
	if room > 1 && float64(references+g.Count) > room {
		fail([]string{audit + ".references", audit + ".prefix", "canaries.words", "canaries.format", "canaries.formats", "canaries.alphabet", "data.vocabulary.size"},
			"is %d; expected, with the %s, at most %.0f, the number of sequences over the %s that can follow the prefix of %s. Use fewer references, longer canaries or a larger %s",
			references, readable.Count(g.Count, "canary"), room, over, readable.Count(prefix, unit), larger)
	}
}

// Unit is a coin toss of an audit that changes the data of some users.
type Unit struct {
	// Canary is the index of the canary in the list of the node.
	Canary int `json:"canary"`
	// User is the number of the user with the canary. Example is its record, or -1 if the unit is the user.
	User    int `json:"user"`
	Example int `json:"example"`
	// Included is the result: whether the canary is in the training data.
	Included bool `json:"included"`
}

// UnitsBlob is a JSON array of Unit.
const UnitsBlob = "units"

// ReadUnits reads the units of a planter's node and their canaries.
func ReadUnits(ctx context.Context, t *tasks.Task, input string) ([]Unit, []population.Canary, error) {
	list, err := population.ReadPlacements(ctx, t, input)
	if err != nil {
		return nil, nil, err
	}
	var units []Unit
	if err := t.InputJSON(ctx, input, UnitsBlob, &units); err != nil {
		return nil, nil, err
	}
	if i := slices.IndexFunc(units, func(u Unit) bool { return u.Canary < 0 || u.Canary >= len(list) }); i >= 0 {
		return nil, nil, fmt.Errorf("unit %d has canary %d of %d: %w", i, units[i].Canary, len(list), storage.ErrCorrupt)
	}
	return units, lists.Map(units, func(u Unit) population.Canary { return list[u.Canary].Canary }), nil
}
