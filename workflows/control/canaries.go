package control

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan"
	"coalmine/workflows/results"
)

func (l *Local) Canaries(ctx context.Context, name, cell string, points int) (*results.CanaryLives, error) {
	if points < MinPoints || points > MaxPoints {
		return nil, fmt.Errorf("a curve of %d points %w: expected %d to %d", points, ErrInput, MinPoints, MaxPoints)
	}
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return results.LoadCanaryLives(ctx, l.archive, run, cell, points)
}

// Surroundings holds a model's scores of a canary and of references: the first random sequences after the
// canary's prefix that random sampling uses.
type Surroundings struct {
	Round  int `json:"round"`
	Canary int `json:"canary"`
	// References is the number of scored references.
	References int `json:"references"`
	skewnormal.Estimate
}

// maxScored is the maximum number of references scored in a request. It suffices for a histogram.
const maxScored = 2000

// fits is the number of fits behind the standard error of the fitted exposure.
const fits = 20

func (l *Local) Surroundings(ctx context.Context, name, cell string, canary, round int) (*Surroundings, error) {
	x, err := l.exporter(ctx, name, cell)
	if err != nil {
		return nil, err
	}
	if round == LastRound {
		round = x.rounds()
	}
	ranking, params, err := x.ranking(canary, round)
	if err != nil {
		return nil, err
	}
	select { // scoring takes a core for about a second
	case l.scoring <- struct{}{}:
		defer func() { <-l.scoring }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	out, err := l.score(ctx, ranking, params, canary)
	if err != nil {
		return nil, fmt.Errorf("run %s, cell %s, canary %d after %s: %w", x.run.ID, x.cell.Name, canary, x.count(round), err)
	}
	out.Round = round
	return out, nil
}

// ranking returns the node that ranks a canary after a round.
func (x *exporter) ranking(canary, round int) (*plan.Node, *randomsampling.Params, error) {
	report := x.plan.Nodes[x.cell.Report.Key]
	summary := x.plan.Nodes[report.Input(reports.AuditInput(randomsampling.Audit.Name, round))]
	if summary == nil {
		return nil, nil, fmt.Errorf("run %s, cell %s: a comparison with references after %s %w: audit.random_sampling does not measure that round", x.run.ID, x.cell.Name, x.count(round), ErrInput)
	}
	for _, in := range summary.Inputs {
		n := x.plan.Nodes[in.Key]
		if n == nil || n.Kind != randomsampling.Kind.Name && n.Kind != randomsampling.Scored.Name {
			continue
		}
		params, err := plan.ParamsOf[randomsampling.Params](n)
		if err != nil {
			return nil, nil, err
		}
		if params.First <= canary && canary < params.First+params.Count {
			if n.Kind != randomsampling.Kind.Name || params.Program != nil {
				return nil, nil, fmt.Errorf("run %s, cell %s: a comparison with references %w: an external command scores its texts, which takes too long for a request", x.run.ID, x.cell.Name, ErrInput)
			}
			return n, params, nil
		}
	}
	return nil, nil, fmt.Errorf("run %s, cell %s has no canary %d: %w", x.run.ID, x.cell.Name, canary, storage.ErrNotFound)
}

// score scores the canary and its references as the ranking does, and fits a distribution.
func (l *Local) score(ctx context.Context, ranking *plan.Node, p *randomsampling.Params, canary int) (*Surroundings, error) {
	out := &Surroundings{Canary: canary, References: min(p.References, maxScored)}
	params := skewnormal.Params{
		Seed: p.Seed, References: out.References, Bootstrap: fits, Space: p.Space, Prefix: p.Prefix, First: canary, Count: 1,
	}
	model, list := ranking.Input(audits.ModelInput), ranking.Input(audits.CanariesInput)
	spec, err := tasks.NewSpec(skewnormal.Kind, params, tasks.Input{Name: audits.ModelInput, Key: model}, tasks.Input{Name: audits.CanariesInput, Key: list})
	if err != nil {
		return nil, err
	}
	runner := tasks.NewRunner()
	if err := l.give(ctx, runner, model, tasks.ModelBlob); err != nil {
		return nil, fmt.Errorf("the model is no longer stored: %w", err)
	}
	blobs := []string{population.CanariesBlob}
	if p.NamesWords() {
		blobs = append(blobs, canaries.SpacesBlob)
	}
	if err := l.give(ctx, runner, list, blobs...); err != nil {
		return nil, err
	}
	node, err := runner.Run(ctx, skewnormal.Kind, spec)
	if err != nil {
		return nil, err
	}
	var found []skewnormal.Estimate
	if err := json.Unmarshal(node.Blobs[skewnormal.EstimatesBlob], &found); err != nil {
		return nil, err
	}
	out.Estimate = found[0]
	return out, nil
}

// give passes the stored outputs of a node to a runner.
func (l *Local) give(ctx context.Context, runner *tasks.Runner, key storage.Key, blobs ...string) error {
	node := &tasks.RunnerNode{Spec: tasks.Spec{Key: key}, Blobs: map[string][]byte{}}
	for _, name := range blobs {
		data, err := l.archive.ReadOutput(ctx, key, name)
		if err != nil {
			return err
		}
		node.Blobs[name] = data
	}
	runner.Give(node)
	return nil
}
