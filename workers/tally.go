package workers

import (
	"sync"

	"coalmine/tasks/attempts"
)

// tally counts the attempts of a worker by result.
type tally struct {
	lock   sync.Mutex
	counts map[attempts.Result]int
	// overtaken counts attempts that finished after another of the same node had been committed.
	overtaken int
}

func (t *tally) overtake() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.overtaken++
}

func (t *tally) add(r attempts.Result) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.counts == nil {
		t.counts = map[attempts.Result]int{}
	}
	t.counts[r]++
}

// attributes returns the counts that the worker logs at its end. Handed back are attempts
// that did not fail themselves: no memory, no store, a missing input, or the end of the
// worker. Overtaken attempts also count as done.
func (t *tally) attributes() []any {
	t.lock.Lock()
	defer t.lock.Unlock()
	return []any{
		"done", t.counts[attempts.Done], "failed", t.counts[attempts.Failed] + t.counts[attempts.Refused],
		"handed_back", t.counts[attempts.Returned] + t.counts[attempts.StoreAway] + t.counts[attempts.Missing],
		"overtaken", t.overtaken,
	}
}
