// Package networks builds feed-forward networks as Gorgonia graphs over the
// project's own matrix kernels: for the small networks of attacks and
// classifiers, where convenience counts more than speed. Language models do not
// use it (see package models).
//
// A Graph is one computation of fixed shapes with named parameters, and turns a
// flat vector of parameters into a loss and a flat gradient, as the trainers of
// package models do; optimizers, clips and noise work on both alike. Classifier
// is the first network made of it:
//
//	classifier, err := networks.New(networks.Config{Inputs: 784, Hidden: []int{64}, Classes: 10})
//	params := classifier.Init(seeds.Stream(seed, seeds.Weights))
//	trainer, err := classifier.NewTrainer(32)
//	defer trainer.Close()
//	loss, err := trainer.Gradient(params, images, labels, gradient)
//
// # What Gorgonia gets wrong
//
// Gorgonia v0.9.18 has faults that give wrong numbers without an error, so
// graphs here keep away from them:
//
//   - Slices past 255 are taken for one another: no graph slices.
//   - SoftMax and LogSoftMax of one node are taken for one another: only
//     LogSoftMax is used.
//   - ByIndices on a vector has a wrong gradient: rows are chosen by products
//     with one-hot matrices.
//   - The gradient of a gradient is wrong: none is taken.
//   - Gradients add up from run to run: Graph clears them.
//
// Every graph is compared with finite differences, in float64, at the size at
// which it is used.
package networks
