// Package forecast predicts a run: which nodes would run and why (Explain), their cost (CostOf), their
// time on a cluster (Cluster), and the privacy cost of finished cells, also with more users (Account).
package forecast
