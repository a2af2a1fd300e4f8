package vision

import (
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/models"
)

func TestAllSetsOfKernelsGiveEqualBytes(t *testing.T) { // not parallel: it changes the kernels
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	c := smallClassifier(t)
	params, weights := g.Init(testRand(1)), c.Init(testRand(2))
	fakes, images := drawExamples(testRand(3), ganImages, 3), drawExamples(testRand(4), smallImages, 3)
	var want []float32
	for _, set := range kernels.Sets() {
		restore, err := kernels.ForceSet(set)
		check(t, err)
		got := make([]float32, len(params)+len(weights))
		learner, generator := learnerOf(g, params, 5), g.NewGenerator(params).(*Generator)
		_, err = learner.Gradient(params[:g.Trained()], fakes, got[:g.Trained()])
		check(t, err)
		_, err = generator.Gradient(testRand(6), 3, got[g.Trained():len(params)])
		check(t, err)
		_, err = c.NewLearner(nil).Gradient(weights, images, got[len(params):])
		check(t, err)
		learner.Track(got[:g.Trained()])
		generator.Track(got[:len(params)])
		restore()
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("kernels %s give other bytes than %s", set, kernels.Sets()[0])
		}
	}
}
