package training

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/external"
)

// ClientInitialParams are the parameters of training/client-initial.
type ClientInitialParams struct {
	Seed    uint64                 `json:"seed"`
	Program clientprograms.Program `json:"program"`
}

// UsesProgram implements clientprograms.ProgramUser.
func (p ClientInitialParams) UsesProgram() *clientprograms.Program { return &p.Program }

// ClientInitial has a client program draw the initial model, with the tensors in the program's
// description. Input: external.VocabularyInput.
var ClientInitial = tasks.Kind{Name: "training/client-initial", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runClientInitial)}

// ClientInitialMetrics describe the client program.
type ClientInitialMetrics struct {
	Program       string               `json:"program"`
	Input         clientprograms.Input `json:"input"`
	Deterministic bool                 `json:"deterministic"`
	Parameters    int                  `json:"parameters"`
}

func runClientInitial(ctx context.Context, t *tasks.Task, p *ClientInitialParams) error {
	client, _, err := external.BorrowClient(ctx, t, &p.Program)
	if err != nil {
		return err
	}
	defer client.GiveBack()
	network, err := networkOf(client.Description())
	if err != nil {
		return err
	}
	params, err := client.Initial(ctx, smallSeed(p.Seed, seeds.Weights))
	if err != nil {
		return err
	}
	if err := checkpoints.Write(ctx, t, network, params); err != nil {
		return err
	}
	d := client.Description()
	return t.SetMetrics(ClientInitialMetrics{Program: d.Program, Input: d.Input, Deterministic: d.Deterministic, Parameters: network.Parameters()})
}

// networkOf returns the network in a client program's description.
func networkOf(d *clientprograms.Description) (models.Network, error) {
	outline, err := models.OutlineOf(d.Parameters)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	network, err := models.NewExternal(models.Config{Kind: models.External, Outline: outline})
	return network, tasks.Permanent(err)
}

// smallSeed returns the first number of a stream, below 2^53, which JSON preserves in every
// language.
func smallSeed(seed uint64, role seeds.Role, indices ...uint64) uint64 {
	return seeds.Stream(seed, role, indices...).Uint64() >> 11
}

// fitter trains clients with a program instead of a learner.
type fitter struct {
	client clientprograms.Client
	model  clientprograms.Model
	seed   uint64
	// native reports that the model is a Coalmine model; the program then gets the batches and the
	// learning rate of Local.
	native bool
}

// newFitter returns a fitter for the round's model. The caller must give back its client.
func newFitter(ctx context.Context, t *tasks.Task, p *ClientsParams, network models.Network) (*fitter, error) {
	model, err := external.ClientModel(t, tasks.PreviousInput)
	if err != nil {
		return nil, err
	}
	client, err := borrowTrainer(ctx, t, p.Program, network)
	if err != nil {
		return nil, err
	}
	return &fitter{client: client, model: model, seed: p.Seed, native: network.Config().Kind != models.External}, nil
}

// borrowTrainer returns a client of a program that trains the network. The caller must give it back.
func borrowTrainer(ctx context.Context, t *tasks.Task, p *clientprograms.Program, network models.Network) (clientprograms.Client, error) {
	client, _, err := external.BorrowClient(ctx, t, p)
	if err != nil {
		return nil, err
	}
	described, err := networkOf(client.Description())
	if network.Config().Kind != models.External {
		t.DeclareNondeterministic() // another kind of device may give other bytes
	}
	if err == nil && !sameTensors(described, network) {
		err = tasks.Permanent(fmt.Errorf("the program %q describes other parameters than when the training began: another version of it runs here", p.Command))
	}
	if err != nil {
		client.GiveBack()
		return nil, err
	}
	return client, nil
}

// sameTensors reports whether two networks have the same tensors in the same order, and train the same.
func sameTensors(a, b models.Network) bool {
	return a.Trained() == b.Trained() && slices.EqualFunc(a.Tensors(), b.Tensors(), func(x, y models.Tensor) bool {
		return x.Name == y.Name && slices.Equal(x.Shape, y.Shape)
	})
}

// validateProgram returns an error for features that only built-in clients have.
func (p *ClientsParams) validateProgram() error {
	if p.Program != nil && p.Control == privacy.ClipPerBatch {
		return tasks.Permanent(fmt.Errorf("the control %s clips the steps of clients, which the program %q takes", p.Control, p.Program.Command))
	}
	return nil
}

// fit sets params to the parameters that a user's client returns, and counts its training data.
func (f *fitter) fit(ctx context.Context, params []float32, examples [][]int32, round, user int, m *ChunkMetrics) (weight float64, err error) {
	fitted, err := f.client.Fit(ctx, clientprograms.Work{
		Model: f.model, Examples: examples, Round: round,
		Seed: f.seedOf(round, user),
	}, params)
	if d, ok := errors.AsType[*clientprograms.DivergedError](err); ok {
		return 0, divergedClient(d, user, round)
	}
	if err != nil {
		return 0, fmt.Errorf("client %d, round %d: %w", user, round, err)
	}
	return m.count(fitted), nil
}

// count counts a client's training data, and returns its weight.
func (m *ChunkMetrics) count(f *clientprograms.Fitted) (weight float64) {
	m.Examples += f.Examples
	m.Tokens += f.Targets
	m.LossSum += float64(f.Loss * float64(f.Targets))
	return float64(f.Examples)
}
