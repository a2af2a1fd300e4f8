package onerun

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Coins lays out a one-run audit (Steinke, Nasr and Jagielski 2023) in a
// population: Canaries units, each of a different user without another canary,
// each inserted by an independent fair coin. Heads and tails are two neighbours
// under the relation for which the privacy bound is proved:
//
//	replace-one        heads: the unit's data are the canary; tails: its own
//	add-or-remove-one  heads: the unit's data are the canary; tails: none. Its
//	                   user keeps a number, so that the sampling rate of
//	                   cohorts does not depend on the coins; users sampled
//	                   without data do not take part.
//
// A unit is all examples of a user, or one record, an example drawn at random.
//
// Canaries, users and coins have separate random streams: the users of units
// depend neither on the coins nor on the length of the canaries.
//
// Params: CoinsParams. Inputs: "population": datasets/partition; "shards": where its stream is; "parts":
// datasets/encode; for canaries.LearnedWords "learned": Learned. Metrics and blobs are those of
// datasets/partition, the canaries of the audit after the existing ones, and
//
//	units  JSON array of audits.Unit: the coins, which the audit reads and no training
var Coins = tasks.Kind{Name: "canaries/one-run", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runCoins)}

const (
	PopulationInput = "population"
	ShardsInput     = "shards"
)

const (
	UserUnit   = "user"
	RecordUnit = "record"
)

type CoinsParams struct {
	Seed uint64 `json:"seed"`
	// Canaries is the number of units, m in the paper.
	Canaries int `json:"canaries"`
	// Space has no canaries longer than the population's sequences.
	canaries.Space
	// Design is empty for random canaries, a design of words for a space without an alphabet, or, for images,
	// canaries.Mislabelled.
	Design canaries.Design `json:"design,omitempty"`
	// Classes is the number of classes of images, 0 for texts. Space.Words is then the length of an example.
	Classes int `json:"classes,omitempty"`
	// Unit is UserUnit or RecordUnit.
	Unit string `json:"unit"`
	// Neighbouring is the relation between heads and tails; for records it is privacy.ReplaceOne.
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
}

// relations are the possible relations of a coin. A removed user and one with zero updates are the same: a
// user without data.
var relations = []privacy.Neighbouring{privacy.ReplaceOne, privacy.AddOrRemoveOne, privacy.ZeroOutOne}

func (p *CoinsParams) check() error {
	switch {
	case p.Canaries < 1:
		return fmt.Errorf("one-run audit of %d canaries; expected at least 1", p.Canaries)
	case p.Unit != UserUnit && p.Unit != RecordUnit:
		return fmt.Errorf("unit %q; expected %q or %q", p.Unit, UserUnit, RecordUnit)
	case !slices.Contains(relations, p.Neighbouring):
		return fmt.Errorf("neighbouring %q; expected %q, %q or %q", p.Neighbouring, relations[0], relations[1], relations[2])
	case p.Classes == 1 || p.Classes > 0 && !p.Design.Random() && p.Design != canaries.Mislabelled:
		return fmt.Errorf("canaries %q of images of %d classes; expected random or mislabelled ones of at least 2 classes", p.Design, p.Classes)
	case p.Unit == RecordUnit && p.Neighbouring != privacy.ReplaceOne:
		return fmt.Errorf("records are audited under %s alone; got %s", privacy.ReplaceOne, p.Neighbouring)
	}
	return nil
}

func runCoins(ctx context.Context, t *tasks.Task, p *CoinsParams) error {
	if err := p.check(); err != nil {
		return tasks.Permanent(err)
	}
	vocabulary, pop, err := readData(ctx, t)
	if err != nil {
		return err
	}
	list, err := population.ReadPlacements(ctx, t, PopulationInput)
	if err != nil {
		return err
	}
	d := design{params: p, population: pop, first: len(list)}
	if p.Design == canaries.LearnedWords {
		if err := t.InputJSON(ctx, LearnedInput, population.CanariesBlob, &d.learned); err != nil {
			return err
		}
	}
	if err := d.draw(ctx, vocabulary); err != nil {
		return err
	}
	if err := d.layOut(ctx); err != nil {
		return err
	}
	return d.write(ctx, t, append(list, d.canaries...))
}

// readData reads the vocabulary, and opens the population that canaries join.
func readData(ctx context.Context, t *tasks.Task) (*text.Vocabulary, *population.Population, error) {
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return nil, nil, err
	}
	pop, err := population.Open(ctx, t, PopulationInput, ShardsInput)
	return vocabulary, pop, err
}

type design struct {
	params     *CoinsParams
	population *population.Population
	first      int // number of the first canary
	learned    [][]int32
	canaries   []population.Placement
	units      []audits.Unit
	extents    []population.Extent
	overlay    population.Overlay
}

func (d *design) draw(ctx context.Context, v *text.Vocabulary) error {
	if err := d.place(); err != nil {
		return tasks.Permanent(err)
	}
	drawn, err := d.drawing(ctx, v)
	if err != nil {
		return tasks.Permanent(err)
	}
	for i, u := range d.units {
		c, err := drawn(i)
		if err != nil {
			return err
		}
		c.Number = u.Canary
		d.canaries = append(d.canaries, population.Placement{Canary: c})
	}
	return nil
}

// place draws the units and their coins.
func (d *design) place() error {
	p := d.params
	users, err := d.carriers()
	if err != nil {
		return err
	}
	coins, places := seeds.Stream(p.Seed, seeds.OneRunCoins), seeds.Stream(p.Seed, seeds.OneRunUnits, 1)
	for i, user := range users {
		u := audits.Unit{Canary: d.first + i, User: user, Example: -1, Included: coins.Uint64()&1 == 1}
		if p.Unit == RecordUnit {
			u.Example = places.IntN(d.population.Examples(user))
		}
		d.units = append(d.units, u)
	}
	return nil
}

// drawing returns a function that draws the canary of each unit, in order.
func (d *design) drawing(ctx context.Context, v *text.Vocabulary) (func(unit int) (population.Canary, error), error) {
	p, rng := d.params, seeds.Stream(d.params.Seed, seeds.OneRunCanaries)
	if longest := d.population.Index().Sequence; p.Words > longest {
		return nil, fmt.Errorf("canaries of %d words; expected at most %d, where sequences are cut", p.Words, longest)
	}
	if p.Classes > 0 {
		return func(unit int) (population.Canary, error) { return d.image(ctx, d.units[unit], rng) }, nil
	}
	if err := p.Space.Check(v.Ordinary()); err != nil {
		return nil, err
	}
	choices, seen := p.Choices(v.Ordinary()), map[string]bool{}
	if room := p.Design.Sequences(p.Space, v.Ordinary()); float64(2*p.Canaries) > room {
		return nil, fmt.Errorf("%d different canaries of %d out of %d symbols; expected at most half of the %.0f sequences: make them longer or fewer", p.Canaries, p.Words, len(choices[0]), room)
	}
	return func(unit int) (c population.Canary, err error) {
		if p.Design == canaries.LearnedWords {
			c.Tokens = d.learned[unit]
		} else {
			c.Tokens = p.DrawDistinct(rng, p.Design.Choose(choices, unit), seen)
		}
		c.Words = lists.Map(c.Tokens, func(w int32) string { return v.Words[w] })
		return c, nil
	}, nil
}

// carriers draws the users of the units from those without a canary.
func (d *design) carriers() ([]int, error) {
	free := make([]int, 0, d.population.Users())
	held := d.population.Replacements()
	for u := range d.population.Users() {
		for len(held) > 0 && held[0].User < u {
			held = held[1:]
		}
		if len(held) == 0 || held[0].User != u {
			free = append(free, u)
		}
	}
	m := d.params.Canaries
	if m > len(free) {
		return nil, fmt.Errorf("a one-run audit of %d canaries needs as many users without other canaries, and %d of %d have none; lower audit.one_run.canaries or canaries.user_probability",
			m, len(free), d.population.Users())
	}
	rng := seeds.Stream(d.params.Seed, seeds.OneRunUnits)
	for i := range m {
		j := i + rng.IntN(len(free)-i)
		free[i], free[j] = free[j], free[i]
	}
	return free[:m], nil
}

func (d *design) layOut(ctx context.Context) error {
	d.extents = slices.Clone(d.population.Index().Extents)
	d.overlay = slices.Clone(d.population.Replacements())
	for i, u := range d.units {
		e := &d.extents[u.User]
		switch {
		case u.Included && u.Example >= 0:
			if err := d.replaceRecord(ctx, u, e); err != nil {
				return err
			}
		case u.Included:
			for example := range e.Examples {
				d.overlay = append(d.overlay, population.Replacement{User: u.User, Example: example, Canary: u.Canary})
			}
			e.Words = e.Examples * d.params.Words
		case d.params.Neighbouring != privacy.ReplaceOne:
			*e = population.Extent{Offset: e.Offset}
		}
		if u.Included {
			d.canaries[i].Users = 1
		}
	}
	d.overlay.Sort()
	return nil
}

func (d *design) replaceRecord(ctx context.Context, u audits.Unit, e *population.Extent) error {
	sentences, err := d.population.ReadUser(ctx, u.User)
	if err != nil {
		return err
	}
	e.Words += d.params.Words - text.WordsOf(sentences[u.Example])
	d.overlay = append(d.overlay, population.Replacement{User: u.User, Example: u.Example, Canary: u.Canary})
	return nil
}

func (d *design) write(ctx context.Context, t *tasks.Task, list []population.Placement) error {
	if err := t.PutJSON(ctx, audits.UnitsBlob, d.units); err != nil {
		return err
	}
	var before population.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &before); err != nil {
		return err
	}
	index := d.population.Index().WithExtents(d.extents)
	return population.Write(ctx, t, index, list, d.overlay, before.DiscardedExamples)
}
