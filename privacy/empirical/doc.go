// Package empirical measures the privacy of trainings by what their results reveal: a lower bound on
// epsilon by guesses about one trained model (LowerBound), and an estimate by canary clients of one
// federated training (FinalIterate, AllIterates).
package empirical
