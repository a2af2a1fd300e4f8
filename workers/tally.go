package workers

import (
	"sync"

	"coalmine/tasks/attempts"
)

// tally counts the attempts of a worker by how they ended.
type tally struct {
	lock   sync.Mutex
	counts map[attempts.Result]int
	// overtaken are attempts that were done when another of the same node had been committed.
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

// attributes are the counts that the worker logs at its end. Handed back are those that were
// not its own fault: no memory, no store, an input that is gone, or the end of the worker.
// Those that were overtaken are done, too.
func (t *tally) attributes() []any {
	t.lock.Lock()
	defer t.lock.Unlock()
	return []any{
		"done", t.counts[attempts.Done], "failed", t.counts[attempts.Failed] + t.counts[attempts.Refused],
		"handed_back", t.counts[attempts.Returned] + t.counts[attempts.StoreAway] + t.counts[attempts.Missing],
		"overtaken", t.overtaken,
	}
}
