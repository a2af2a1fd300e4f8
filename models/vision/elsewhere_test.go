package vision

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/testserver"
	"coalmine/models"
	"coalmine/storage/safetensors"
)

// computed holds a network's results for a batch, for docs/checks/check_vision.py.
type computed struct {
	name            string
	network         models.Network
	params          []float32
	batch           []safetensors.Tensor
	loss            float64
	gradient, after []float32 // of all parameters
	from, to        int       // which of them have a gradient
}

// write writes the file that the program reads.
func (c *computed) write(t *testing.T, kind string) (path string) {
	t.Helper()
	tensors := c.batch
	for _, p := range c.network.Tensors() {
		add := func(what string, values []float32) {
			tensors = append(tensors, safetensors.Tensor{Name: what + p.Name, Shape: p.Shape, Float32: p.View(values)})
		}
		add("", c.params)
		if p.Offset >= c.from && p.Offset < c.to {
			add("gradient.", c.gradient)
		}
		if moving(p.Name) {
			add("after.", c.after)
		}
	}
	config, err := json.Marshal(c.network.Config())
	check(t, err)
	data, err := safetensors.Marshal(tensors, map[string]string{
		"model": string(config), "network": kind, "loss": strconv.FormatFloat(c.loss, 'g', -1, 64),
	})
	check(t, err)
	path = filepath.Join(t.TempDir(), strings.ReplaceAll(c.name, " ", "-")+".safetensors")
	check(t, os.WriteFile(path, data, 0o600))
	return path
}

// batchOf are examples, and the numbers that are drawn for them.
func batchOf(shape models.ImageShape, examples [][]int32, stream uint64, latent int) []safetensors.Tensor {
	size := []int64{int64(shape.Height), int64(shape.Width)}
	images, labels := imagesOf(shape, examples)
	values, classes := make([]float32, len(images.values)), make([]int64, len(labels))
	for i, e := range examples {
		classes[i] = int64(labels[i])
		for j, v := range e[2:] {
			values[i*shape.Values()+j] = float32(v - firstWord)
		}
	}
	inputs, shares := drawn(stream, len(examples), latent)
	return []safetensors.Tensor{
		{Name: "batch.size", Shape: []int{2}, Int64: size},
		{Name: "batch.images", Shape: images.shape, Float32: values},
		{Name: "batch.labels", Shape: []int{len(classes)}, Int64: classes},
		{Name: "batch.inputs", Shape: inputs.shape, Float32: narrowed(inputs.values)},
		{Name: "batch.shares", Shape: []int{len(shares)}, Float32: narrowed(shares)},
	}
}

func narrowed(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// begun are initial parameters, and biases and betas that are not zero.
func begun(rng *rand.Rand, n models.Network) []float32 {
	params := n.Init(rng)
	for _, tensor := range n.Tensors() {
		if len(tensor.Shape) == 1 && !strings.HasSuffix(tensor.Name, varianceName) {
			for i := range tensor.View(params) {
				tensor.View(params)[i] = float32(0.1 * rng.NormFloat64())
			}
		}
	}
	return params
}

// computeGAN writes the files of both networks of a GAN.
func computeGAN(t *testing.T, g *GAN, name string, n int) (paths []string) {
	t.Helper()
	const stream = 7
	shape := g.Config().Image.ImageShape
	params, examples := begun(testRand(1), g), drawExamples(testRand(2), shape, n)
	gradient, after := make([]float32, len(params)), append([]float32(nil), params...)
	batch := batchOf(shape, examples, stream, g.options.Latent)
	learner := learnerOf(g, params, stream)
	loss, err := learner.Gradient(params[:g.Trained()], examples, gradient[:g.Trained()])
	check(t, err)
	learner.Track(after[:g.Trained()])
	c := computed{name + " discriminator", g, params, batch, loss.Mean(), gradient, after, 0, g.Trained()}
	paths = append(paths, c.write(t, "discriminator"))

	generator := g.NewGenerator(params).(*Generator)
	copy(after, params)
	c.loss, err = generator.Gradient(testRand(stream), n, gradient[g.Trained():])
	check(t, err)
	generator.Track(after)
	c.name, c.from, c.to = name+" generator", g.Trained(), len(params)
	return append(paths, c.write(t, "generator"))
}

func computeClassifier(t *testing.T, c *Classifier, name string, n int) (path string) {
	t.Helper()
	shape := c.Config().Image.ImageShape
	params, examples := begun(testRand(1), c), drawExamples(testRand(2), shape, n)
	gradient := make([]float32, len(params))
	loss, err := c.NewLearner(nil).Gradient(params, examples, gradient)
	check(t, err)
	file := computed{name, c, params, batchOf(shape, examples, 1, 1), loss.Mean(), gradient, params, 0, len(params)}
	return file.write(t, "classifier")
}

// All kinds in small, and the paper's networks.
func TestPyTorchGivesTheSameGradientsElsewhere(t *testing.T) {
	t.Parallel()
	if build.Race || testing.Short() {
		t.Skip("arithmetic of one thread")
	}
	torch := testserver.Python(t, "torch")
	paths := []string{
		computeClassifier(t, smallClassifier(t), "small classifier", 5),
		computeClassifier(t, classifierOf(t, digits, paperClassifier), "classifier", 5),
	}
	paths = append(paths, computeGAN(t, ganOf(t, digits, models.Adversarial{}, paperGAN), "GAN", 4)...)
	for _, kind := range []models.Normalization{models.BatchNorm, models.LayerNorm, models.NoNorm} {
		for _, loss := range []models.AdversarialLoss{models.Wasserstein, models.Minimax} {
			for _, penalty := range []float64{models.DefaultPenalty, models.NoPenalty} {
				g := ganOf(t, smallImages4(), models.Adversarial{Latent: 5, Normalization: kind, Loss: loss, Penalty: penalty}, smallGAN)
				paths = append(paths, computeGAN(t, g, fmt.Sprintf("small GAN %s %s %v", kind, loss, penalty), 6)...)
			}
		}
	}
	output, err := exec.CommandContext(t.Context(), torch, append([]string{"../../docs/checks/check_vision.py"}, paths...)...).CombinedOutput()
	if err != nil {
		t.Errorf("docs/checks/check_vision.py: %v", err)
	}
	t.Logf("%s", strings.ReplaceAll(string(output), os.TempDir(), ""))
}

// smallImages4 are in colours, of sides that a generator can make.
func smallImages4() models.ImageShape {
	shape := ganImages
	shape.Channels = 3
	return shape
}
