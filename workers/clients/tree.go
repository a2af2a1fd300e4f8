package clients

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/internal/score"
	"coalmine/tasks/clientprograms"
)

// tree is a prefix tree of tokens: node i has Tokens[i] after the path to node Parents[i], which is less than
// i, or after the begin token if Parents[i] is -1.
type tree struct {
	Parents []int   `json:"parents"`
	Tokens  []int32 `json:"tokens"`

	nodes map[edge]int
}

// edge is a token after a node.
type edge struct {
	parent int
	token  int32
}

// follow returns the nodes of the tokens after a node, adding missing ones.
func (t *tree) follow(parent int, tokens []int32) (path []int) {
	for _, token := range tokens {
		at, there := t.nodes[edge{parent, token}]
		if !there {
			at = len(t.Tokens)
			t.nodes[edge{parent, token}] = at
			t.Parents, t.Tokens = append(t.Parents, parent), append(t.Tokens, token)
		}
		parent, path = at, append(path, at)
	}
	return path
}

// nodesAsked is the number of nodes from which a tree accepts no further pair.
const nodesAsked = 1 << 12

// scoreTrees scores pairs in prefix trees, one for each request.
func (c *program) scoreTrees(ctx context.Context, parameters string, pairs []clientprograms.Pair) (all []score.Answer, err error) {
	for len(pairs) > 0 {
		t, paths := &tree{nodes: map[edge]int{}}, [][]int(nil)
		for _, p := range pairs {
			if len(t.Tokens) >= nodesAsked {
				break
			}
			path, parent := t.follow(-1, p.Context), -1
			if n := len(path); n > 0 {
				parent = path[n-1]
			}
			paths = append(paths, t.follow(parent, p.Continuation))
		}
		var answers []score.Answer
		about := request{Parameters: parameters, Tree: t}
		err := c.ask(ctx, logLikelihood, fmt.Sprintf("loglikelihood, %d nodes", len(t.Tokens)), about, func(result json.RawMessage) (err error) {
			answers, err = score.DecodeAnswers(result, len(t.Tokens), TreeAsPairs, FiniteNumbers)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			all = append(all, likelihoodOf(path, answers))
		}
		pairs = pairs[len(paths):]
	}
	return all, nil
}

// likelihoodOf returns the likelihood of the tokens of a path.
func likelihoodOf(path []int, answers []score.Answer) score.Answer {
	l := score.Answer{Greedy: true}
	for _, node := range path {
		l.LogProb += answers[node].LogProb
		l.Greedy = l.Greedy && answers[node].Greedy
	}
	l.LogProb = max(l.LogProb, -score.MaxLoss)
	return l
}
