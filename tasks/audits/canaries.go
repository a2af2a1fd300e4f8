package audits

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"coalmine/internal/fractions"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
)

// ReadParts joins what the tasks of an audit have found of the canaries: JSON arrays of
// T in the blobs of that name, the inputs being tasks.PartInput. There must be one T for
// each canary.
func ReadParts[T any](ctx context.Context, t *tasks.Task, parts int, blob string, canaries int) ([]T, error) {
	var all []T
	for i := range parts {
		data, err := t.Blob(ctx, tasks.PartInput(i), blob)
		if err != nil {
			return nil, err
		}
		var part []T
		if err := json.Unmarshal(data, &part); err != nil {
			return nil, tasks.Permanent(fmt.Errorf("%s of part %d: %w", blob, i, err))
		}
		all = append(all, part...)
	}
	if len(all) != canaries {
		return nil, tasks.Permanent(fmt.Errorf("%d %s for %d canaries", len(all), blob, canaries))
	}
	return all, nil
}

// Memorized is how many of the inserted canaries a model has memorized.
type Memorized struct {
	Memorized, Of int
	// Lowest is the rarest configuration of which one was memorized, by expected
	// insertion frequency and then by expected users; nil if none was.
	Lowest *Configuration
}

// Configuration is how often a canary was meant to be inserted.
type Configuration struct {
	UserProbability    float64 `json:"user_probability"`
	ExampleProbability float64 `json:"example_probability"`
}

// String is the configuration as the papers print it, "1/5000, 10%"; "-" for none.
func (c *Configuration) String() string {
	if c == nil {
		return "-"
	}
	return probability(c.UserProbability) + ", " + probability(c.ExampleProbability)
}

// probability is a whole percentage if it is one, else a fraction if that is short, else
// a decimal.
func probability(p float64) string {
	exact, err := fractions.ProbabilityOf(p)
	if text := exact.String(); err == nil && len(text) <= 12 {
		return text
	}
	return strconv.FormatFloat(p, 'g', 3, 64)
}

// Count counts the memorized ones among the canaries that were inserted.
func Count(placed []datasets.Placement, memorized func(canary int) bool) (Memorized, error) {
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
		c := canaries.Configuration{UserProbability: p.UserProbability, ExampleProbability: p.ExampleProbability}
		user, example, err := c.Parse()
		if err != nil {
			return m, tasks.Permanent(fmt.Errorf("canary %d: %w", i, err))
		}
		if m.Lowest != nil && c.Compare(lowest) >= 0 {
			continue
		}
		lowest, m.Lowest = c, new(Configuration)
		m.Lowest.UserProbability, _ = user.Float64()
		m.Lowest.ExampleProbability, _ = example.Float64()
	}
	return m, nil
}

// CheckPrefix reports a prefix of canaries that leaves nothing to find, or that there are
// no canaries. audit is the path of the audit's block.
func CheckPrefix(s *Setting, audit string, prefix int, fail Fail) {
	if s.Canaries == nil {
		fail([]string{audit, "canaries"}, "looks for canaries, but the experiment inserts none; add canaries, or remove %s", audit)
		return
	}
	space := s.Canaries.Space
	if prefix >= space.Words {
		what := "canaries.words"
		if space.Format != "" {
			what = "the length of canaries.format"
		}
		fail([]string{audit + ".prefix", "canaries.words", "canaries.format"},
			"is %d; expected less than %s, %d, so that a word is left to find", prefix, what, space.Words)
		return
	}
	if space.Blanks() > 0 && space.Sequences(s.Ordinary, prefix) == 1 {
		fail([]string{audit + ".prefix", "canaries.format"},
			"is %d, which leaves no random symbol of canaries.format to find; expected at most %d", prefix, strings.LastIndexByte(space.Format, canaries.Blank))
	}
}

// CheckReferences reports fewer different sequences after the prefix than an audit asks
// for as references. audit is the path of the audit's block.
func CheckReferences(s *Setting, audit string, prefix, references int, fail Fail) {
	if s.Canaries == nil || prefix >= s.Canaries.Words {
		return // see CheckPrefix
	}
	space, drawn := s.Canaries.Space, s.Canaries.Drawn
	over, unit, larger := fmt.Sprintf("vocabulary of %d words", s.Ordinary), "words", "vocabulary"
	if space.Alphabet != "" {
		over, unit, larger = fmt.Sprintf("alphabet %s", space.Alphabet), "bytes", "alphabet"
	}
	room := space.Sequences(s.Ordinary, prefix)
	if room > 1 && float64(references+drawn) > room {
		fail([]string{audit + ".references", audit + ".prefix", "canaries.words", "canaries.format", "canaries.alphabet", "data.vocabulary.size"},
			"is %d; expected, with the %d canaries, at most %.0f: so many sequences over the %s can follow the prefix of %d %s. Use fewer references, longer canaries or a larger %s",
			references, drawn, room, over, prefix, unit, larger)
	}
}

// Unit is a coin of an audit that puts something into the data of some users and not of
// others: who carries it, and how the coin came up.
type Unit struct {
	// Canary is the number of its canary in the list of the node.
	Canary int `json:"canary"`
	// User carries it; Example is the record, -1 where the unit is the user.
	User    int `json:"user"`
	Example int `json:"example"`
	// Included is the coin: whether the canary is in the training data.
	Included bool `json:"included"`
}

// UnitsBlob is a JSON array of Unit.
const UnitsBlob = "units"

// ReadUnits reads the coins of a planter's node, with the canary of each.
func ReadUnits(ctx context.Context, t *tasks.Task, input string) ([]Unit, []datasets.Canary, error) {
	list, err := datasets.ReadPlacements(ctx, t, input)
	if err != nil {
		return nil, nil, err
	}
	data, err := t.Blob(ctx, input, UnitsBlob)
	if err != nil {
		return nil, nil, err
	}
	var units []Unit
	if err := json.Unmarshal(data, &units); err != nil {
		return nil, nil, fmt.Errorf("list of units: %w: %w", err, storage.ErrCorrupt)
	}
	carried := make([]datasets.Canary, len(units))
	for i, u := range units {
		if u.Canary < 0 || u.Canary >= len(list) {
			return nil, nil, fmt.Errorf("unit %d has canary %d of %d: %w", i, u.Canary, len(list), storage.ErrCorrupt)
		}
		carried[i] = list[u.Canary].Canary
	}
	return units, carried, nil
}
