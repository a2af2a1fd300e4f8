// This file measures the cost of an external program that trains the clients of a federation: the time
// from a user's examples to the update in the sum, compared with that of the program's own loop, which
// the program reports.

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"text/tabwriter"
	"time"

	"coalmine/internal/kernels"
	"coalmine/internal/memory"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
	"coalmine/workers/clients"
)

// ClientsOptions describe the program and its clients.
type ClientsOptions struct {
	// Command is the program, which reports the seconds of its loop in the metric "seconds" of fit.
	// Config is its configuration.
	Command string
	Config  json.RawMessage
	// Words of the vocabulary, Examples of a user, words of an example (Length), and Clients.
	Words, Examples, Length, Clients int
}

// secondsMetric is the name of a program's metric for the seconds of its training loop.
const secondsMetric = "seconds"

// ClientsResult holds the measurements. Seconds are per client, medians over all clients.
type ClientsResult struct {
	Program    string `json:"program"`
	Parameters int    `json:"parameters"`
	Examples   int    `json:"examples"`
	Clients    int    `json:"clients"`
	// Loop is the program's time for its training, All the time from the examples to the clipped and
	// added update.
	Loop float64 `json:"loop_seconds"`
	All  float64 `json:"all_seconds"`
	// Overhead is the median of All/Loop - 1 of each client.
	Overhead float64 `json:"overhead"`
	// Start is the time for the program to describe itself.
	Start float64 `json:"start_seconds"`
}

// Print writes a table.
func (r *ClientsResult) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "program\tparameters\texamples\tclients\tloop s\tall s\toverhead\tgoal\tstart s\t")
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.3f\t%.3f\t%.1f%%\tunder 10%%\t%.2f\t\n", r.Program, r.Parameters, r.Examples, r.Clients, r.Loop, r.All, 100*r.Overhead, r.Start)
	_ = t.Flush()
}

// RunClients trains clients in sequence, the first of them unmeasured, and adds up their updates.
func RunClients(ctx context.Context, o ClientsOptions) (*ClientsResult, error) {
	if o.Words < 1 || o.Examples < 1 || o.Length < 1 || o.Clients < 1 {
		return nil, fmt.Errorf("%d words, %d examples of %d words, %d clients: expected at least 1 of each", o.Words, o.Examples, o.Length, o.Clients)
	}
	pool := clients.NewPool(clients.Options{})
	defer pool.Close()
	begun := time.Now()
	client, err := pool.Borrow(ctx, clientprograms.Setting{Program: clientprograms.Program{Command: o.Command, Config: o.Config}, Words: words(o.Words)})
	if err != nil {
		return nil, err
	}
	defer client.GiveBack()
	m := measurement{options: &o, client: client, result: &ClientsResult{
		Program: client.Description().Program, Examples: o.Examples, Clients: o.Clients, Start: time.Since(begun).Seconds(),
	}}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	for number := range o.Clients + 1 {
		if err := m.train(ctx, number); err != nil {
			return nil, err
		}
	}
	return m.conclude(), nil
}

func words(n int) []string {
	list := text.Specials()
	for i := range n {
		list = append(list, fmt.Sprintf("w%d", i))
	}
	return list
}

type measurement struct {
	options              *ClientsOptions
	client               clientprograms.Client
	model                clientprograms.Model
	before, params       []float32
	sum                  []float64
	result               *ClientsResult
	loops, alls, ratioes []float64
}

func (m *measurement) begin(ctx context.Context) (err error) {
	if m.before, err = m.client.Initial(ctx, 1); err != nil {
		return err
	}
	outline, err := models.OutlineOf(m.client.Description().Parameters)
	if err != nil {
		return err
	}
	network, err := checkpoints.NewNetwork(models.Config{Kind: models.External, Outline: outline})
	if err != nil {
		return err
	}
	data, err := checkpoints.Encode(network, m.before, nil)
	m.model = clientprograms.Model{Name: storage.DigestOf(data).String(), Read: func(context.Context) ([]byte, error) { return data, nil }}
	m.params, m.sum = make([]float32, len(m.before)), make([]float64, len(m.before))
	m.result.Parameters = len(m.before)
	return err
}

var errNoSeconds = errors.New("the program does not report the time of its loop; expected the metric \"seconds\" of fit")

// train trains a client as a task of training/clients does.
func (m *measurement) train(ctx context.Context, number int) error {
	work := clientprograms.Work{Model: m.model, Examples: m.examples(number), Round: 1, Seed: uint64(number)}
	begun := time.Now()
	fitted, err := m.client.Fit(ctx, work, m.params)
	if err != nil {
		return err
	}
	kernels.Axpy(-1, m.before, m.params)
	norm, err := models.FiniteNorm("update", m.params)
	if err != nil {
		return err
	}
	scale := privacy.ClipScale(norm, 0.2)
	for i, v := range m.params {
		m.sum[i] += float64(float64(v) * scale)
	}
	all, loop := time.Since(begun).Seconds(), fitted.Metrics[secondsMetric]
	if loop <= 0 {
		return errNoSeconds
	}
	if number > 0 {
		m.alls, m.loops, m.ratioes = append(m.alls, all), append(m.loops, loop), append(m.ratioes, all/loop-1)
	}
	return nil
}

// examples returns the examples of a user, of the full length.
func (m *measurement) examples(user int) [][]int32 {
	rng := rand.New(rand.NewPCG(uint64(user), 1))
	all := make([][]int32, m.options.Examples)
	for i := range all {
		all[i] = []int32{text.Begin}
		for range m.options.Length {
			all[i] = append(all[i], text.FirstWord+rng.Int32N(int32(m.options.Words)))
		}
	}
	return all
}

func (m *measurement) conclude() *ClientsResult {
	m.result.Loop, m.result.All, m.result.Overhead = median(m.loops), median(m.alls), median(m.ratioes)
	return m.result
}

const imageBatch = 32

// digits is the shape of grey images of 28 x 28 in 36 classes, as in Augenstein et al. 2020.
var digits = models.ImageShape{Width: 28, Height: 28, Channels: 1, Classes: 36}

// imageStep is a training step on images: of a classifier, or of one of the networks of a GAN.
type imageStep struct {
	kind       models.Kind
	generating bool
}

// imageRate is too small to change the cost of a step.
const imageRate = 1e-5

// measure fills in the figures of the row, which counts images as tokens.
func (s imageStep) measure(ctx context.Context, b *bench, r *Row) error {
	network, err := checkpoints.NewNetwork(models.Config{Kind: s.kind, Image: models.Image{ImageShape: digits}})
	if err != nil {
		return err
	}
	j := learningJob(network)
	if g, ok := network.(models.Generating); ok && s.generating {
		j = generatingJob(network, g)
	}
	if err := b.rates(ctx, r, j, nil); err != nil {
		return err
	}
	count, err := allocations(b.Repeat, j.run)
	r.Allocations = &count
	r.goal(count == 0, "no allocations")
	return err
}

func imageVectors(network models.Network) (params, gradient []float32) {
	params, gradient = memory.Floats(network.Parameters()), memory.Floats(network.Parameters())
	copy(params, network.Init(seeds.Stream(seed, seeds.Weights)))
	return params, gradient
}

// learningJob returns a step of a network that learns from data.
func learningJob(network models.Network) job {
	params, gradient := imageVectors(network)
	fixed := params[network.Trained():]
	params, gradient = params[:network.Trained()], gradient[:network.Trained()]
	learner, batch := network.NewLearner(fixed), imageExamples()
	if d, ok := learner.(models.Drawing); ok {
		d.UseStream(seeds.Stream(seed, seeds.Client))
	}
	return job{imageBatch * network.TrainingFLOPs(), imageBatch, func() error {
		_, err := learner.Gradient(params, batch, gradient)
		kernels.Axpy(-imageRate, gradient, params)
		return err
	}}
}

func generatingJob(network models.Network, g models.Generating) job {
	params, gradient := imageVectors(network)
	trained, gradient := params[network.Trained():], gradient[network.Trained():]
	generator, rng := g.NewGenerator(params), seeds.Stream(seed, seeds.Client)
	flops := imageBatch * g.GeneratorFLOPs()
	return job{flops, imageBatch, func() error {
		_, err := generator.Gradient(rng, imageBatch, gradient)
		kernels.Axpy(-imageRate, gradient, trained)
		return err
	}}
}

// imageExamples returns labelled images of noise.
func imageExamples() [][]int32 {
	rng := seeds.Stream(seed, seeds.Client)
	examples := make([][]int32, imageBatch)
	for i := range examples {
		examples[i] = []int32{1, 4 + int32(rng.IntN(digits.Classes))}
		for range digits.Values() {
			examples[i] = append(examples[i], 4+int32(rng.IntN(256)))
		}
	}
	return examples
}

// allocations returns the median number of allocations of a step that has been run before.
func allocations(repeat int, step func() error) (count float64, err error) {
	// A collection would empty the kernels' pool of workspaces, and another processor would
	// not find them there.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if err := step(); err != nil {
		return 0, err
	}
	var counts []float64
	for range repeat {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := step(); err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&after)
		counts = append(counts, float64(after.Mallocs-before.Mallocs))
	}
	return median(counts), nil
}
