package clients

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"

	"coalmine/internal/contracts"
	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/images"
)

// Methods of the contract.
const (
	describe      = "describe"
	initial       = "initial"
	fit           = "fit"
	evaluate      = "evaluate"
	logLikelihood = "loglikelihood"
	fitMany       = "fit_many"
	sum           = "sum"
)

// introduction is the request for the program's description.
type introduction struct {
	Versions   []int           `json:"versions"`
	Config     json.RawMessage `json:"config"`
	Vocabulary vocabulary      `json:"vocabulary"`
	// Image is the shape of examples that are images.
	Image *models.ImageShape `json:"image,omitempty"`
	// Threads is the number of threads to compute with: those of a slot of a worker.
	Threads int `json:"threads"`
}

type vocabulary struct {
	Size int `json:"size"`
	// Begin and End are the first and last tokens of examples, FirstWord the first token that is an
	// ordinary word.
	Begin     int32 `json:"begin"`
	End       int32 `json:"end"`
	FirstWord int32 `json:"first_word"`
	// Words is the path of a JSON list of their texts.
	Words string `json:"words"`
}

// request holds the parameters of the other methods.
type request struct {
	// Parameters is the path of a file to read, Into the path of one to write.
	Parameters string `json:"parameters,omitempty"`
	Into       string `json:"into,omitempty"`
	Examples   any    `json:"examples,omitempty"`
	Pairs      any    `json:"pairs,omitempty"`
	Tree       *tree  `json:"tree,omitempty"`
	// Seed is below 2^53.
	Seed  *uint64 `json:"seed,omitempty"`
	Round int     `json:"round,omitempty"`

	// Users are the users of fit_many and sum.
	Users []userWork `json:"users,omitempty"`
	// Files are the paths of files to write, each for PerFile users; the last may have fewer.
	Files   []string `json:"files,omitempty"`
	PerFile int      `json:"per_file,omitempty"`
	// Stamp distinguishes a file written for this request from an earlier one of the same path.
	Stamp string `json:"stamp,omitempty"`
	// Clip is the limit on the norms of updates in a sum; 0 for none. Weights are nil for weights
	// by examples.
	Clip    float64   `json:"clip,omitempty"`
	Weights []float64 `json:"weights,omitempty"`
	// LearningRate, LargestLoss, and Batches of each user, are for Coalmine's own trainers.
	LearningRate float64 `json:"learning_rate,omitempty"`
	LargestLoss  float64 `json:"largest_loss,omitempty"`
}

// userWork is the training data of one of several users.
type userWork struct {
	Examples any     `json:"examples"`
	Seed     uint64  `json:"seed"`
	Batches  [][]int `json:"batches,omitempty"`
}

// imageExamples are examples of images.
type imageExamples struct {
	*score.Images
	// Labels are the classes, null if unknown.
	Labels []*int `json:"labels"`
}

func imagesOf(s models.ImageShape, sentences [][]int32) *imageExamples {
	pixels, labels := make([][]byte, len(sentences)), make([]*int, len(sentences))
	for i, sentence := range sentences {
		var label int
		if label, pixels[i] = images.OfSentence(sentence); label != images.NoLabel {
			labels[i] = &label
		}
	}
	return &imageExamples{score.ImagesOf(score.Shape{Height: s.Height, Width: s.Width, Channels: s.Channels}, pixels), labels}
}

type fitted struct {
	Examples int64              `json:"examples"`
	Metrics  map[string]float64 `json:"metrics"`
}

// divergence describes a training that diverged, in an error of fit, fit_many or sum.
type divergence struct {
	User int    `json:"user"`
	Step int    `json:"step"`
	Name string `json:"name"`
	// Value is a text, because JSON has neither NaN nor Inf.
	Value string `json:"value"`
}

// divergences are the numbers that may show a divergence.
var divergences = []string{"loss", "gradient", "update"}

// decodeDivergence returns a permanent *clientprograms.DivergedError, or nil for any other error and for an
// invalid description. users is the number of users in the request.
func decodeDivergence(err error, users int) error {
	refused, ok := errors.AsType[*contracts.RefusedError](err)
	if !ok || refused.Diverged == nil {
		return nil
	}
	var d divergence
	value := 0.0
	invalid := json.Unmarshal(refused.Diverged, &d)
	if invalid == nil {
		value, invalid = strconv.ParseFloat(d.Value, 64)
	}
	if invalid != nil || d.User < 0 || d.User >= users || d.Step < 0 || !slices.Contains(divergences, d.Name) {
		return nil
	}
	return tasks.Permanent(&clientprograms.DivergedError{DivergedError: models.DivergedError{Name: d.Name, Value: value}, User: d.User, Step: d.Step})
}

// maxName is the maximum length of a program's name, in bytes.
const maxName = 1000

// decodeDescription checks a program's description. The program must read images if ofImages,
// otherwise texts.
func decodeDescription(result json.RawMessage, ofImages bool) (*clientprograms.Description, models.Network, error) {
	var d clientprograms.Description
	if err := contract.Describes(DescribeFirst, result, &d, &d.Identity); err != nil {
		return nil, nil, err
	}
	switch {
	case len(d.Program) > maxName:
		return nil, nil, DescribeFirst.Errorf("the program's name has %d bytes, %s ...; expected at most %d", len(d.Program), contracts.Quote([]byte(d.Program[:100])), maxName)
	case d.Program == "":
		return nil, nil, DescribeFirst.Errorf("program is empty; expected a text for people, such as the program's name and version")
	case ofImages && d.Input != clientprograms.ImagesInput:
		return nil, nil, DescribeFirst.Errorf("input is %.100q; expected %q, because the examples are images", d.Input, clientprograms.ImagesInput)
	case !ofImages && d.Input != clientprograms.TokensInput && d.Input != clientprograms.TextInput:
		return nil, nil, DescribeFirst.Errorf("input is %.100q; expected %q or %q", d.Input, clientprograms.TokensInput, clientprograms.TextInput)
	}
	if err := checkTogether(&d); err != nil {
		return nil, nil, err
	}
	outline, err := models.OutlineOf(d.Parameters)
	if err != nil {
		return nil, nil, DescribeFirst.Errorf("it describes %v", err)
	}
	network, err := models.NewExternal(models.Config{Kind: models.External, Outline: outline})
	if err != nil {
		return nil, nil, DescribeFirst.Errorf("it describes %v", err)
	}
	return &d, network, nil
}

// checkTogether checks the fields of version 2, absent in earlier versions.
func checkTogether(d *clientprograms.Description) error {
	if d.Version < 2 {
		d.Together, d.Tree = nil, false
	}
	if m := d.Together; m != nil && (m.Users < 1 || m.Memory < 0 || !(m.Tolerance >= 0 && m.Tolerance <= 1)) {
		return ManyUsers.Errorf("fit_many has %d users, %d bytes each, and the tolerance %g; expected at least 1 user, at least 0 bytes, and a tolerance from 0 to 1", m.Users, m.Memory, m.Tolerance)
	}
	return nil
}

// decodeFitted checks the result of a training on the given number of examples.
func decodeFitted(result json.RawMessage, given int) (*clientprograms.Fitted, error) {
	var f fitted
	if err := json.Unmarshal(result, &f); err != nil {
		return nil, WhatFitSays.Errorf("it answered fit with %s: %v", contracts.Quote(result), err)
	}
	loss, hasLoss := f.Metrics["loss"]
	targets, counted := f.Metrics["targets"]
	switch {
	case f.Examples < 1 || f.Examples > int64(given):
		return nil, WhatFitSays.Errorf("examples is %d; expected 1 to %d, the number in the request", f.Examples, given)
	case len(f.Metrics) > maxMetrics:
		return nil, WhatFitSays.Errorf("it reports %d metrics; expected at most %d", len(f.Metrics), maxMetrics)
	case longest(f.Metrics) > maxMetricName:
		return nil, WhatFitSays.Errorf("the name of a metric has %d bytes; expected at most %d", longest(f.Metrics), maxMetricName)
	case hasLoss != counted:
		return nil, WhatFitSays.Errorf("metrics hold only one of loss and targets, %s; expected both or neither", contracts.Quote(result))
	case targets < 0 || targets > maxTargets || targets != math.Trunc(targets):
		return nil, WhatFitSays.Errorf("targets is %g; expected a whole number of at least 0", targets)
	}
	return &clientprograms.Fitted{Examples: f.Examples, Targets: int64(targets), Loss: loss, Metrics: f.Metrics}, checkLoss(loss)
}

// Limits on the result of a training.
const (
	// maxTargets limits the targets, so that sums over the clients of a round fit an int64.
	maxTargets    = 1 << 40
	maxMetrics    = 100
	maxMetricName = 100 // bytes
)

// longest returns the length of the longest metric name.
func longest(metrics map[string]float64) (bytes int) {
	for name := range metrics {
		bytes = max(bytes, len(name))
	}
	return bytes
}

func checkLoss(loss float64) error {
	if !(loss >= 0 && loss <= score.MaxLoss) {
		return FiniteNumbers.Errorf("loss is %g; expected a mean of -log p, from 0 to %g", loss, score.MaxLoss)
	}
	return nil
}

// decodeEvaluation checks the evaluation of a model on examples with at most the given number of
// targets.
func decodeEvaluation(result json.RawMessage, given int) (*clientprograms.Evaluation, error) {
	var e struct {
		Loss             *float64
		Targets, Correct *int64
	}
	if err := json.Unmarshal(result, &e); err != nil {
		return nil, WhatEvaluateSays.Errorf("it answered evaluate with %s: %v", contracts.Quote(result), err)
	}
	if e.Loss == nil || e.Targets == nil || e.Correct == nil {
		return nil, WhatEvaluateSays.Errorf("it answered evaluate with %s; expected loss, targets and correct", contracts.Quote(result))
	}
	if *e.Targets > int64(given) {
		return nil, WhatEvaluateSays.Errorf("targets is %d; expected at most %d, the number in the examples", *e.Targets, given)
	}
	if *e.Correct < 0 || *e.Correct > *e.Targets {
		return nil, WhatEvaluateSays.Errorf("correct is %d; expected 0 to %d, the number of targets", *e.Correct, *e.Targets)
	}
	return &clientprograms.Evaluation{Targets: *e.Targets, Correct: *e.Correct, Loss: *e.Loss}, checkLoss(*e.Loss)
}
