package status

import "coalmine/tasks"

// Fleet lists the workers of all runs, and the tasks that wait for a slot.
type Fleet struct {
	Workers []FleetWorker `json:"workers"`
	// Queues has the classes that workers serve or tasks ask for, including slots
	// without tasks.
	Queues []Queue `json:"queues"`
	// Waits has the reasons for missing information: no worker lives, the queue does not
	// answer, or no process leads.
	Waits []Wait `json:"waits"`
}

// FleetWorker is a live worker and its tasks.
type FleetWorker struct {
	Worker
	Classes []tasks.Class `json:"classes"`
	Tasks   []FleetTask   `json:"tasks"`
}

// FleetTask is a running attempt, with the first run that wants it.
type FleetTask struct {
	Run string `json:"run"`
	Attempt
}

// Add counts the tasks of another queue of the same class.
func (q *Queue) Add(other Queue) {
	q.Ready += other.Ready
	q.Queued += other.Queued
	q.Running += other.Running
	q.Retrying += other.Retrying
	q.Parked += other.Parked
}
