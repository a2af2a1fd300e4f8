// Package clientprograms describes external programs to tasks: their code, and programs that train
// a client in place of this one, by the contract "client" (docs/contracts/client.md). Workers run
// these, tasks ask them:
//
//	client, err := t.Client(ctx, clientprograms.Setting{Program: program})
//	...
//	defer client.GiveBack()
//	fitted, err := client.Fit(ctx, clientprograms.Work{Model: model, Examples: examples, Seed: 7}, params)
//	// params are the user's; fitted says from how many examples they were learned
//
// A client's errors are those of a task: tasks.Permanent where another try cannot mend them.
package clientprograms

import (
	"context"
	"encoding/json"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/models"
)

// Program is one that trains, as parameters of tasks hold it. What its results depend on is all
// here, and so in the keys.
type Program struct {
	// Command is run by the system's shell.
	Command string `json:"command"`
	// Code is the digest of the code that it runs, "" if nobody says.
	Code string `json:"code,omitempty"`
	// Config is a JSON object that the program gets as it stands; nil for none.
	Config json.RawMessage `json:"config,omitempty"`
	// Image is the shape of the images that it trains on; zero for texts.
	Image models.ImageShape `json:"image,omitzero"`
}

// OfImages reports whether it trains on images.
func (p *Program) OfImages() bool { return p.Image != (models.ImageShape{}) }

// Asker are parameters of tasks some of which ask a program.
type Asker interface {
	// Asks is the program, nil for none.
	Asks() *Program
}

// Setting is the description that a program gets at its start.
type Setting struct {
	Program
	// Words are the texts of all tokens, the special ones included. They must not be written to.
	Words []string
	// Terms are its limits.
	Terms childprocess.Terms
	// Set lists further environment variables of the program, as NAME=VALUE.
	Set []string
	// Archive has the code; nil where Program.Code is empty.
	Archive Code `json:"-"`
}

// Runner runs programs. It may be used from several goroutines.
type Runner interface {
	// Borrow returns a client that nobody else has before it is given back. It may have worked
	// for other tasks: its answers do not depend on them.
	Borrow(ctx context.Context, s Setting) (Client, error)
}

// Client is a program that runs. It is for one goroutine.
type Client interface {
	// Description is the program's answer to describe.
	Description() *Description
	// Initial draws the first parameters: the tensors of the Description in their order, flat,
	// all finite. The seed is below 2^53.
	Initial(ctx context.Context, seed uint64) ([]float32, error)
	// Fit trains from a model's parameters, and sets params to the trained ones, laid out as
	// those of Initial. After an error their content is undefined.
	Fit(ctx context.Context, w Work, params []float32) (*Fitted, error)
	// FitMany trains several users from a model's parameters, at most as many as Together.Users, and
	// calls each with what comes of one after the other, in their order. The parameters are laid out as
	// those of Initial, and valid until each returns; its error ends FitMany. Description.Together
	// must not be nil.
	FitMany(ctx context.Context, w ManyWork, each func(i int, f *Fitted, params []float32) error) error
	// Sum trains users as FitMany does, and sets sum, laid out as parameters, to the sum over the users of
	// weight x min(1, clip/norm) x (parameters - model's parameters), where norm is the L2 norm of
	// the difference. A clip of 0 does not bound, and nil weights are the examples that each user has
	// learned from. Together.Sum must be true.
	Sum(ctx context.Context, w ManyWork, clip float64, weights []float64, sum []float32) ([]Summed, error)
	// Evaluate measures a model's loss.
	Evaluate(ctx context.Context, w Work) (*Evaluation, error)
	// LogLikelihoods scores pairs under a model, in their order.
	LogLikelihoods(ctx context.Context, m Model, pairs []Pair) ([]Likelihood, error)
	// GiveBack ends the use of the client.
	GiveBack()
}

// Description is a program's answer to describe.
type Description struct {
	contracts.Identity
	// Program names it, for people.
	Program string `json:"program"`
	// Parameters are the tensors of its model.
	Parameters []models.Shape `json:"parameters"`
	// Input is the kind of its input: "tokens", "text" or "images".
	Input Input `json:"input"`
	// Deterministic says that equal requests have equal answers.
	Deterministic bool `json:"deterministic"`
	// Together is nil for a program that trains one user at a time.
	Together *Together `json:"fit_many,omitempty"`
	// Tree says that it scores the nodes of a tree of tokens.
	Tree bool `json:"tree,omitempty"`
}

// Together says how a program trains several users at once.
type Together struct {
	// Users is the largest number of users of a request, at least 1. It depends on the configuration
	// alone, because sums depend on it.
	Users int `json:"users"`
	// Memory is the number of bytes that a user takes while it trains; 0 if unknown.
	Memory int64 `json:"memory,omitempty"`
	// Sum says that the program also adds the updates up.
	Sum bool `json:"sum,omitempty"`
	// Tolerance bounds the L2 norm of the difference between a user's parameters by Fit and by FitMany,
	// as a share of the norm of the user's update.
	Tolerance float64 `json:"tolerance"`
}

// Input is the kind of a program's input.
type Input string

// Inputs.
const (
	TokensInput Input = "tokens" // lists of token ids
	TextInput   Input = "text"
	ImagesInput Input = "images"
)

// Model is a file of parameters, which is handed over once for all work with it.
type Model struct {
	// Name is one that no other file has, of letters, digits and hyphens.
	Name string
	// Read returns the safetensors file. It may have metadata.
	Read func(ctx context.Context) ([]byte, error)
}

// Work is the data of a client's training or evaluation.
type Work struct {
	Model Model
	// Examples are sentences of token ids, with those of their begin and end; images as
	// datasets.ImageOf takes them apart.
	Examples [][]int32
	// Round counts from 1, and Seed is below 2^53; both of Fit alone.
	Round int
	Seed  uint64
}

// ManyWork is the training data of several users.
type ManyWork struct {
	Model Model
	Users []User
	// Round counts from 1.
	Round int
	// LearningRate is that of the round for a trainer of Coalmine; 0 for the program's own.
	LearningRate float64
}

// User is a user's part of ManyWork, with the fields of Work.
type User struct {
	Examples [][]int32
	Seed     uint64
	// Batches are the places of the examples of each step, for a trainer of Coalmine; nil for the
	// program's own.
	Batches [][]int
}

// Summed is the result of a user in a sum.
type Summed struct {
	Fitted
	// Norm is the L2 norm of the user's update before clipping.
	Norm float64
}

// Fitted is the result of a client's training.
type Fitted struct {
	// Examples is how many it has learned from, at least 1: its weight in the mean where updates
	// are not clipped.
	Examples int64
	// Targets is how many predictions it has learned from, and Loss the mean of -log p of
	// these in nats, each before its step; both 0 where the program does not say.
	Targets int64
	Loss    float64
	// Metrics are all numbers that the program says, these among them.
	Metrics map[string]float64
}

// Evaluation says how well a model predicts examples.
type Evaluation struct {
	// Targets is how many predictions were made, Correct how many first guesses were right.
	Targets int64 `json:"targets"`
	Correct int64 `json:"correct"`
	// Loss is the mean of -log p of the targets, in nats.
	Loss float64 `json:"loss"`
}

// Pair is a sequence of tokens that a text begins with, without the special one, and how it goes
// on.
type Pair struct{ Context, Continuation []int32 }

// Likelihood is a model's score of a pair.
type Likelihood struct {
	// LogProb is the natural logarithm of the probability of the continuation, at most 0.
	LogProb float64
	// Greedy says that each of its tokens is the most probable one.
	Greedy bool
}
