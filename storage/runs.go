package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"coalmine/internal/goroutines"
)

// CreateRun records a submission under a new id. If the id is taken, the error wraps ErrExists,
// unless its spec is the same: then the call repeats an interrupted submission.
func (a *Archive) CreateRun(ctx context.Context, id string, spec []byte) error {
	if err := CheckRunID(id); err != nil {
		return err
	}
	_, err := a.create(ctx, specName(id), spec, func(found []byte) bool { return bytes.Equal(found, spec) })
	return a.fail("creating run", id, err)
}

// Spec returns the spec recorded by CreateRun.
func (a *Archive) Spec(ctx context.Context, id string) ([]byte, error) {
	if err := CheckRunID(id); err != nil {
		return nil, err
	}
	spec, err := a.read(ctx, specName(id))
	return spec, a.fail("reading run", id, err)
}

// HasRun reports whether a run has a spec, without reading it.
func (a *Archive) HasRun(ctx context.Context, id string) (bool, error) {
	there, err := a.exists(ctx, specName(id))
	return there, a.fail("reading run", id, err)
}

// Runs returns the ids of all runs in byte order.
func (a *Archive) Runs(ctx context.Context) ([]string, error) {
	used, err := a.UsedRunIDs(ctx)
	if err != nil {
		return nil, err
	}
	there := make([]bool, len(used))
	err = goroutines.Each(ctx, len(used), runsAtOnce, func(ctx context.Context, i int) (err error) {
		there[i], err = a.HasRun(ctx, used[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i, id := range used {
		if there[i] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// runsAtOnce is the number of runs that are looked up at the same time: one after the other, 300 runs
// in a store that answers within 20 ms take six seconds.
const runsAtOnce = 16

// UsedRunIDs returns the ids with any stored object, in byte order: those of all runs,
// and of runs whose removal was interrupted. A new run must not use one of these,
// because it would inherit a log.
func (a *Archive) UsedRunIDs(ctx context.Context) ([]string, error) {
	var ids []string
	for child, err := range a.store.Children(ctx, runsDir) {
		if err != nil {
			return nil, a.fail("listing", runsDir, err)
		}
		ids = append(ids, strings.TrimSuffix(child, "/"))
	}
	return ids, nil
}

// LogEnds returns the number of the newest entry of each run's log, 0 without an entry, for all ids of
// UsedRunIDs. A log with the same number as before has no new entry. It takes one request a run.
func (a *Archive) LogEnds(ctx context.Context) (map[string]int, error) {
	ids, err := a.UsedRunIDs(ctx)
	if err != nil {
		return nil, err
	}
	last := make([]int, len(ids))
	err = goroutines.Each(ctx, len(ids), endsAtOnce, func(ctx context.Context, i int) error {
		numbers, err := a.numbersBelow(ctx, runLogDir(ids[i]))
		last[i] = newest(numbers)
		return a.fail("listing the log of run", ids[i], err)
	})
	ends := make(map[string]int, len(ids))
	for i, id := range ids {
		ends[id] = last[i]
	}
	return ends, err
}

// endsAtOnce is the number of logs to list at the same time. A collection lists all of them before each
// batch of deletions: 10,000 runs in a store that answers within 20 ms take three seconds.
const endsAtOnce = 64

// DeleteRun removes a run's record, its log, its plans and its task logs; the nodes that
// it requested stay. The spec goes first, so that an interrupted removal does not leave
// a run that looks newly submitted; repeat it to finish. Only the leader deletes.
func (a *Archive) DeleteRun(ctx context.Context, id string) error {
	if err := CheckRunID(id); err != nil {
		return err
	}
	if err := a.delete(ctx, []string{specName(id)}); err != nil {
		return err
	}
	var errs []error
	for _, dir := range []string{runLogDir(id), planDir(id), plannedDir(id), logsDir + "/" + id} {
		errs = append(errs, a.deleteBelow(ctx, dir+"/"))
	}
	return errors.Join(errs...)
}

// deleteBatch limits the number of names that deleteBelow holds in memory.
const deleteBatch = 1000

// deleteBelow removes all objects whose name starts with prefix.
func (a *Archive) deleteBelow(ctx context.Context, prefix string) error {
	var batch []string
	for info, err := range a.store.List(ctx, prefix) {
		if err != nil {
			return a.fail("listing", prefix, err)
		}
		if batch = append(batch, info.Name); len(batch) == deleteBatch {
			if err := a.delete(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return a.delete(ctx, batch)
}

// PutTaskLog stores the output of one execution of a node for display. attempt is one
// segment of a name. A power cut may lose the log.
func (a *Archive) PutTaskLog(ctx context.Context, run string, key Key, attempt string, data []byte) error {
	name, err := taskLogName(run, key, attempt)
	if err != nil {
		return err
	}
	return a.fail("storing", name, a.put(ctx, name, data, Recomputable))
}

// ReadTaskLog returns the log stored by PutTaskLog.
func (a *Archive) ReadTaskLog(ctx context.Context, run string, key Key, attempt string) ([]byte, error) {
	name, err := taskLogName(run, key, attempt)
	if err != nil {
		return nil, err
	}
	data, err := a.read(ctx, name)
	return data, a.fail("reading", name, err)
}

// TaskLogs returns the attempts at a node that left a log, in byte order.
func (a *Archive) TaskLogs(ctx context.Context, run string, key Key) ([]string, error) {
	if err := CheckRunID(run); err != nil {
		return nil, err
	}
	var attempts []string
	for attempt, err := range a.store.Children(ctx, taskLogDir(run, key)) {
		if err != nil {
			return nil, a.fail("listing", taskLogDir(run, key), err)
		}
		attempts = append(attempts, attempt)
	}
	return attempts, nil
}

func taskLogName(run string, key Key, attempt string) (string, error) {
	if err := CheckRunID(run); err != nil {
		return "", err
	}
	if err := CheckName(attempt); err != nil || strings.Contains(attempt, "/") {
		return "", fmt.Errorf("%w: attempt %.80q must be one segment", ErrName, attempt)
	}
	return taskLogDir(run, key) + "/" + attempt, nil
}
