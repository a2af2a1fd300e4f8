// Package networks has the small networks of adversaries, as Gorgonia graphs:
//
//	Classifier  layers with ReLU, and a softmax for each of several tasks
//	Pairs       towers of such layers on two vectors, and the distance between their outputs:
//	            a Siamese network if both have one tower
//
// Each is defined by its layers and its loss; Gorgonia derives the gradient. Models that
// devices train do not use the package (see packages models and vision).
//
//	n, err := networks.NewClassifier(networks.Config{Inputs: 784, Hidden: []int{64}, Classes: []int{10}}, 32)
//	graph := n.Graph()
//	graph.Init(seeds.Stream(seed, seeds.Weights))
//	loss, gradient, err := n.Learn(32, row, labels)
//	optimizer.Step(graph.Params, gradient, 0.01)
//
// A Graph is one computation of fixed shapes over a flat vector of parameters. Batches of other
// sizes are divided into parts and padded with rows of weight 0. One goroutine computes a graph,
// and every sum has a fixed order: equal arguments give equal bytes, whichever kernels are used.
//
// # Speed
//
// Package kernels multiplies matrices. A graph reads parameters in place, products write gradients
// into the optimizer's memory, and values that no output needs are not computed, such as the
// gradient of the inputs. With layers of 1,000 inputs or more, products take most of the time.
//
// # Faults of Gorgonia
//
// Gorgonia v0.9.18 has faults that give wrong numbers without an error:
//
//   - Slices past 255 are confused with each other: no graph slices. Products
//     with matrices of 1, 0 and -1 separate pairs.
//   - SoftMax and LogSoftMax of one node are confused: the loss is an operation of
//     this package.
//   - ByIndices on a vector has a wrong gradient: classes are chosen by targets.
//   - The gradient of a gradient is wrong: a graph has one gradient.
//   - Gradients that are bound to parameters add up from run to run: none are bound.
//
// Graphs share Gorgonia's nodes of constants and a counter of calls, both without a lock: this
// package makes one graph at a time. Several may run at once.
//
// Tests show each fault, and that no graph triggers it. They compare every network with finite
// differences, in float64, at the sizes of the shipped experiments.
package networks
