package experiment

import "coalmine/tasks/training"

// Batches returns the effect of short batches on the learning rate of the clients; sizes counts the
// clients by their number of examples. It is nil if few clients have less than a batch, and for
// trainings without clients of ours.
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
