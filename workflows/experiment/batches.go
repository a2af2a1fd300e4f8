package experiment

import "coalmine/tasks/training"

// Batches say by how much short batches lower the learning rate of the clients, of which sizes
// counts those with each number of examples. It is nil where few clients have less than a batch,
// and of trainings other than ours by clients.
func (e *Experiment) Batches(sizes map[int]int) *training.Batches {
	if !e.TrainsClients() {
		return nil
	}
	c := &e.Training.Client
	return training.NewBatches(training.Local{Batch: c.Batch, LearningRate: c.LearningRate}, c.Epochs, c.Steps, sizes)
}

// TrainsClients reports whether the training is federated, by clients that are ours.
func (e *Experiment) TrainsClients() bool {
	return e.Training.Algorithm == FedAvg && e.ClientProgram() == nil
}
