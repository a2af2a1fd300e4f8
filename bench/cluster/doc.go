// Package cluster measures clusters of Coalmine's processes: what queue, coordinator and workers cost
// at scale (Run) and for one training (Training), what a large grid costs before anything of it runs
// (RunSubmit), and how true the forecast of plan is (RunForecast).
package cluster
