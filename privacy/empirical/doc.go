// Package empirical measures the privacy of trainings from their results: a lower bound on epsilon
// by guesses about one trained model (LowerBound), and an estimate by canary clients of one
// federated training (FinalIterate, AllIterates).
package empirical
