package dataexport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// Cell is a cell whose data can be written.
type Cell struct {
	Archive    *storage.Archive
	Plan       *plan.Plan
	Cell       *plan.Cell
	Experiment *experiment.Experiment
}

// Names of inputs of the tables' tasks.
const (
	populationInput = "population"
	shardsInput     = "shards"
	devicesInput    = "devices"
	recordedInput   = "recorded"
)

func (c *Cell) eachWord(ctx context.Context, row func(Word) error) error {
	words, err := c.source().open(ctx, c.Cell.Vocabulary.Key, text.VocabularyBlob)
	if err != nil {
		return err
	}
	return text.EachWord(words, func(token int32, text string) error { return row(Word{token, text}) })
}

// ordinary returns the number of ordinary words of the vocabulary.
func (c *Cell) ordinary(ctx context.Context) (int, error) {
	words := 0
	err := c.eachWord(ctx, func(Word) error { words++; return nil })
	return words - text.FirstWord, err
}

func (c *Cell) eachExample(ctx context.Context, row func(Example) error) error {
	encode := c.Plan.Nodes[c.Cell.Vocabulary.Key]
	t := c.task(append([]tasks.Input{{Name: population.PartsInput, Key: encode.Key}}, encode.Inputs...)...)
	var users []string
	if err := t.InputJSON(ctx, datasets.CorpusInput, datasets.UsersBlob, &users); err != nil {
		return err
	}
	return eachPlaced(ctx, t, encode, func(x datasets.PlacedExample) error {
		if x.User >= len(users) {
			return fmt.Errorf("user %d of %d names: %w", x.User, len(users), storage.ErrCorrupt)
		}
		return row(Example{int64(x.Example), users[x.User], string(x.Part), x.Sentence})
	})
}

// eachPlaced calls do with each example of the parts that a node has written.
func eachPlaced(ctx context.Context, t *tasks.Task, parts *plan.Node, do func(datasets.PlacedExample) error) error {
	if parts.Kind == datasets.OutOfVocabulary.Name {
		params, err := plan.ParamsOf[datasets.OutOfVocabularyParams](parts)
		if err != nil {
			return err
		}
		return datasets.EachPlacedWord(ctx, t, params, do)
	}
	params, err := plan.ParamsOf[datasets.EncodeParams](parts)
	if err != nil {
		return err
	}
	return datasets.EachPlaced(ctx, t, *params, do)
}

// populationTask returns a task that reads the training data of the cell.
func (c *Cell) populationTask() *tasks.Task {
	return c.task(tasks.Input{Name: populationInput, Key: c.Cell.Population.Key}, tasks.Input{Name: shardsInput, Key: c.Cell.Shards.Key})
}

func (c *Cell) eachTrained(ctx context.Context, row func(Trained) error) error {
	pop, err := population.Open(ctx, c.populationTask(), populationInput, shardsInput)
	if err != nil {
		return err
	}
	replaced := pop.Replacements()
	for user := range pop.Users() {
		sentences, err := pop.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		for example, tokens := range sentences {
			x := Trained{User: int64(user), Example: int64(example), Tokens: tokens}
			if len(replaced) > 0 && replaced[0].User == user && replaced[0].Example == example {
				canary := int64(replaced[0].Canary)
				x.Canary, replaced = &canary, replaced[1:]
			}
			if err := row(x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cell) eachCanary(ctx context.Context, row func(Canary) error) error {
	t := c.populationTask()
	pop, err := population.Open(ctx, t, populationInput, shardsInput)
	if err != nil {
		return err
	}
	placed, err := population.ReadPlacements(ctx, t, populationInput)
	if err != nil {
		return err
	}
	coins, err := c.coins(ctx, t)
	if err != nil {
		return err
	}
	copies := make([][]Place, len(placed))
	for _, r := range pop.Replacements() {
		copies[r.Canary] = append(copies[r.Canary], Place{int64(r.User), int64(r.Example)})
	}
	for i, p := range placed {
		err := row(Canary{
			Number: int64(p.Number), Tokens: p.Tokens, Words: p.Words, UserProbability: p.UserProbability, ExampleProbability: p.ExampleProbability,
			HeldBack: p.HeldBack, InsertedTimes: int64(p.InsertedTimes), Format: p.Format, Sharers: int64(p.Users), Copies: append([]Place{}, copies[i]...), Coin: coins[p.Number],
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// coins returns the coins of the audit that plants canaries, by canary, or nil without such an audit.
func (c *Cell) coins(ctx context.Context, t *tasks.Task) (map[int]*Coin, error) {
	if !planted(c.Experiment) {
		return nil, nil
	}
	units, _, err := audits.ReadUnits(ctx, t, populationInput)
	if err != nil {
		return nil, err
	}
	coins := map[int]*Coin{}
	for _, u := range units {
		coins[u.Canary] = &Coin{int64(u.User), int64(u.Example), u.Included}
	}
	return coins, nil
}

func (c *Cell) eachReference(ctx context.Context, row func(Reference) error) error {
	ordinary, err := c.ordinary(ctx)
	if err != nil {
		return err
	}
	groups := c.Experiment.Setting().Canaries.Groups
	for _, g := range groups {
		format := ""
		if len(groups) > 1 {
			format = g.String()
		}
		if err := c.eachReferenceOf(ctx, g, ordinary, func(number int64, tokens []int32) error {
			return row(Reference{number, tokens, format})
		}); err != nil {
			return err
		}
	}
	return nil
}

// eachReferenceOf draws the references of one group of canaries.
func (c *Cell) eachReferenceOf(ctx context.Context, g audits.Group, ordinary int, row func(number int64, tokens []int32) error) error {
	node, params, err := c.sampling(g)
	if err != nil {
		return err
	}
	t := c.task(tasks.Input{Name: audits.CanariesInput, Key: node.Input(audits.CanariesInput)})
	drawn, err := population.ReadPlacements(ctx, t, audits.CanariesInput)
	if err != nil {
		return err
	}
	references, err := params.DrawReferences(ctx, t, ordinary, drawn)
	if err != nil {
		return err
	}
	number := int64(0)
	for tokens := range references {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := row(number, tokens); err != nil {
			return err
		}
		number++
	}
	return nil
}

// sampling returns a node of random sampling that ranks canaries of a group.
func (c *Cell) sampling(g audits.Group) (*plan.Node, *randomsampling.Params, error) {
	nodes, _ := c.Plan.Needed(c.Cell.Report)
	for _, n := range nodes {
		if n.Kind != randomsampling.Kind.Name && n.Kind != randomsampling.Scored.Name {
			continue
		}
		params, err := plan.ParamsOf[randomsampling.Params](n)
		if err != nil {
			return nil, nil, err
		}
		if params.Space == g.Space {
			return n, params, nil
		}
	}
	return nil, nil, fmt.Errorf("no task of the cell ranks canaries %q", g)
}

func (c *Cell) eachCohort(ctx context.Context, row func(Cohort) error) error {
	chain := c.Cell.Chain
	var params training.ClientsParams
	if err := json.Unmarshal(chain.Part.Params, &params); err != nil {
		return fmt.Errorf("parameters of %s: %w", chain.Part.Kind.Name, err)
	}
	pop, err := population.Open(ctx, c.populationTask(), populationInput, shardsInput)
	if err != nil {
		return err
	}
	for round := 1; round <= c.Experiment.Training.Rounds; round++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		users, err := training.Cohort(&params, round, pop.Users(), func(round int) (*rand.Rand, error) {
			return seeds.Stream(params.Seed, seeds.Cohort, uint64(round)), nil
		})
		if err != nil {
			return err
		}
		if err := row(Cohort{int64(round), lists.Map(users, func(user int) int32 { return int32(user) })}); err != nil {
			return err
		}
	}
	return nil
}

// eachMembership calls row with the losses that the membership audit of the cell has read.
func (c *Cell) eachMembership(ctx context.Context, row func(Membership) error) error {
	nodes, _ := c.Plan.Needed(c.Cell.Report)
	for _, n := range nodes {
		if n.Kind != membership.Kind.Name {
			continue
		}
		params, err := plan.ParamsOf[membership.Params](n)
		if err != nil {
			return err
		}
		number := int64(-1)
		return params.EachUser(ctx, c.task(n.Inputs...), func(u membership.User) error {
			number++
			return row(membershipOf(number, &u))
		})
	}
	return errors.New("no task of the cell audits memberships")
}

func membershipOf(number int64, u *membership.User) Membership {
	m := Membership{
		User: number, Member: u.Member, Replaced: int64(u.Replaced), Targets: u.Targets, Loss: u.Loss,
		Words: u.Text.Words, Compressed: u.Text.Compressed, References: lists.Map(u.References, func(r membership.ReferenceLoss) ReferenceLoss { return ReferenceLoss(r) }),
	}
	if u.ByToken {
		m.MinK = &u.MinK
	}
	if u.ByDistribution() {
		m.MinKPlusPlus, m.Curvature = &u.MinKPlusPlus, &u.Curvature
	}
	return m
}

func (c *Cell) eachDevice(ctx context.Context, row func(Device) error) error {
	t := c.task(tasks.Input{Name: devicesInput, Key: c.Cell.Devices.Key})
	list, err := devices.Read(ctx, t, devicesInput)
	if err != nil {
		return err
	}
	pop, err := population.Open(ctx, c.populationTask(), populationInput, shardsInput)
	if err != nil {
		return err
	}
	if pop.Users() != len(list) {
		return fmt.Errorf("the population has %d users, the list of devices %d: %w", pop.Users(), len(list), storage.ErrCorrupt)
	}
	for number, d := range list {
		first, end := pop.UserRecords(number)
		if err := row(Device{int64(number), int64(d.User), d.Shadow, string(d.Set), int64(end - first)}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cell) eachUpdate(ctx context.Context, row func(Update) error) error {
	for _, gathered := range c.Cell.Recorded {
		t := c.task(tasks.Input{Name: recordedInput, Key: gathered})
		if err := eachGathered(ctx, t, row); err != nil {
			return err
		}
	}
	return nil
}

// eachGathered calls row with the updates of one gathering node.
func eachGathered(ctx context.Context, t *tasks.Task, row func(Update) error) error {
	layout, err := updates.ReadLayout(ctx, t, recordedInput)
	if err != nil {
		return err
	}
	shards, err := updates.Refs(ctx, t, []string{recordedInput})
	if err != nil {
		return err
	}
	for _, shard := range shards {
		err := shard.Each(ctx, t, func(u updates.Update) error { return eachLayer(u, layout.Layers, row) })
		if err != nil {
			return err
		}
	}
	return nil
}

// eachLayer calls row with each layer of an update.
func eachLayer(u updates.Update, layers []updates.Layer, row func(Update) error) error {
	at := 0
	for _, layer := range layers {
		values := u.Values[at : at+layer.Values]
		if err := row(Update{int64(u.Round), int64(u.Device), layer.Name, values}); err != nil {
			return fmt.Errorf("round %d, device %d, layer %s: %w", u.Round, u.Device, layer.Name, err)
		}
		at += layer.Values
	}
	return nil
}
