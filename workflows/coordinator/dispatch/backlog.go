package dispatch

import (
	"cmp"
	"container/heap"

	"coalmine/workflows/coordinator/graph"
)

// backlog holds the ready tasks of a run for one class, the most urgent first.
// It may contain tasks that are no longer ready; the reader checks.
type backlog []entry

type entry struct {
	task   *graph.Task
	urgent bool
	rank   int32
	seq    int
}

func entryOf(x *graph.Task) entry { return entry{x, x.Urgent, x.Rank, x.Seq} }

// stale reports whether the task was sent, or became ready again, since it was added.
func (e entry) stale() bool { return e.task.State() != graph.Ready || e.seq != e.task.Seq }

func (b backlog) Len() int      { return len(b) }
func (b backlog) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b backlog) Less(i, j int) bool {
	x, y := b[i], b[j]
	if x.urgent != y.urgent {
		return x.urgent
	}
	return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.seq, y.seq)) < 0
}
func (b *backlog) Push(x any) { *b = append(*b, x.(entry)) }
func (b *backlog) Pop() any {
	old := *b
	last := old[len(old)-1]
	old[len(old)-1] = entry{}
	*b = old[:len(old)-1]
	return last
}

func (b *backlog) add(e entry) { heap.Push(b, e) }
func (b *backlog) take() entry { return heap.Pop(b).(entry) }
