// These files measure the overhead of queue, coordinator, worker and store in a round of
// training: they train a tiny model in one plain loop in memory, and again on a cluster.

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"coalmine/workflows/control"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/runs"
)

// Training is the size of a training: its rounds, and the client tasks of each round, in
// addition to one server task.
type Training struct {
	Rounds int `json:"rounds"`
	Chunks int `json:"chunks"`
}

// submission returns an experiment of the given number of rounds on the text.
func (t Training) submission(ctx context.Context, text []byte, rounds int) (*submission.Submission, error) {
	file := fmt.Appendf(nil, `
name: bench-queue
data: {source: synthetic, vocabulary: {size: 100}, users: {words: 40}}
model: {embedding: 8, units: 8}
training: {algorithm: fedavg, rounds: %d, cohort: %d, chunks: %d, checkpoints: {every: %d, keep: 0}}
`, rounds, 2*t.Chunks, t.Chunks, rounds)
	return submission.PrepareFile(ctx, "bench", file, experiment.Options{}, sources.Text(text), nil)
}

// overheadText returns JSON lines of users with short sentences.
func overheadText() []byte {
	var b bytes.Buffer
	for i := range 4000 {
		fmt.Fprintf(&b, `{"user":"u%d","text":"w%d w%d w%d w%d"}`+"\n", i%200, i%101, i*i%103, i%107, i*7%109)
	}
	return b.Bytes()
}

// Plain times the rounds after the first in one loop.
func (t Training) Plain(ctx context.Context) (time.Duration, error) {
	source := overheadText()
	s, err := t.submission(ctx, source, t.Rounds+1)
	if err != nil {
		return 0, err
	}
	p, err := compile.Plan(s.Spec)
	if err != nil {
		return 0, err
	}
	x := localexec.New(p, compile.Registry(), source)
	first := p.Cells[0].Chain.At(1)
	if err := x.Reach(ctx, first); err != nil {
		return 0, err
	}
	start := time.Now()
	for _, target := range []plan.Ref{p.Cells[0].Model, p.Cells[0].Report} {
		if err := x.Reach(ctx, target); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// Queued times the same rounds as a run, under a leading coordinator and a worker. A run
// of only the first round comes before, so that its work is cached.
func (t Training) Queued(ctx context.Context, api control.API) (time.Duration, error) {
	source := overheadText()
	if _, err := api.PutSource(ctx, bytes.NewReader(source)); err != nil {
		return 0, err
	}
	var took time.Duration
	for _, rounds := range []int{1, t.Rounds + 1} {
		s, err := t.submission(ctx, source, rounds)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if err := carryOut(ctx, api, s.Record()); err != nil {
			return 0, err
		}
		took = time.Since(start)
	}
	return took, nil
}

func carryOut(ctx context.Context, api control.API, record runs.Spec) error {
	submitted, err := api.Submit(ctx, record, true)
	if err != nil {
		return err
	}
	statuses, err := api.Watch(ctx, submitted.Run)
	if err != nil {
		return err
	}
	phase := runs.Queued
	for s := range statuses {
		phase = s.Phase
	}
	if phase != runs.Done {
		return fmt.Errorf("the benchmark's run ended as %s", phase)
	}
	return nil
}
