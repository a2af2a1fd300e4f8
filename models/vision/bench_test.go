package vision

import "testing"

const benchBatch = 32

// BenchmarkClassifier is a step of the paper's classifier.
func BenchmarkClassifier(b *testing.B) {
	c := classifierOf(b, digits, paperClassifier)
	rng := testRand(1)
	params, examples := c.Init(rng), drawExamples(rng, digits, benchBatch)
	gradient, learner := make([]float32, len(params)), c.NewLearner(nil)
	step := func() {
		_, err := learner.Gradient(params, examples, gradient)
		check(b, err)
	}
	step()
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(benchBatch*c.TrainingFLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}
