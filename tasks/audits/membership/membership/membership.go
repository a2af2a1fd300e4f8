// Package membership infers from a model whether it was trained on a user's data (membership
// inference for whole users). It compares how well the model predicts the texts of users that
// trained and of those of data.held_out_users.
//
//	audits/user-losses   the loss of a model on each user of one share of them
//	audits/user-texts    the words of each user, without a model
//	audits/membership    the outcomes of attacks, with and without reference models, and of a blind baseline
//
// A reference model is a training of the cell's recipe on half of all users, drawn by
// datasets/reference-users. Cells that differ only in the audit or in canaries share them.
package membership

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/models"
	"coalmine/models/ranking"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/population"
)

// LossesBlob is a JSON array of UserLoss: the balanced users that train, by index, and then the held-out
// ones.
const LossesBlob = "losses"

// UserLoss is the loss of a model on a user's training examples that no canary replaced, or on all examples
// of a held-out user.
type UserLoss struct {
	// Targets is the number of predicted tokens of texts with their ends, or labels of images. An external
	// model predicts only words.
	Targets int64 `json:"targets"`
	// Loss is the sum of their losses, in nats.
	Loss float64 `json:"loss"`
	// ByToken reports whether MinK, MinKPlusPlus and Curvature are known, because the audited model scores
	// single tokens. The first two are means over the rarest targets, the lowest minShare of each score.
	ByToken      bool    `json:"by_token,omitempty"`
	MinK         float64 `json:"min_k,omitempty"`
	MinKPlusPlus float64 `json:"min_k_plus_plus,omitempty"`
	// Curvature is the mean excess of a target's log-likelihood over that of a token drawn by the model in
	// its place, in standard deviations of the latter.
	Curvature float64 `json:"curvature,omitempty"`
	// LogProbsAlone reports whether only MinK is known of these: the model returns no probabilities except those
	// of targets.
	LogProbsAlone bool `json:"log_probs_alone,omitempty"`
	// Prefixed is the loss after the texts of LossParams.PrefixUsers, who are Aside and have none. Neighbours
	// is the mean loss of neighbours of the text. Both are 0 if not requested.
	Prefixed   float64 `json:"prefixed,omitempty"`
	Neighbours float64 `json:"neighbours,omitempty"`
	Aside      bool    `json:"aside,omitempty"`
	// Member reports whether the user trained. Replaced is the number of examples that are canaries.
	Member   bool `json:"member,omitempty"`
	Replaced int  `json:"replaced,omitempty"`
}

// ByDistribution reports whether MinKPlusPlus and Curvature are known.
func (l *UserLoss) ByDistribution() bool { return l.ByToken && !l.LogProbsAlone }

// minShare is the share of a user's targets in Min-K%: 20%, as in Shi et al. 2024.
const minShare = 0.2

// LossOf sums the scores of all targets of a user.
func LossOf(scores []models.TokenScore) UserLoss {
	l := UserLoss{Targets: int64(len(scores))}
	if len(scores) == 0 {
		return l
	}
	plain, standard := make([]float64, len(scores)), make([]float64, len(scores))
	apart, variance := 0.0, 0.0
	for i, s := range scores {
		l.Loss -= float64(s.LogProb)
		plain[i], standard[i] = float64(s.LogProb), (float64(s.LogProb)-s.Mean)/max(s.Deviation, minDeviation)
		apart += float64(s.LogProb) - s.Mean
		variance += float64(s.Deviation * s.Deviation)
	}
	n := float64(len(scores))
	l.ByToken, l.MinK, l.MinKPlusPlus = true, meanOfLeast(plain), meanOfLeast(standard)
	l.Curvature = apart / n / max(math.Sqrt(variance/n), minDeviation)
	return l
}

// OfTargets adds the scores that depend only on log-probabilities of targets, at least one.
func (l *UserLoss) OfTargets(logProbs []float64) {
	l.ByToken, l.LogProbsAlone, l.MinK = true, true, meanOfLeast(slices.Clone(logProbs))
}

// minDeviation keeps a score finite if a model gives all tokens the same probability.
const minDeviation = 1e-6

// meanOfLeast returns the mean of the lowest minShare of the values, at least one value. It reorders them.
func meanOfLeast(values []float64) float64 {
	return ranking.Mean(lowest(values, max(1, int(minShare*float64(len(values))))))
}

// lowest returns the n lowest of the values in ascending order, and reorders the others.
func lowest(values []float64, n int) []float64 {
	if width := slices.Max(values) - slices.Min(values); 0 < width && width <= math.MaxFloat64 {
		values = firstIntervals(values, n, width)
	}
	slices.Sort(values)
	return values[:n]
}

// firstIntervals counts the values, which are finite and differ by width at most, in intervals of one width.
// It returns the values of the first intervals that have n of them, because sorting all would take longer.
func firstIntervals(values []float64, n int, width float64) []float64 {
	var counts [256]int
	least := slices.Min(values)
	interval := func(v float64) int { return int((v - least) / width * float64(len(counts)-1)) }
	for _, v := range values {
		counts[interval(v)]++
	}
	last, counted := 0, counts[0]
	for counted < n {
		last++
		counted += counts[last]
	}
	kept := values[:0] // never longer than the part that has been read
	for _, v := range values {
		if interval(v) <= last {
			kept = append(kept, v)
		}
	}
	return kept
}

// Losses measures a model on the users of a share; ScoredLosses measures an external model. Inputs:
// audits.ModelInput, population.BalancedInput, population.PartsInput, and population.InsertionsInput if there are
// canaries.
var (
	Losses       = tasks.Kind{Name: "audits/user-losses", Version: 3, Class: tasks.Compute, Run: tasks.WithParams(runLosses)}
	ScoredLosses = tasks.Kind{Name: "audits/user-losses-by-scores", Version: 1, Class: tasks.Compute, Command: true, Run: tasks.WithParams(runLosses)}
)

func runLosses(ctx context.Context, t *tasks.Task, p *LossParams) error {
	all, err := openEveryone(ctx, t)
	if err != nil {
		return err
	}
	others := comparison{LossParams: *p, all: &all}
	return utility.MeasureUsers(ctx, t, &p.UserShare, LossesBlob, all.users(), func(model *utility.UserModel, user int) (UserLoss, error) {
		examples, replaced, err := all.read(ctx, user)
		if err != nil {
			return UserLoss{}, err
		}
		loss, err := lossOf(model, examples)
		if err == nil && len(examples) > 0 {
			err = others.measure(ctx, model, user, examples, &loss)
		}
		if err != nil {
			return loss, fmt.Errorf("user %d: %w", user, err)
		}
		loss.Member, loss.Replaced = all.member(user), replaced
		return loss, nil
	})
}

func lossOf(model *utility.UserModel, examples [][]int32) (UserLoss, error) {
	if len(examples) == 0 {
		return UserLoss{}, nil
	}
	if model.Score != nil {
		found, err := model.Score(nil, examples)
		loss := UserLoss{Targets: found.Words, Loss: found.Loss}
		if len(found.LogProbs) > 0 {
			loss.OfTargets(found.LogProbs)
		}
		return loss, err
	}
	if model.Scorer != nil {
		scores, err := model.Scorer.TokenScores(examples)
		return LossOf(slices.Concat(scores...)), tasks.Permanent(err)
	}
	return lossAlone(model, examples)
}

func lossAlone(model *utility.UserModel, examples [][]int32) (UserLoss, error) {
	found, err := model.Evaluate(examples)
	tally := found.All
	if tally.Tokens == 0 { // a program counts only ordinary words
		tally = found.Counted
	}
	return UserLoss{Targets: tally.Tokens, Loss: tally.Loss}, err
}

// everyone is the balanced users that train, by index, and then the held-out ones.
type everyone struct{ members, heldOut *population.Population }

func openEveryone(ctx context.Context, t *tasks.Task) (all everyone, err error) {
	if all.members, err = population.OpenBalanced(ctx, t, population.BalancedInput, population.PartsInput, false); err != nil {
		return all, err
	}
	all.heldOut, err = population.OpenBalanced(ctx, t, population.BalancedInput, population.PartsInput, true)
	return all, err
}

func (e *everyone) users() int           { return e.members.Users() + e.heldOut.Users() }
func (e *everyone) member(user int) bool { return user < e.members.Users() }

// heldOutIndex returns the index of a held-out user; below 0 for a member.
func (e *everyone) heldOutIndex(user int) int { return user - e.members.Users() }

// read returns the examples of a user that no canary replaced, and the number of replaced ones.
func (e *everyone) read(ctx context.Context, user int) (examples [][]int32, replaced int, err error) {
	if e.member(user) {
		return e.members.ReadOwn(ctx, user)
	}
	return e.heldOut.ReadOwn(ctx, e.heldOutIndex(user))
}

type Params struct {
	// Shares is the number of shares of the users, each measured by a task.
	Shares int `json:"shares"`
	// Texts reports whether the users' texts are an input.
	Texts bool `json:"texts,omitempty"`
	Rescoring
	// References is the number of reference models, Seed the seed of their users and of intervals.
	References int    `json:"references,omitempty"`
	Seed       uint64 `json:"seed,omitempty"`
}

// ReferenceInput names a share of a reference model's losses.
func ReferenceInput(model, share int) string {
	return fmt.Sprintf("reference-%d-%s", model, tasks.PartInput(share))
}

// Kind attacks a model. Its inputs are audits/user-losses of the model, by tasks.PartInput, and of the
// reference models, by ReferenceInput, and audits/user-texts by TextsInput. Its blob is audits.OutcomeBlob.
var Kind = tasks.Kind{Name: "audits/membership", Version: 5, Class: tasks.Compute, Run: audits.Finds(audits.OutcomeBlob, run)}

func run(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	if n := p.References; n < 0 || n%2 == 1 || n > 0 && n < minReferences {
		return nil, tasks.Permanent(fmt.Errorf("%d reference models; expected 0, or an even number from %d", n, minReferences))
	}
	losses, texts, err := p.read(ctx, t)
	if err != nil {
		return nil, err
	}
	w := newWorld(losses, p.Seed)
	w.Rescoring = p.Rescoring
	if p.Texts {
		w.read(texts)
	}
	if err := p.eachReference(ctx, t, len(losses), w.refer); err != nil {
		return nil, err
	}
	v, err := w.outcome()
	return v, tasks.Permanent(err)
}

// read reads the losses under the audited model, and the texts if Texts is set.
func (p *Params) read(ctx context.Context, t *tasks.Task) (losses []UserLoss, texts []UserText, err error) {
	if losses, err = p.readLosses(ctx, t, tasks.PartInput); err == nil && p.Texts {
		texts, err = readTexts(ctx, t, len(losses))
	}
	return losses, texts, err
}

// eachReference calls do with the losses of the users under each reference model, and which of them trained it.
func (p *Params) eachReference(ctx context.Context, t *tasks.Task, users int, do func(losses []UserLoss, in []bool) error) error {
	for model := range p.References {
		losses, err := p.readLosses(ctx, t, func(share int) string { return ReferenceInput(model, share) })
		if err != nil {
			return err
		}
		if len(losses) != users {
			return fmt.Errorf("reference model %d: losses of %d users; expected those of %d, as of the audited model: %w", model, len(losses), users, storage.ErrCorrupt)
		}
		if err := do(losses, p.trained(model, users)); err != nil {
			return tasks.Permanent(fmt.Errorf("reference model %d: %w", model, err))
		}
	}
	return nil
}

// trained reports for each user whether a reference model trained on it.
func (p *Params) trained(model, users int) []bool {
	return population.ReferenceParams{Seed: p.Seed, Model: model}.Members(users)
}

// readLosses reads the losses of all users under a model.
func (p *Params) readLosses(ctx context.Context, t *tasks.Task, input func(share int) string) (all []UserLoss, err error) {
	ends := make([]int, p.Shares)
	for share := range ends {
		losses, err := readShare(ctx, t, input(share))
		if err != nil {
			return nil, err
		}
		all = append(all, losses...)
		ends[share] = len(all)
	}
	for share, end := range ends {
		if _, want := p.share(share).Users(len(all)); end != want {
			return nil, fmt.Errorf("%s ends with user %d of %d; expected %d, because all shares have equally many users: %w", input(share), end, len(all), want, storage.ErrCorrupt)
		}
	}
	return all, nil
}

func (p *Params) share(share int) *utility.UserShare {
	return &utility.UserShare{Share: share, Shares: p.Shares}
}

func readShare(ctx context.Context, t *tasks.Task, input string) (losses []UserLoss, err error) {
	if err := t.InputJSON(ctx, input, LossesBlob, &losses); err != nil {
		return nil, err
	}
	for i, l := range losses {
		if math.IsNaN(l.Loss) || math.IsInf(l.Loss, 0) {
			return nil, tasks.Permanent(fmt.Errorf("user %d of %s has the loss %v; expected a finite number: the model has diverged", i, input, l.Loss))
		}
	}
	return losses, nil
}

// User holds the losses of a user under all models of an audit.
type User struct {
	UserLoss
	// Text is empty for images.
	Text       UserText
	References []ReferenceLoss
}

// ReferenceLoss is the loss of a user under a reference model, over the same targets.
type ReferenceLoss struct {
	Loss   float64
	Member bool
}

// EachUser calls do for every user, in the order of LossesBlob. It holds the losses under reference models of
// one share of the users at a time. The task has the inputs of Kind.
func (p *Params) EachUser(ctx context.Context, t *tasks.Task, do func(User) error) error {
	losses, texts, err := p.read(ctx, t)
	if err != nil {
		return err
	}
	for share := range p.Shares {
		first, end := p.share(share).Users(len(losses))
		references, err := p.readReferences(ctx, t, share, len(losses))
		if err != nil {
			return err
		}
		for user := first; user < end; user++ {
			u := User{UserLoss: losses[user], References: references[user-first]}
			if p.Texts {
				u.Text = texts[user]
			}
			if err := do(u); err != nil {
				return err
			}
		}
	}
	return nil
}

// readReferences reads the losses of a share's users under all reference models, by user and model.
func (p *Params) readReferences(ctx context.Context, t *tasks.Task, share, users int) ([][]ReferenceLoss, error) {
	first, end := p.share(share).Users(users)
	references := make([][]ReferenceLoss, end-first)
	for i := range references {
		references[i] = make([]ReferenceLoss, p.References)
	}
	for model := range p.References {
		input := ReferenceInput(model, share)
		losses, err := readShare(ctx, t, input)
		if err != nil {
			return nil, err
		}
		if len(losses) != end-first {
			return nil, fmt.Errorf("%s has losses of %d users; expected those of %d, as of the audited model: %w", input, len(losses), end-first, storage.ErrCorrupt)
		}
		in := p.trained(model, users)[first:end]
		for i, l := range losses {
			references[i][model] = ReferenceLoss{l.Loss, in[i]}
		}
	}
	return references, nil
}
