package skewnormal

import (
	"context"
	"math"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// blockRows is how many sequences are scored together. It does not show in any result.
const blockRows = 1024

// logPerplexities are those of sequences of one length after the state, in their order, in
// nats: as audits.LogPerplexity has them, to the last bit. What sequences have in common at
// their beginning is computed once for those of a block.
func logPerplexities(ctx context.Context, tree *models.TreeScorer, state *models.States, rows [][]int32) ([]float64, error) {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(rows[a], rows[b]) })
	costs := make([]float64, len(rows))
	for block := range slices.Chunk(order, blockRows) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := scoreBlock(tree, state, rows, block, costs); err != nil {
			return nil, err
		}
	}
	for _, cost := range costs {
		if math.IsNaN(cost) || math.IsInf(cost, 0) {
			return nil, tasks.Permanent(&models.DivergedError{What: "log-perplexity of a reference", Value: cost})
		}
	}
	return costs, nil
}

// scoreBlock sets the costs of the rows of a block, which ascend.
func scoreBlock(tree *models.TreeScorer, state *models.States, rows [][]int32, block []int, costs []float64) error {
	at := make([]int, len(block)) // by row: the node of the prefix tree that it has come to
	for depth := range rows[block[0]] {
		var edges []models.Edge
		for i, r := range block {
			edge := models.Edge{Parent: at[i], Token: rows[r][depth]}
			if len(edges) == 0 || edges[len(edges)-1] != edge {
				edges = append(edges, edge)
			}
			at[i] = len(edges) - 1
		}
		logProbs := make([]float32, len(edges))
		if err := tree.LogProbs(state, edges, logProbs); err != nil {
			return err
		}
		for i, r := range block {
			costs[r] += audits.Surprisal(logProbs[at[i]])
		}
		next := new(models.States)
		if err := tree.Advance(next, state, edges); err != nil {
			return err
		}
		state = next
	}
	return nil
}
