package vision

import (
	"testing"

	"coalmine/models"
)

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

// BenchmarkGAN is a step of each network of the paper's GAN.
func BenchmarkGAN(b *testing.B) {
	g := ganOf(b, digits, models.Adversarial{}, paperGAN)
	params, examples := g.Init(testRand(1)), drawExamples(testRand(2), digits, benchBatch)
	gradient, rng := make([]float32, len(params)), testRand(3)
	learner, generator := learnerOf(g, params, 4), g.NewGenerator(params).(*Generator)
	run := func(name string, flops float64, step func() error) {
		b.Run(name, func(b *testing.B) {
			check(b, step())
			b.ReportAllocs()
			for b.Loop() {
				check(b, step())
			}
			b.ReportMetric(benchBatch*flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
		})
	}
	run("discriminator", g.TrainingFLOPs(), func() error {
		_, err := learner.Gradient(params[:g.Trained()], examples, gradient[:g.Trained()])
		return err
	})
	run("generator", g.GeneratorFLOPs(), func() error {
		_, err := generator.Gradient(rng, benchBatch, gradient[g.Trained():])
		return err
	})
}
