// Package attacks has the models that attribute a device's update to its user, one class per user
// (Orekondy et al. 2018, section 4.3). Each is trained on the updates of shadow devices, and then
// scores any update for every class:
//
//	mlp     one hidden layer of 128 ReLU, softmax; SGD with momentum
//	svm     linear, one class against the rest
//	knn     the share of the class among the 10 nearest updates
//	cosine  the cosine to the class's mean update; nothing is trained
//
// Data come as a stream of blocks, so memory is limited to a block, a batch and the model for any
// number of examples. The network is a graph of package networks.
package attacks
