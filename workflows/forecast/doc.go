// Package forecast predicts a run: the nodes that would run and the reasons (Explain), their cost (CostOf), their
// time on a cluster (Cluster), and the privacy cost of finished cells, also with more users (Account).
package forecast
