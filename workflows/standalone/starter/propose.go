package starter

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
)

// Options are the settings that the data do not determine.
type Options struct {
	// Name is the name of the experiment, and Source is the source as named in the file.
	Name, Source string
	Seed         uint64
	Federated    bool
	// Private adds a training with differential privacy for comparison.
	Private bool
	// Code is the directory of a training program in Python, or empty for a model of Coalmine.
	Code string
	// Epochs is the number of epochs of the training.
	Epochs int
	// Time is the duration of the training as text, or empty if unknown.
	Time string
}

// Proposal is a first experiment.
type Proposal struct {
	Options
	data *Data
	// Percent is the share of the training part that trains, in percent.
	Percent int
	// sequence is the length at which texts are cut; vocabulary is the number of words.
	sequence, vocabulary int
	// perMille is the share of the test part in thousandths, 0 if the part is a split.
	perMille int
	// words is the number of words of a balanced user, 0 for users as they are.
	words int
	// unknown is the fraction of the words of the training part that the vocabulary lacks.
	unknown  float64
	facts    datasets.Facts
	canaries canarySet
}

// canarySet is the number of canaries by number of copies.
type canarySet struct {
	insertions []int // copies of a canary
	each       int   // canaries for each number of copies
}

func (c canarySet) copies() (sum int) {
	for _, n := range c.insertions {
		sum += n * c.each
	}
	return sum
}

// canarySets are in order of preference: the first that fits into the data is chosen. Five canaries for each number
// of copies are preferred to more numbers of copies, because exposures are compared by copies from five canaries on.
var canarySets = []canarySet{
	{[]int{1, 4, 16, 64}, 10}, {[]int{1, 4, 16, 64}, 5}, {[]int{1, 4, 16}, 5}, {[]int{1, 4, 8}, 5}, {[]int{1, 8}, 5}, {[]int{1, 4}, 5},
	{[]int{1, 4, 16}, 1}, {[]int{1, 4}, 2}, {[]int{1, 4}, 1}, {[]int{1, 2}, 1}, {[]int{1}, 1},
}

const (
	canaryWords = 5
	heldBack    = 10
	// room is the maximum share of canaries in the examples and in the tokens. It is below
	// audits.MaxReplaced, because the shares vary slightly with the seed.
	room = 0.9 * audits.MaxReplaced
	// minUsers is the minimum number of users for federated training. Data with fewer are cut into users of
	// equal size.
	minUsers = 100
	// maxTested bounds the test part, in examples, because every model is measured on all of it.
	maxTested = 5000
	// A vocabulary leaves at most maxUnknown of the words unknown. A vocabulary larger than vocabularies[0]
	// also has at most one word for every seen words of text.
	maxUnknown = 0.05
	seen       = 200
	// minWords is the minimum size of a vocabulary, because each canary begins with a different word.
	minWords = heldBack + 1
	// otherSeeds is the number of further seeds for which the words of a small vocabulary are counted.
	otherSeeds = 4
	// maxCut is the maximum share of texts longer than the sequence, unless the sequence is the longest choice.
	maxCut = 0.25
)

var (
	sequences    = []int{20, 50, 100}
	vocabularies = []int{1000, 2000, 5000, 10000}
)

// Propose chooses the sizes of an experiment from the data. The proposal uses all data.
func (d *Data) Propose(ctx context.Context, o Options) (*Proposal, error) {
	p := &Proposal{Options: o, data: d, Percent: 100, sequence: sequences[0], vocabulary: 1, perMille: 100}
	if d.TestSplit != "" {
		p.perMille = 0
	}
	if err := p.chooseLengths(ctx); err != nil {
		return nil, err
	}
	if err := p.fit(ctx); err != nil {
		return nil, err
	}
	p.unknown = float64(p.facts.Parts.UnknownWords) / float64(max(1, p.facts.Parts.Train.Words))
	return p, nil
}

// With returns the proposal for other numbers of epochs and percent of the data.
func (p *Proposal) With(ctx context.Context, epochs, percent int) (*Proposal, error) {
	other := *p
	other.Epochs, other.Percent = epochs, percent
	if percent == p.Percent {
		return &other, nil
	}
	return &other, other.fit(ctx)
}

// MinTexts is the minimum number of texts with room for five copies of canaries.
const MinTexts = 600

// PercentOf returns the share of the training part, in percent, that has about the given number of texts.
// The proposal must use all data.
func (p *Proposal) PercentOf(texts int) int {
	return min(100, 1+100*texts/max(1, p.facts.Balance.Balanced.Examples))
}

// chooseLengths chooses the sequence length and the vocabulary size.
func (p *Proposal) chooseLengths(ctx context.Context) error {
	p.data.SkipFaults = true
	var recipes []datasets.Recipe
	for _, sequence := range sequences {
		for _, vocabulary := range vocabularies {
			r := p.recipe()
			r.Sequence, r.VocabularySize, r.TrainShare = sequence, vocabulary, 0
			recipes = append(recipes, r)
		}
	}
	facts, err := p.data.source.Survey(ctx, source.Limits{}, recipes)
	if err != nil {
		return err
	}
	src := facts[0].Source
	if p.data.SkipFaults = src.Skipped != nil; p.data.SkipFaults && src.Skipped.Records > src.Examples {
		return &source.Error{File: p.data.source.Name, Err: fmt.Errorf("%d of %s are faulty, the first in %s", src.Skipped.Records, readable.Count(src.Skipped.Records+src.Examples, "record"), src.Skipped.First[0])}
	}
	if p.perMille > 0 {
		p.perMille = min(p.perMille, max(1, 1000*maxTested/max(1, src.Examples)))
	}
	at := 0
	for at+1 < len(sequences) && float64(facts[at*len(vocabularies)].Source.CutExamples) > maxCut*float64(src.Examples) {
		at++
	}
	p.sequence = sequences[at]
	p.chooseVocabulary(facts[at*len(vocabularies):][:len(vocabularies)])
	return nil
}

// chooseVocabulary chooses the smallest vocabulary that is large enough.
func (p *Proposal) chooseVocabulary(facts []datasets.Facts) {
	for i, f := range facts {
		if i > 0 && vocabularies[i] > f.Parts.Train.Words/seen {
			break
		}
		p.vocabulary = vocabularies[i]
		if float64(f.Parts.UnknownWords) <= maxUnknown*float64(f.Parts.Train.Words) {
			break
		}
	}
	p.vocabulary = min(p.vocabulary, facts[0].Parts.DistinctWords)
}

func (p *Proposal) recipe() datasets.Recipe {
	r := datasets.Recipe{
		Seed: p.Seed, Reading: source.Reading{Origin: p.data.Origin, Sequence: p.sequence}, VocabularySize: p.vocabulary,
		TestFraction: float64(p.perMille) / 1000, Words: p.words,
	}
	if p.Percent < 100 {
		r.TrainShare = float64(p.Percent) / 100
	}
	return r
}

// fit chooses the users and the canaries for the share of the data that trains.
func (p *Proposal) fit(ctx context.Context) error {
	p.words = 0
	if err := p.survey(ctx); err != nil {
		return err
	}
	whole := p.facts
	if users := whole.Balance.Balanced; p.Federated && users.Users < minUsers {
		p.words = min(400, max(20, users.Words/(3*minUsers)))
		if err := p.survey(ctx); err != nil {
			return err
		}
		if p.facts.Balance.Balanced.Users > users.Users && p.chooseCanaries() == nil {
			return nil
		}
		p.words, p.facts = 0, whole
	}
	return p.chooseCanaries()
}

func (p *Proposal) survey(ctx context.Context) error {
	facts, err := p.data.source.Survey(ctx, source.Limits{}, []datasets.Recipe{p.recipe()})
	if err != nil {
		return err
	}
	p.facts = facts[0]
	if p.vocabulary <= p.facts.Parts.DistinctWords*4/5 {
		return nil
	}
	return p.boundVocabulary(ctx)
}

// boundVocabulary reduces a vocabulary of nearly all words of the data to a size that the training part of
// every one of the next seeds has. A part of fewer words would be rejected.
func (p *Proposal) boundVocabulary(ctx context.Context) error {
	var recipes []datasets.Recipe
	for i := range uint64(otherSeeds) {
		r := p.recipe()
		r.Seed += i + 1
		recipes = append(recipes, r)
	}
	facts, err := p.data.source.Survey(ctx, source.Limits{}, recipes)
	if err != nil {
		return err
	}
	least := p.facts.Parts.DistinctWords
	for _, f := range facts {
		least = min(least, f.Parts.DistinctWords)
	}
	if least >= p.vocabulary {
		return nil
	}
	p.vocabulary = least
	return p.survey(ctx)
}

// chooseCanaries chooses the first set of canaries for which the data have room.
func (p *Proposal) chooseCanaries() error {
	fault := func(format string, args ...any) error {
		return &source.Error{File: p.data.source.Name, Err: fmt.Errorf(format, args...)}
	}
	trained := p.facts.Balance.Balanced
	if p.Federated && p.facts.Source.Users == 1 {
		return fault("all texts belong to one user, but federated training needs at least 2: --column user=NAME names another column, --algorithm sgd trains centrally")
	}
	if p.Federated && trained.Users < 2 {
		return fault("the texts give %s; expected at least 2 for federated training: add more text, or use --algorithm sgd", readable.Count(trained.Users, "user"))
	}
	if p.vocabulary < minWords {
		return fault("the texts have %s; expected at least %d, because each canary begins with a different word", readable.Count(p.facts.Parts.DistinctWords, "different word"), minWords)
	}
	for _, set := range canarySets {
		if p.canaries = set; p.Share() <= room && len(set.insertions)*set.each+heldBack <= p.vocabulary {
			return nil
		}
	}
	return fault("%s to train on, %d tokens: one canary would be %s of them; expected more text, so that canaries stay below %g%%",
		readable.Count(trained.Examples, "text"), p.tokens(), readable.Share(p.Share()), 100*audits.MaxReplaced)
}

// Summary describes the reading of the data in one line.
func (p *Proposal) Summary() string {
	source, columns := &p.facts.Source, p.data.Columns
	users := readable.Count(source.Users, "user")
	if p.data.Alone {
		users = "no column of users (--column user=NAME names one)"
	}
	named := ""
	if p.data.Choices != nil {
		named = fmt.Sprintf(" in the column %q", cmp.Or(columns.Text, "text"))
		if !p.data.Alone {
			users += fmt.Sprintf(" by the column %q", cmp.Or(columns.User, "user"))
		}
	}
	if unused := p.data.unused(); len(unused) > 0 {
		users += "; not used: " + forms.Quoted(unused)
	}
	return fmt.Sprintf("%s%s, %s", readable.Count(source.Examples, "text"), named, users)
}

// tokens returns the number of training tokens, including the end of each text.
func (p *Proposal) tokens() int {
	return p.facts.Balance.Balanced.Words + p.facts.Balance.Balanced.Examples
}

// shares returns the expected shares of inserted examples and of inserted tokens.
func (p *Proposal) shares() (examples, tokens float64) {
	copies := float64(p.canaries.copies())
	examples = copies / float64(max(1, p.facts.Balance.Balanced.Examples))
	inserted := copies * (canaryWords + 1)
	replaced := examples * float64(p.tokens())
	return examples, inserted / max(1, float64(p.tokens())-replaced+inserted)
}

// Share returns the larger of the expected shares of inserted examples and of inserted tokens.
func (p *Proposal) Share() float64 { return max(p.shares()) }

// largeText is the number of tokens above which a larger model learns more.
const largeText = 300_000

func (p *Proposal) model() (embedding, units int) {
	if p.tokens() > largeText {
		return 64, 128
	}
	return 32, 64
}

// cohort returns the cohort size of a federated round.
func (p *Proposal) cohort() int { return min(10, p.facts.Balance.Balanced.Users) }

// batch returns a batch size with which an average client takes at least two steps.
func (p *Proposal) batch() int {
	trained := p.facts.Balance.Balanced
	return min(16, max(1, trained.Examples/max(1, trained.Users)/2))
}

// delta returns a delta below 1/n for n protected units.
func (p *Proposal) delta() string {
	units := cmp.Or(p.facts.Balance.Balanced.Examples, 1)
	return fmt.Sprintf("1e-%d", max(5, len(strconv.Itoa(units))))
}
