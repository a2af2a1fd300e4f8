// Package cluster measures clusters of Coalmine's processes: the cost of queue, coordinator and workers
// at scale (Run) and for one training (Training), the cost of a large grid before its first task
// (RunSubmit), and the accuracy of plan's forecast (RunForecast).
package cluster
