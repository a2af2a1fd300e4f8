// Package clientprograms describes external programs to tasks: their code, and programs that train
// a client by the contract "client" (docs/contracts/client.md). Workers run the programs; tasks
// send them requests:
//
//	client, err := t.Client(ctx, clientprograms.Setting{Program: program})
//	...
//	defer client.GiveBack()
//	fitted, err := client.Fit(ctx, clientprograms.Work{Model: model, Examples: examples, Seed: 7}, params)
//	// params are the user's; fitted says from how many examples they were learned
//
// A client's errors are task errors: tasks.Permanent if a retry cannot resolve them.
package clientprograms

import (
	"context"
	"encoding/json"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/storage"
)

// Program describes a training program in parameters of tasks. Its fields determine its results,
// and are part of the keys.
type Program struct {
	// Command is run by the system's shell.
	Command string `json:"command"`
	// Code is the digest of the program's code, "" if unknown.
	Code string `json:"code,omitempty"`
	// Config is a JSON object passed to the program unchanged; nil for none.
	Config json.RawMessage `json:"config,omitempty"`
	// Image is the shape of the images that it trains on; zero for texts.
	Image models.ImageShape `json:"image,omitzero"`
}

func (p *Program) OfImages() bool { return p.Image != (models.ImageShape{}) }

// ProgramUser is implemented by parameters of tasks that may ask a program.
type ProgramUser interface {
	// UsesProgram returns the program, nil for none.
	UsesProgram() *Program
}

// Setting is the description that a program receives at its start.
type Setting struct {
	Program
	// Words are the texts of all tokens, including special ones. They must not be modified.
	Words []string
	// Terms are the program's limits.
	Terms childprocess.Terms
	// Set lists further environment variables of the program, as NAME=VALUE.
	Set []string
	// Archive has the code; nil if Program.Code is empty.
	Archive Code `json:"-"`
}

// Runner runs programs. It is safe for concurrent use.
type Runner interface {
	// Borrow returns a client for exclusive use until it is given back. It may have worked for
	// other tasks; its answers do not depend on them.
	Borrow(ctx context.Context, s Setting) (Client, error)
}

// Client is a running program. It is not safe for concurrent use.
type Client interface {
	// Description returns the program's answer to describe.
	Description() *Description
	// Initial draws the first parameters: the tensors of the Description in order, flat, all
	// finite. The seed is below 2^53.
	Initial(ctx context.Context, seed uint64) ([]float32, error)
	// Fit trains from a model's parameters, and sets params to the user's, in the layout of Initial
	// without the frozen tensors, which are last. After an error the content of params is undefined.
	Fit(ctx context.Context, w Work, params []float32) (*Fitted, error)
	// FitMany trains several users from a model's parameters, at most Together.Users, and calls
	// each with their results in order. The parameters have the layout of Fit, and are valid
	// until each returns; its error ends FitMany. Description.Together must not be nil.
	FitMany(ctx context.Context, w ManyWork, each func(i int, f *Fitted, params []float32) error) error
	// Sum trains users as FitMany does, and sets sum, laid out as parameters, to the sum over the users of
	// weight x min(1, clip/norm) x (parameters - model's parameters), where norm is the L2 norm of
	// the difference. A clip of 0 means no clip, and nil weights mean each user's number of
	// examples. Together.Sum must be true.
	Sum(ctx context.Context, w ManyWork, clip float64, weights []float64, sum []float32) ([]Summed, error)
	// Evaluate measures a model's loss.
	Evaluate(ctx context.Context, w Work) (*Evaluation, error)
	// LogLikelihoods scores pairs under a model, in their order.
	LogLikelihoods(ctx context.Context, m Model, pairs []Pair) ([]score.Answer, error)
	// GiveBack ends the use of the client.
	GiveBack()
}

// Description is a program's answer to describe.
type Description struct {
	contracts.Identity
	// Program names the program, for display.
	Program string `json:"program"`
	// Parameters are the tensors of the program's model.
	Parameters []models.Shape `json:"parameters"`
	// Input is the kind of its input: "tokens", "text" or "images".
	Input Input `json:"input"`
	// Deterministic reports whether equal requests have equal answers.
	Deterministic bool `json:"deterministic"`
	// Together is nil for a program that trains one user at a time.
	Together *Together `json:"fit_many,omitempty"`
	// Tree reports whether the program scores the nodes of a tree of tokens.
	Tree bool `json:"tree,omitempty"`
}

// Together describes the training of several users at once.
type Together struct {
	// Users is the largest number of users of a request, at least 1. It depends only on the
	// configuration, because sums depend on it.
	Users int `json:"users"`
	// Memory is the number of bytes that a user takes while it trains; 0 if unknown.
	Memory int64 `json:"memory,omitempty"`
	// Sum reports whether the program also adds up the updates.
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

// Model is a file of parameters, sent to the program once for all work.
type Model struct {
	// Name is a unique file name of letters, digits and hyphens.
	Name string
	// Read returns the safetensors file. It may have metadata.
	Read func(ctx context.Context) ([]byte, error)
}

// ModelOf returns a model with the bytes of its file, named by their digest.
func ModelOf(file []byte) Model {
	return Model{Name: storage.DigestOf(file).String(), Read: func(context.Context) ([]byte, error) { return file, nil }}
}

// Work is the data of a client's training or evaluation.
type Work struct {
	Model Model
	// Examples are sentences of token ids, including begin and end; images are sentences for
	// images.OfSentence.
	Examples [][]int32
	// Round counts from 1, and Seed is below 2^53; both only for Fit.
	Round int
	Seed  uint64
}

// ManyWork is the training data of several users.
type ManyWork struct {
	Model Model
	Users []User
	// Round counts from 1.
	Round int
	// LearningRate is the learning rate of the round for a Coalmine trainer; 0 for the program's
	// own.
	LearningRate float64
	// LargestLoss is the mean loss per target, in nats, of a step above which a Coalmine trainer
	// reports a *DivergedError; 0 for none.
	LargestLoss float64
}

// User is a user's part of ManyWork, with the fields of Work.
type User struct {
	Examples [][]int32
	Seed     uint64
	// Batches lists the indexes of the examples of each step, for a Coalmine trainer; nil for the
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
	// Examples is the number of training examples, at least 1: the client's weight in the mean if
	// updates are not clipped.
	Examples int64
	// Targets is the number of predictions in training, and Loss their mean of -log p in nats, each
	// before its step; both 0 if unknown.
	Targets int64
	Loss    float64
	// Metrics are all numbers that the program reports, including these.
	Metrics map[string]float64
}

// DivergedError reports that a user's training diverged.
type DivergedError struct {
	models.DivergedError
	// User is the index of the first user in the request that diverged. Step counts from 1; 0 if unknown.
	User, Step int
}

// Unwrap returns the divergence without the user.
func (e *DivergedError) Unwrap() error { return &e.DivergedError }

// Evaluation measures a model's predictions of examples.
type Evaluation struct {
	// Targets is the number of predictions, Correct the number of right first guesses.
	Targets int64 `json:"targets"`
	Correct int64 `json:"correct"`
	// Loss is the mean of -log p of the targets, in nats.
	Loss float64 `json:"loss"`
}

// Pair is the first tokens of a text, without the begin token, and their continuation.
type Pair struct{ Context, Continuation []int32 }
