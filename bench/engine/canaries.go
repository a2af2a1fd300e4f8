package engine

import (
	"context"
	"fmt"
)

// followedExperiment trains twice: the server of the second training follows the cosines of a
// thousand canary clients and of as many unseen directions.
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
	// mostFollowing is the share of a round that following canaries may take.
	mostFollowing = 0.03
	// Clients that are timed, and those of the papers' smallest round, which is as much longer
	// as it has words.
	timedClients, timedWords   = 10, 304
	paperClients, paperWords   = 500, 2000
	roundOfPaper, roundOfBench = paperClients * paperWords, timedClients * timedWords
)

// measureFollowing says which share of the papers' smallest round it takes to follow a thousand
// canaries: by how much the server's task takes longer, as a part of all tasks of such a
// round, of which a small one is timed.
func (s step) measureFollowing(ctx context.Context, b *bench, r *Row) error {
	file := fmt.Sprintf(followedExperiment, s.config.Vocabulary-specialTokens, timedWords, s.config.Embedding, s.config.Units, warmRounds+b.Repeat, timedClients)
	plain, followed, err := timeTrainings(ctx, file)
	if err != nil {
		return err
	}
	var shares []float64
	for i := warmRounds; i < len(followed); i++ {
		round := plain[i].clients*roundOfPaper/roundOfBench + followed[i].server
		shares = append(shares, (followed[i].server-plain[i].server)/round)
	}
	r.Share = median(shares)
	r.goal(r.Share <= mostFollowing, fmt.Sprintf("at most %.0f%%", 100*mostFollowing))
	return nil
}
