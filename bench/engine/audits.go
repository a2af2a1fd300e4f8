package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/training"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

// subject returns a model to audit, or nil and the reason. The first call makes all models, which takes
// a minute or two.
func (b *bench) subject(ctx context.Context, r *Row, name string) (*Subject, error) {
	if b.subjects == nil {
		var err error
		b.subjects, err = Subjects(ctx, b.Text)
		if errors.Is(err, fs.ErrNotExist) {
			r.Skipped = noText(b.Text)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range b.subjects {
		if b.subjects[i].Name == name {
			return &b.subjects[i], nil
		}
	}
	return nil, fmt.Errorf("no %s model to audit", name)
}

// wholeSequences is the number of sequences scored together.
const wholeSequences = 480

// measureWholeScoring measures the kernels' rate without savings; the row scoring shows the savings of
// bounds and sharing.
func measureWholeScoring(ctx context.Context, b *bench, r *Row) error {
	scorer, err := newScorer(paper.config)
	if err != nil {
		return err
	}
	rng, words := seeds.Stream(seed, seeds.References), make([]int32, wholeSequences)
	for i := range words {
		words[i] = int32(rng.IntN(paper.config.Vocabulary))
	}
	states, logProbs := scorer.Start(wholeSequences), make([]float32, wholeSequences)
	err = b.rates(ctx, r, job{flops: wholeSequences * scorer.Model().ScoringFLOPs(), tokens: wholeSequences, run: func() error {
		if err := scorer.Step(states, words); err != nil {
			return err
		}
		return scorer.LogProbs(states, words, logProbs)
	}}, nil)
	r.goal(r.OfPeak >= 0.8, "80% of peak")
	return err
}

// tokenUser is the text of a user in three forms: 40 sentences of 20 targets, its words, and its bytes.
type tokenUser struct {
	sentences [][]int32
	words     []int64
	text      []byte
}

// measureTokenScores compares the work for all membership attacks by one scoring with computing only the
// losses. Texts are compressed after all scoring, because compression is a separate task.
func (s step) measureTokenScores(ctx context.Context, b *bench, r *Row) error {
	scorer, err := newScorer(s.config)
	if err != nil {
		return err
	}
	users := make([]tokenUser, 8)
	for i := range users {
		users[i].draw(seeds.Stream(seed, seeds.References, uint64(i)), s.config.Vocabulary)
	}
	tokens := 40 * 20 * len(users)
	alone := func() (err error) {
		for _, user := range users {
			_, failed := scorer.Losses(user.sentences)
			err = errors.Join(err, failed)
		}
		return err
	}
	all := func() (err error) {
		for _, user := range users {
			scores, failed := scorer.TokenScores(user.sentences)
			membership.LossOf(slices.Concat(scores...))
			err = errors.Join(err, failed)
		}
		for _, user := range users {
			membership.NewUserText(user.words, user.text)
		}
		return err
	}
	err = b.rates(ctx, r, job{flops: float64(tokens) * scorer.Model().ScoringFLOPs(), tokens: tokens, run: alone}, all)
	r.goal(r.Ratio <= 1.3, "at most 1.3 times the losses")
	return err
}

func (u *tokenUser) draw(rng *rand.Rand, vocabulary int) {
	for range 40 {
		sentence := make([]int32, 21)
		for i := range sentence {
			word := rng.IntN(vocabulary)
			sentence[i] = int32(word)
			u.words, u.text = append(u.words, int64(word)), fmt.Appendf(u.text, "%d ", word)
		}
		u.sentences = append(u.sentences, sentence)
	}
}

func measureScoring(ctx context.Context, b *bench, r *Row) error {
	s, err := b.subject(ctx, r, "untrained")
	if s == nil {
		return err
	}
	peak := kernels.PeakGFLOPS(peakTime)
	t, err := Rank(ctx, s, 0, References)
	if err != nil {
		return err
	}
	peak = (peak + kernels.PeakGFLOPS(peakTime)) / 2
	r.GFLOPS, r.OfPeak, r.Seconds = t.GFLOPS, t.GFLOPS/peak, t.Seconds
	r.SequencesPerSecond, r.BruteForceGFLOPS = t.SequencesPerSecond, t.BruteForceGFLOPS
	r.Ratio = t.BruteForceGFLOPS / peak
	r.goal(r.OfPeak >= 0.8, "80% of peak")
	return nil
}

// auditSeconds is the goal for a whole audit.
const auditSeconds = 180

func measureAudit(name string) measure {
	return func(ctx context.Context, b *bench, r *Row) error {
		s, err := b.subject(ctx, r, name)
		if s == nil {
			return err
		}
		t, err := Audit(ctx, s, runtime.GOMAXPROCS(0), References)
		if err != nil {
			return err
		}
		r.Seconds = t.Seconds
		r.SequencesPerSecond = float64(t.Canaries) * float64(t.References) / t.Seconds
		r.goal(t.Seconds < auditSeconds, "under 3 minutes")
		return nil
	}
}

// A search of this benchmark is for nine digits, and an untrained model makes it expand all nodes.
const (
	searchedDigits = 9
	searchedAtOnce = 1000
	searchedNodes  = 1 + 10 + 100 + 20*searchedAtOnce // the first iterations have fewer nodes to expand
)

// measureSearch compares a search that expands many nodes at once, as Carlini et al. 2019, section 8.1,
// do on a GPU, with a search that expands one node at a time.
func measureSearch(ctx context.Context, b *bench, r *Row) error {
	scorer, err := newScorer(byteModel.config)
	if err != nil {
		return err
	}
	digits := make([]int32, 10)
	for i := range digits {
		digits[i] = int32(text.FirstWord) + '0' + int32(i)
	}
	tree, err := search.NewTree(scorer, digits[:1], slices.Repeat([][]int32{digits}, searchedDigits))
	if err != nil {
		return err
	}
	expand := func(batch int) func() error {
		return func() error {
			settings := search.Settings{Batch: batch, Results: 1, Prove: 1, Memory: 256 << 20}
			_, err := search.Likeliest(ctx, tree, settings, searchedNodes, func(int) {})
			return err
		}
	}
	j := job{searchedNodes * scorer.Model().ScoringFLOPs(), searchedNodes, expand(searchedAtOnce)}
	return b.rates(ctx, r, j, expand(1))
}

// Subject is a model to audit.
type Subject struct {
	// Name is "untrained" or "trained".
	Name string
	// Model is a safetensors file, Canaries a JSON array of population.Placement.
	Model    []byte
	Canaries []byte
}

// recipe is the paper's model (Thakkar et al. 2020, section 4.1) and its 90
// canaries, in a short training: a part of the text, few steps, and canaries so
// frequent that some are memorized, some half, and some not.
const recipe = `
name: bench-audit
data: {source: text, vocabulary: {size: %d}, users: {words: 400}}
canaries:
  per_configuration: 10
  held_back: 0
  user_probability: [1/800, 1/400, 1/200]
  example_probability: [5%%, 25%%, 100%%]
model: {kind: cifg-lstm, embedding: 96, units: 670}
training:
  algorithm: sgd
  rounds: %d
  cohort: 32
  client: {learning_rate: 4, gradient_clip: 0.5}
audit: {random_sampling: {}, utility: false}
`

// size is the size of a training: words of the vocabulary, records of the text, and steps.
type size struct{ vocabulary, records, steps int }

var paperSize = size{vocabulary: 10_000, records: 16_000, steps: 1_000}

// Subjects makes the untrained and the trained model from a text in the format
// of data sources: JSON lines with user and text, such as
// examples/data/state-of-the-union.jsonl.gz. Training takes one or two minutes.
func Subjects(ctx context.Context, path string) ([]Subject, error) {
	return subjects(ctx, path, paperSize)
}

func subjects(ctx context.Context, path string, scale size) ([]Subject, error) {
	text, err := firstRecords(ctx, path, scale.records)
	if err != nil {
		return nil, err
	}
	p, err := planTraining(ctx, text, scale)
	if err != nil {
		return nil, err
	}
	x := localexec.New(p, compile.Registry(), text)
	list, err := blobOf(ctx, x, theOnly(p, canaries.Draw), population.CanariesBlob)
	if err != nil {
		return nil, err
	}
	untrained, err := blobOf(ctx, x, theOnly(p, training.Initial), tasks.ModelBlob)
	if err != nil {
		return nil, err
	}
	trained, err := blobOf(ctx, x, p.Cells[0].Model, tasks.ModelBlob)
	if err != nil {
		return nil, err
	}
	return []Subject{
		{Name: "untrained", Model: untrained, Canaries: list},
		{Name: "trained", Model: trained, Canaries: list},
	}, nil
}

// blobOf runs a node of the plan and its inputs, and returns one of its blobs.
func blobOf(ctx context.Context, x *localexec.Executor, r plan.Ref, name string) ([]byte, error) {
	if err := x.Reach(ctx, r); err != nil {
		return nil, err
	}
	return x.Blob(ctx, r.Key, name)
}

func theOnly(p *plan.Plan, kind tasks.Kind) plan.Ref {
	for key, n := range p.Nodes {
		if n.Kind == kind.Name {
			return plan.Ref{Key: key}
		}
	}
	panic("audit: the recipe has no " + kind.Name)
}

// firstRecords returns the first records of a source, as JSON lines.
func firstRecords(ctx context.Context, path string, most int) ([]byte, error) {
	file := source.File{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	var b bytes.Buffer
	encoder, n := json.NewEncoder(&b), 0
	for record, err := range source.Records(ctx, []source.File{file}, source.Limits{}) {
		if err != nil {
			return nil, err
		}
		if err := encoder.Encode(map[string]string{"user": record.User, "text": record.Text}); err != nil {
			return nil, err
		}
		if n++; n == most {
			break
		}
	}
	return b.Bytes(), nil
}

func planTraining(ctx context.Context, text []byte, scale size) (*plan.Plan, error) {
	file := fmt.Appendf(nil, recipe, scale.vocabulary, scale.steps)
	s, err := submission.PrepareFile(ctx, "bench", file, experiment.Options{}, sources.Text(text), nil)
	if err != nil {
		return nil, err
	}
	return compile.Plan(s.Spec)
}

// followedExperiment trains twice: the server of the second training tracks the cosines of a thousand
// canary clients and of a thousand unseen directions.
const followedExperiment = `
name: bench-canaries
data: {source: synthetic, vocabulary: {size: %d}, users: {words: %d}}
model: {kind: cifg-lstm, embedding: %d, units: %d}
training:
  rounds: %d
  cohort: %d
  chunks: 1
  client: {batch: 16, learning_rate: 1}
  privacy: {clip: 1}
grid:
  axes:
    audit.one_shot: [null, {canaries: 1000, statistic: all-iterates}]
`

const (
	// maxFollowing is the share of a round that following canaries may take.
	maxFollowing = 0.03
	// timedClients is the number of timed clients, and timedWords the words of each; a client of the
	// papers takes longer in proportion to its words.
	timedClients, timedWords = 10, 304
	paperWords               = 2000
)

// measureFollowing measures the share of a round, with clients and words as in the papers, that
// following a thousand canaries takes: the additional time of the server's task, relative to all tasks
// of such a round, of which a small one is timed.
func (s step) measureFollowing(clients int) measure {
	return func(ctx context.Context, b *bench, r *Row) error {
		return s.measureFollowed(ctx, b, r, float64(clients*paperWords)/(timedClients*timedWords))
	}
}

// measureFollowed measures it for a round whose clients take the given multiple of the time of the timed
// ones.
func (s step) measureFollowed(ctx context.Context, b *bench, r *Row, times float64) error {
	file := fmt.Sprintf(followedExperiment, s.config.Vocabulary-specialTokens, timedWords, s.config.Embedding, s.config.Units, warmRounds+b.Repeat, timedClients)
	plain, followed, err := timeTrainings(ctx, file)
	if err != nil {
		return err
	}
	var shares []float64
	for i := warmRounds; i < len(followed); i++ {
		round := plain[i].clients*times + followed[i].server
		shares = append(shares, (followed[i].server-plain[i].server)/round)
	}
	r.Share = median(shares)
	r.goal(r.Share <= maxFollowing, fmt.Sprintf("at most %.0f%%", 100*maxFollowing))
	return nil
}
