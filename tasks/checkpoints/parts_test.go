package checkpoints

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
)

// stored is a task with the checkpoint of a network, and its parameters.
func stored(t *testing.T, config models.Config) (g *taskstest.Graph, task *tasks.Task, n models.Network, params []float32) {
	t.Helper()
	n = must.Get(NewNetwork(config))(t)
	g, params = taskstest.NewGraph(t), n.Init(seeds.Stream(1, seeds.Weights))
	node := g.Put("checkpoint", map[string][]byte{tasks.ModelBlob: encoded(t, n, params)})
	return g, g.Task(taskstest.In("model", node)), n, params
}

// Large enough to be read in parts: one with parameters that are not trained, one without.
var (
	largeGAN  = models.Config{Kind: models.GAN, Image: models.Image{ImageShape: models.ImageShape{Width: 12, Height: 12, Channels: 1, Classes: 2}, GAN: models.Adversarial{Latent: 3}}}
	largeText = models.Config{Kind: models.GRU, Vocabulary: 40_000, Embedding: 30, Units: 30}
	smallText = models.Config{Kind: models.GRU, Vocabulary: 5, Embedding: 2, Units: 3}
)

func TestACheckpointIsTheSameInParts(t *testing.T) {
	t.Parallel()
	for _, config := range []models.Config{largeGAN, largeText, smallText} {
		_, task, n, params := stored(t, config)
		all, err := Read(t.Context(), task, "model")
		if err != nil || !slices.Equal(all.Params, params) {
			t.Errorf("%s: the whole came back otherwise (%v)", config.Kind, err)
		}
		trained, err := ReadTrained(t.Context(), task, "model")
		if err != nil || !slices.Equal(trained.Params, params[:n.Trained()]) || trained.Network.Config() != config {
			t.Errorf("%s: the trained parameters came back otherwise (%v)", config.Kind, err)
		}
		fixed, err := ReadFixed(t.Context(), task, "model")
		if err != nil || !slices.Equal(fixed.Params, params[n.Trained():]) {
			t.Errorf("%s: the others came back otherwise (%v)", config.Kind, err)
		}
	}
}

// The two parts of a checkpoint in which all is trained are views of one.
func TestReadTrainedAllocatesNoCopy(t *testing.T) {
	t.Parallel()
	_, task, _, _ := stored(t, largeText)
	all := must.Get(Read(t.Context(), task, "model"))(t)
	trained, err := ReadTrained(t.Context(), task, "model")
	if err != nil || &trained.Params[0] != &all.Params[0] {
		t.Errorf("the trained parameters are a copy (%v)", err)
	}
	_, task, n, _ := stored(t, largeGAN)
	if trained, err = ReadTrained(t.Context(), task, "model"); err != nil || cap(trained.Params) != n.Trained() {
		t.Errorf("the trained parameters hold %d, want %d (%v)", cap(trained.Params), n.Trained(), err)
	}
}

func TestReadPartsReportsDamageAndAbsence(t *testing.T) {
	t.Parallel()
	g, task, n, params := stored(t, largeGAN)
	params[n.Trained()] = float32(math.NaN())
	damaged := g.Put("damaged", map[string][]byte{tasks.ModelBlob: encoded(t, n, params)})
	if _, err := ReadFixed(t.Context(), g.Task(taskstest.In("model", damaged)), "model"); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("values that are not finite: %v", err)
	}
	key := must.Get(task.Input("model"))(t)
	g.Forget(key)
	if _, err := ReadTrained(t.Context(), task, "model"); !errors.Is(err, storage.ErrNotFound) || tasks.IsPermanent(err) {
		t.Errorf("a checkpoint that is gone: %v, want an error that another try may mend", err)
	}
}
