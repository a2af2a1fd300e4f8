// Package attacks has the models that attribute an update of a device to its user, one class
// for each user (Orekondy et al. 2018, section 4.3). Each is trained on the updates of shadow
// devices, and then gives any update a score for every class:
//
//	mlp     one hidden layer of 128 ReLU, softmax; SGD with momentum
//	svm     linear, one class against the rest
//	knn     the share of the class among the 10 nearest updates
//	cosine  the cosine to the class's mean update; nothing is trained
//
// Data come as a stream of blocks, so that memory is that of a block, a batch and the model,
// whatever the number of examples. The network is a graph of package networks.
package attacks
