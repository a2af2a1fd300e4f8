// Package suggestions measures how many canaries a keyboard would complete: whether the last
// word of a canary is among the words that the model suggests after the others.
package suggestions

import (
	"context"
	"fmt"
	"math"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Fields of the audit block.
type Fields struct {
	// Suggestions counts the canaries whose last word the model suggests. Absent: not done.
	Suggestions *Block `json:"suggestions,omitempty"`
}

// Block of the audit's fields, and the parameters of its task.
type Block struct {
	// Shown is the number of words that a keyboard shows.
	Shown int `json:"shown" default:"3" range:"[1,100]" unit:"words"`
}

// Check implements audits.Fields.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	switch {
	case s.Canaries == nil:
		fail([]string{"audit.suggestions", "canaries"}, "looks for canaries, but the experiment inserts none; add canaries, or remove audit.suggestions")
	case s.Reading.Level == text.ByteLevel:
		fail([]string{"audit.suggestions", "data.level"}, "suggests words, but data.level: byte has none; use data.level: word, or remove audit.suggestions")
	}
}

// Compile implements audits.Fields.
func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	return b.Node(kind, fmt.Sprintf("suggestions after %d", round), f.Suggestions,
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: audits.PlacementsInput, Key: b.Placements()})
}

// States implements audits.Scorer.
func (f *Fields) States(s *audits.Setting) (states float64) {
	for _, g := range s.Canaries.Groups {
		states += float64(g.Count * g.Words)
	}
	return states
}

// kind ranks the last words of all canaries under one checkpoint.
var kind = tasks.Kind{Name: "audits/suggestions", Version: 1, Class: tasks.Compute, Run: audits.SummaryRun(suggested.Measures(), measure)}

func measure(ctx context.Context, t *tasks.Task, p *Block, placed []population.Placement) (*Outcome, []CanaryOutcome, error) {
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, nil, err
	}
	found := make([]CanaryOutcome, len(placed))
	for i, c := range placed {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		rank, err := rankOfLast(scorer, c.Tokens)
		if err != nil {
			return nil, nil, tasks.Permanent(fmt.Errorf("canary %d: %w", i, err))
		}
		found[i] = CanaryOutcome{Rank: &rank, Suggested: new(rank <= p.Shown)}
	}
	counted, err := audits.Count(placed, func(canary int) bool { return *found[canary].Suggested })
	return &Outcome{Suggested: counted.Memorized, Of: counted.Of, Shown: p.Shown}, found, err
}

// rankOfLast returns the number of words that are at least as probable as the last one after the
// others, itself included.
func rankOfLast(scorer *models.Scorer, words []int32) (int, error) {
	last := len(words) - 1
	state, err := audits.PrefixState(scorer, words[:last])
	if err != nil {
		return 0, err
	}
	row := make([]float32, scorer.Model().Config().Vocabulary)
	if err := scorer.LogProbRows(state, row); err != nil {
		return 0, err
	}
	if p := float64(row[words[last]]); math.IsNaN(p) {
		return 0, &models.DivergedError{Name: "probability of a suggestion", Value: p}
	}
	rank := 0
	for _, p := range row[text.FirstWord:] {
		if p >= row[words[last]] {
			rank++
		}
	}
	return rank, nil
}

// Outcome counts the inserted canaries whose last word is among the words shown.
type Outcome struct {
	Suggested int `json:"suggested"`
	Of        int `json:"of"`
	Shown     int `json:"shown"`
}

// CanaryOutcome is the place of a canary's last word among all words, by probability.
type CanaryOutcome struct {
	Rank      *int  `json:"suggested_rank" doc:"rank of the canary's last word after the others, 1 for the likeliest"`
	Suggested *bool `json:"suggested" doc:"whether the model suggests the canary's last word"`
}

// Note implements audits.Noter.
func (o *Outcome) Note(*audits.Cell) string {
	return fmt.Sprintf("suggested: the last word of a canary is among the first %d after the others", o.Shown)
}

// Audit describes the audit.
var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:     "suggestions",
	Kinds:    []tasks.Kind{kind},
	Measures: suggested.Measures(),
	Canary:   audits.Members[CanaryOutcome](audits.Measure{Name: "suggested", Paired: true}),
	Limits:   []audits.Limit{suggested.Limit()},
	Power:    suggested.Power,
})

// suggested is a column, a limit and a curve.
var suggested = audits.CountOf[Outcome]{
	Measure: audits.Measure{
		Name: "suggested", Doc: "inserted canaries whose last word the model suggests after the others", Header: "suggested",
		Among: "suggested_of", Canary: "suggested", Curve: canaries.Memorized("suggestions"),
	},
	Counted:  func(o *Outcome) (count, of int) { return o.Suggested, o.Of },
	ByChance: byChance,
}

// byChance bounds the probability that more than k of n unmemorized canaries are suggested:
// their last words are drawn independently, and each is among the shown words with a probability
// of at most Shown / choices.
func byChance(s *audits.Setting, k, n, _ int) float64 {
	f, _ := audits.FieldsOf[*Fields](s)
	p := 0.0
	for _, g := range s.Canaries.Groups {
		p = max(p, min(1, float64(f.Suggestions.Shown)/g.Sequences(s.Ordinary, g.Words-1)))
	}
	return audits.BinomialTail(k, n, p)
}
