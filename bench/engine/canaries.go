package engine

import (
	"context"
	"fmt"
)

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
