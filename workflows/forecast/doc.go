// Package forecast says before a run what it would take: which nodes would run and why (Explain),
// what they cost (CostOf), how long they take on a cluster (Cluster), and what finished cells cost
// in privacy, also with more users (Account).
package forecast
