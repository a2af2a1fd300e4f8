package training

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
)

// gradientRate is the learning rate by which a trainer computes gradients: an update is -gradientRate times
// the gradient. A power of two changes no digits, and this one is so large that the trainer keeps them when it adds the
// update to parameters.
const gradientRate = 1 << 16

// GradientsOf returns the configuration of a trainer that computes gradients for the steps of central training. For
// a private training it computes those of single records.
func GradientsOf(local Local, private bool) Local {
	batch := local.Batch
	if private {
		batch = 1
	}
	return Local{Optimizer: optimizers.Config{Kind: optimizers.SGD}, LearningRate: 1, Batch: batch, Dropout: local.Dropout}
}

// programGradients computes gradients by the trainer of a program: a user that takes one step of plain SGD on some
// records returns their gradient, and the sum of clipped updates of users with one record each is that of clipped
// gradients.
type programGradients struct {
	client clientprograms.Client
	ask    func(users []clientprograms.User, model clientprograms.Model, clip float64, sum []float32) ([]clientprograms.Summed, error)
	// network and frozen complete the trained parameters to a model file.
	network models.Network
	frozen  []float32
	clip    float64    // of ClippedSum
	drop    *rand.Rand // nil without dropout
	update  []float32
}

// newProgramGradients borrows the program's trainer. The caller must give back the client.
func newProgramGradients(ctx context.Context, t *tasks.Task, p *clientprograms.Program, model *checkpoints.Model, clip float64) (*programGradients, error) {
	client, err := borrowTrainer(ctx, t, p, model.Network)
	if err != nil {
		return nil, err
	}
	trained := model.Network.Trained()
	return &programGradients{
		client: client, network: model.Network, frozen: model.Params[trained:], clip: clip, update: make([]float32, trained),
		ask: func(users []clientprograms.User, m clientprograms.Model, clip float64, sum []float32) ([]clientprograms.Summed, error) {
			weights := slices.Repeat([]float64{1}, len(users))
			return client.Sum(ctx, clientprograms.ManyWork{Model: m, Users: users, Round: 1, LearningRate: gradientRate}, gradientRate*clip, weights, sum)
		},
	}, nil
}

// UseDropout implements models.Dropping. The trainer has the rate in its configuration.
func (g *programGradients) UseDropout(_ float64, rng *rand.Rand) error {
	g.drop = rng
	return nil
}

// user returns a user that takes one step on some records.
func (g *programGradients) user(records [][]int32) clientprograms.User {
	step := lists.Make(len(records), func(i int) int { return i })
	u := clientprograms.User{Examples: records, Batches: [][]int{step}}
	if g.drop != nil {
		u.Seed = g.drop.Uint64() >> 11
	}
	return u
}

// model returns the file of the parameters, named by its content.
func (g *programGradients) model(params []float32) (clientprograms.Model, error) {
	data, err := checkpoints.Encode(g.network, slices.Concat(params, g.frozen), nil)
	return clientprograms.ModelOf(data), err
}

// Gradient implements models.Learner.
func (g *programGradients) Gradient(params []float32, batch [][]int32, gradient []float32) (models.Loss, error) {
	return g.sum(params, []clientprograms.User{g.user(batch)}, 0, nil, gradient)
}

// ClippedSum implements models.Clipping. factor must be privacy.ClipScale of the clip norm.
func (g *programGradients) ClippedSum(params []float32, records [][]int32, factor func(norm float64) float64, sum []float32, norms []float64) (models.Loss, error) {
	users := lists.Make(len(records), func(i int) clientprograms.User { return g.user(records[i : i+1]) })
	return g.sum(params, users, g.clip, func(i int, norm float64) {
		norms[i] = norm
		factor(norm)
	}, sum)
}

// sum stores the sum of the users' gradients in the slice into. The trainer gets as many users at a time as it
// accepts. each, unless nil, is called with the norm of every gradient.
func (g *programGradients) sum(params []float32, users []clientprograms.User, clip float64, each func(i int, norm float64), into []float32) (loss models.Loss, err error) {
	model, err := g.model(params)
	if err != nil {
		return loss, err
	}
	total, done := make([]float64, len(into)), 0
	for group := range slices.Chunk(users, g.client.Description().Together.Users) {
		found, err := g.ask(group, model, clip, g.update)
		if d, ok := errors.AsType[*clientprograms.DivergedError](err); ok && d.Name == updateName {
			return loss, &models.DivergedError{Name: "gradient", Value: d.Value / gradientRate}
		}
		if err != nil {
			return loss, err
		}
		for i, v := range g.update {
			total[i] -= float64(v) / gradientRate
		}
		for _, u := range found {
			loss = loss.Add(models.Loss{Sum: float64(u.Loss * float64(u.Targets)), Tokens: int(u.Targets)})
			if each != nil {
				each(done, u.Norm/gradientRate)
			}
			done++
		}
	}
	for i, v := range total {
		into[i] = float32(v)
	}
	return loss, loss.Check()
}
