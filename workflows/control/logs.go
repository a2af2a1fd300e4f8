package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coalmine/storage"
	"coalmine/workflows/runs"
)

// Logs implements API.
func (l *Local) Logs(ctx context.Context, name, node string) ([]AttemptLog, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	out := []AttemptLog{}
	for _, n := range troubled(run) {
		if n.label != node && !strings.HasPrefix(n.key.String(), node) {
			continue
		}
		logs, err := l.stored(ctx, run.ID, n)
		if err != nil {
			return nil, err
		}
		out = append(out, append(logs, n.unlogged(len(logs) == 0)...)...)
	}
	return out, nil
}

// stored are the logs that attempts at a node have left.
func (l *Local) stored(ctx context.Context, run string, n troubledNode) ([]AttemptLog, error) {
	attempts, err := l.archive.TaskLogs(ctx, run, n.key)
	if err != nil {
		return nil, err
	}
	var logs []AttemptLog
	for _, attempt := range attempts {
		text, err := l.archive.ReadTaskLog(ctx, run, n.key, attempt)
		if err != nil {
			return nil, err
		}
		logs = append(logs, AttemptLog{n.key, n.label, attempt, string(text)})
	}
	return logs, nil
}

// troubledNode is a node that has failed or given trouble.
type troubledNode struct {
	key    storage.Key
	label  string
	deaths []runs.Death
	// failure is why it was given up, after so many attempts; "" if it was not.
	failure  string
	attempts int
}

// troubled are the nodes of a run that have failed or given trouble, by key: those that were
// tried again with success, too, as long as the history has them.
func troubled(run *runs.Run) []troubledNode {
	var out []troubledNode
	for key, f := range run.State.Failures {
		out = append(out, troubledNode{key, f.Label, f.Deaths, f.Error, f.Attempts})
	}
	for key, label := range tried(run) {
		if _, failed := run.State.Failures[key]; !failed {
			label = cmp.Or(label, "a node that was tried again")
			out = append(out, troubledNode{key: key, label: label, deaths: run.State.Troubles[key].Deaths})
		}
	}
	slices.SortFunc(out, func(a, b troubledNode) int { return a.key.Compare(b.key) })
	return out
}

// tried are the labels of nodes that have given trouble, as far as they are known.
func tried(run *runs.Run) map[storage.Key]string {
	labels := make(map[storage.Key]string)
	for key := range run.State.Troubles {
		labels[key] = ""
	}
	for _, e := range run.State.History.Events {
		if e.Key != nil {
			labels[*e.Key] = e.Label
		}
	}
	return labels
}

// unlogged tells of the attempts whose worker vanished, which leave no log, and why
// the node was given up if nothing else does.
func (n troubledNode) unlogged(alone bool) []AttemptLog {
	var logs []AttemptLog
	for _, d := range n.deaths {
		text := fmt.Sprintf("the worker vanished while it was at work on this: %s\n", d)
		logs = append(logs, AttemptLog{n.key, n.label, fmt.Sprintf("%d.%s", d.Attempt, d.Worker), text})
	}
	if alone && len(logs) == 0 && n.failure != "" {
		logs = append(logs, AttemptLog{n.key, n.label, strconv.Itoa(n.attempts), n.failure + "\n"})
	}
	return logs
}
