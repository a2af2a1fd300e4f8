package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/selection"
	"coalmine/workflows/plan"
)

// thresholds returns the numbers of users that other thresholds of a cell's selection would leave. It
// returns nil without a selection, or before it is computed.
func thresholds(ctx context.Context, archive *storage.Archive, p *plan.Plan, planned *plan.Cell) ([]selection.Left, error) {
	node := selecting(p, planned.Population.Key)
	if node == nil {
		return nil, nil
	}
	left, err := thresholdsOf(ctx, archive, node)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	return left, err
}

// selecting returns the node that selects the users of a population, or nil.
func selecting(p *plan.Plan, pop storage.Key) *plan.Node {
	for {
		node := p.Nodes[pop]
		if node == nil {
			return nil
		}
		if slices.Contains(selection.Selecting(), node.Spec.Kind) {
			return node
		}
		pop = node.Input(population.Input)
	}
}

// thresholdsOf reads the numbers from a selection's output or, if it used a classifier, computes them from
// the classifier's predictions.
func thresholdsOf(ctx context.Context, archive *storage.Archive, s *plan.Node) ([]selection.Left, error) {
	here := s.Input(selection.PredictionsInput)
	if here.IsZero() {
		var found selection.Selection
		err := readJSON(ctx, archive, s.Key, selection.SelectionBlob, &found)
		return found.Left, err
	}
	var users, clean []selection.UserAccuracy
	if err := readJSON(ctx, archive, here, selection.UsersBlob, &users); err != nil {
		return nil, err
	}
	if key := s.Input(selection.CleanInput); !key.IsZero() {
		if err := readJSON(ctx, archive, key, selection.UsersBlob, &clean); err != nil {
			return nil, err
		}
	}
	return selection.Thresholds(s.Params, users, clean)
}

// readOutput reads a blob of a node. It returns nil if storage lacks the blob.
func readOutput(ctx context.Context, archive *storage.Archive, node storage.Key, name string) ([]byte, error) {
	data, err := archive.ReadOutput(ctx, node, name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	return data, err
}

// readJSON decodes a blob of a node.
func readJSON(ctx context.Context, archive *storage.Archive, node storage.Key, name string, into any) error {
	data, err := archive.ReadOutput(ctx, node, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s of node %s: %w: %w", name, node.Short(), storage.ErrCorrupt, err)
	}
	return nil
}
