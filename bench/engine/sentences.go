package engine

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/models"
	"coalmine/tasks/audits"
	drawing "coalmine/tasks/audits/models/samples"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// sentenceBatches is the number of measured batches of real sentences, spread evenly over the text.
const sentenceBatches = 6

func measureSentences(ctx context.Context, b *bench, r *Row) error {
	if err := b.sentences(ctx, r, 0); err != nil || r.Skipped != "" {
		return err
	}
	r.goal(r.Ratio >= 1.5, "1.5 times")
	return nil
}

func noText(path string) string { return fmt.Sprintf("no text %s: name one by --text", path) }

func measureCutSentences(ctx context.Context, b *bench, r *Row) error {
	return b.sentences(ctx, r, text.SentenceWords)
}

// sentences measures batches of real sentences against the same batches padded.
func (b *bench) sentences(ctx context.Context, r *Row, cut int) error {
	batches, err := readBatches(ctx, b.Text, cut)
	if os.IsNotExist(err) {
		r.Skipped = noText(b.Text)
		return nil
	}
	if err != nil {
		return err
	}
	l, err := newLearner(paper.config)
	if err != nil {
		return err
	}
	padded, tokens := make([][][]int32, len(batches)), 0
	for i, batch := range batches {
		padded[i] = pad(batch)
		tokens += targets(batch)
	}
	run := func(batches [][][]int32) func() error {
		return func() error {
			for _, batch := range batches {
				if err := l.step(batch); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return b.rates(ctx, r, job{float64(tokens) * l.model.TrainingFLOPs(), tokens, run(batches)}, run(padded))
}

func targets(batch [][]int32) int {
	n := 0
	for _, s := range batch {
		n += len(s) - 1
	}
	return n
}

// pad returns the batch with every sentence as long as its longest.
func pad(batch [][]int32) [][]int32 {
	longest := 0
	for _, s := range batch {
		longest = max(longest, len(s))
	}
	padded := make([][]int32, len(batch))
	for i, s := range batch {
		padded[i] = make([]int32, longest) // text.Padding
		copy(padded[i], s)
	}
	return padded
}

// readBatches reads batches of consecutive sentences of one user from a text, each framed by begin and
// end. A cut above 0 limits their words as training does. The ids of words do not matter here, nor does
// the use of the paper's vocabulary.
func readBatches(ctx context.Context, path string, cut int) ([][][]int32, error) {
	file := source.File{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	var all [][][]int32
	var batch [][]int32
	user, ids := "", map[string]int32{}
	for record, err := range source.Records(ctx, []source.File{file}, source.Limits{}) {
		if err != nil {
			return nil, err
		}
		if record.User != user {
			user, batch = record.User, nil
		}
		batch = append(batch, sentence(record.Text, cut, ids))
		if len(batch) == batchSize {
			all, batch = append(all, batch), nil
		}
	}
	if len(all) < sentenceBatches {
		return nil, fmt.Errorf("%s: %d batches of %d sentences of one user: want at least %d", path, len(all), batchSize, sentenceBatches)
	}
	chosen := make([][][]int32, sentenceBatches)
	for i := range chosen {
		chosen[i] = all[i*len(all)/sentenceBatches]
	}
	return chosen, nil
}

func sentence(content string, cut int, ids map[string]int32) []int32 {
	framed := []int32{text.Begin}
	for _, word := range text.Tokenize(content) {
		if len(framed) == cut+1 && cut > 0 {
			return framed
		}
		id, known := ids[word]
		if !known {
			id = int32(text.FirstWord + len(ids)%(paper.config.Vocabulary-text.FirstWord))
			ids[word] = id
		}
		framed = append(framed, id)
	}
	if len(framed) == cut+1 {
		return framed
	}
	return append(framed, text.End)
}

// Number and words of the sentences that the row draws, and its time limit.
const (
	sentences       = 100_000
	sentenceWords   = 10
	sentenceSeconds = 300
)

// measureSampling draws sentences from the untrained model, which begins few of them alike
// and rarely ends one: only the first word is shared.
func measureSampling(ctx context.Context, _ *bench, r *Row) error {
	scorer, err := newScorer(paper.config)
	if err != nil {
		return err
	}
	draw := models.Draw{Sampling: models.Sampling{Temperature: 1}, Prefix: []int32{text.Begin}, End: text.End, AtMost: sentenceWords}
	var words atomic.Int64
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, span := range audits.Split(sentences, drawing.Together) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			drawn, err := drawing.Draw(scorer, draw, seed, span.First, span.Count)
			for _, s := range drawn {
				words.Add(int64(len(s.Tokens)))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.Seconds = time.Since(start).Seconds()
	r.TokensPerSecond, r.Cores = float64(words.Load())/r.Seconds, runtime.GOMAXPROCS(0)
	r.goal(r.Seconds < sentenceSeconds, "under 5 minutes")
	return nil
}
