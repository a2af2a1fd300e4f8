package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/combin"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
)

// Methods of a stepping command.
const (
	describeMethod = "describe"
	initialMethod  = "initial"
	sampleMethod   = "sample"
	stepMethod     = "step"
)

// Files that Coalmine and a stepping command exchange.
const (
	stepFolder    = "step"
	initialFile   = stepFolder + "/initial.safetensors"
	trainedFile   = stepFolder + "/trained.safetensors"
	releaseFile   = stepFolder + "/release.safetensors"
	tensorsSuffix = ".safetensors"
)

// StepClaim is a stepping command's answer to describe: the mechanism that it claims to be.
type StepClaim struct {
	contracts.Identity
	Methods []string `json:"methods"`
	ReplayClaim
	// Clip is the clip norm, and Divisor the divisor of the noisy sum of clipped gradients, both
	// above 0.
	Clip    float64 `json:"clip"`
	Divisor float64 `json:"divisor"`
	// Parameters are the trained tensors of the model.
	Parameters []models.Shape `json:"parameters"`
}

// Size returns the number of trained parameters.
func (c *StepClaim) Size() (size int) {
	for _, p := range c.Parameters {
		size += Volume(p.Shape)
	}
	return size
}

// Volume returns the number of elements of a shape.
func Volume(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func (c *StepClaim) check() error {
	_, err := models.OutlineOf(c.Parameters)
	switch {
	case err != nil:
		return err
	case !slices.Contains(c.Methods, stepMethod):
		return fmt.Errorf("its methods are %q; expected %q among them", c.Methods, stepMethod)
	case !(c.Clip > 0) || !(c.Divisor > 0):
		return fmt.Errorf("clip is %g and divisor %g; expected the clip norm, and the number that the noised sum is divided by, both above 0", c.Clip, c.Divisor)
	case c.Unit != "record" && c.Unit != "user":
		return fmt.Errorf("unit is %q; expected \"record\" or \"user\"", c.Unit)
	}
	return c.ReplayClaim.check()
}

// Stepper is a command that runs single steps of a training. It must be closed.
type Stepper struct {
	Claim StepClaim
	// States are files of parameters to step from: the untrained model, and the trained model if
	// its parameters are a safetensors file.
	States []string

	conversation *contracts.Conversation
	workspace    *childprocess.Workspace
	owned        bool // the stepper owns the workspace
}

// StepRequest asks for one step.
type StepRequest struct {
	// Round counts from 1, and Seed is below 2^53: both determine the noise.
	Round int    `json:"round"`
	Seed  uint64 `json:"seed"`
	// Parameters is one of States.
	Parameters string `json:"parameters"`
	// Batch lists the members that take part, and Without the members absent from the data set, by
	// index in the training data, ascending.
	Batch   []int   `json:"batch"`
	Without []int   `json:"without"`
	Clip    float64 `json:"clip"`
	Noise   bool    `json:"noise"`
	Into    string  `json:"into"`
}

// OpenStepper starts the step command named by the training at the input, in a directory with all
// files of the training. It returns ErrNoStep if there is no such command.
func (p *TrainParams) OpenStepper(ctx context.Context, t *tasks.Task, input string) (*Stepper, error) {
	result, err := ReadResult(ctx, t, input)
	if err != nil {
		return nil, err
	}
	if result.Step == "" {
		return nil, ErrNoStep
	}
	w, terms, err := workplace(t)
	if err != nil {
		return nil, err
	}
	x := &training{task: t, params: p, terms: terms, workspace: w}
	if err = errors.Join(x.furnish(ctx), putLeft(ctx, t, w, input)); err == nil {
		var s *Stepper
		if s, err = startStepper(ctx, x, result); err == nil {
			s.owned = true
			return s, nil
		}
	}
	w.Remove()
	return nil, CommandError(ctx, err)
}

// ErrNoStep reports that a training names no step command.
var ErrNoStep = errors.New("the training names no step in its " + resultFile)

// startStepper starts the step command of a training's result, and requests its description and the
// untrained parameters.
func startStepper(ctx context.Context, x *training, r *Result) (*Stepper, error) {
	if err := x.workspace.Folder(stepFolder); err != nil {
		return nil, err
	}
	conversation, err := contracts.Start(ctx, &childprocess.Command{
		Args: childprocess.Shell(r.Step), Dir: x.workspace.Path(), Terms: x.terms, Set: x.task.Variables(),
		Write: append([]string{x.workspace.Path()}, x.task.Writable()...),
	}, contracts.Protocol{
		Who: "command", Name: r.Step, Patience: score.DefaultTimeout,
		OneObjectALine: AnswersSteps, OneAnswerEach: AnswersSteps, FiniteNumbers: AnswersSteps, EndsWithItsInput: AnswersSteps,
	})
	if err != nil {
		return nil, err
	}
	s := &Stepper{conversation: conversation, workspace: x.workspace}
	err = s.introduce(ctx, x)
	if err == nil {
		err = s.initial(ctx, x.params.Seed)
	}
	if err == nil {
		err = s.trained(r)
	}
	if err != nil {
		_ = s.Close() // the first error decides
		return nil, err
	}
	return s, nil
}

func (s *Stepper) introduce(ctx context.Context, x *training) error {
	about := map[string][]int{"versions": contract.Versions()}
	return s.conversation.Ask(ctx, describeMethod, describeMethod, about, func(result json.RawMessage) error {
		if err := contract.Describes(StatesItsClaim, result, &s.Claim, &s.Claim.Identity); err != nil {
			return err
		}
		claim := s.Claim
		if x.brief {
			claim.Cohort = min(claim.Cohort, claim.Population)
		}
		if err := claim.check(); err != nil {
			return StatesItsClaim.Errorf("its describe: %v", err)
		}
		if n := x.members[s.Claim.Unit]; s.Claim.Population != n {
			return StatesItsClaim.Errorf("its describe has a population of %d; expected all %s of the training data: one that it learns nothing from has a gradient of zero", s.Claim.Population, readable.Count(n, s.Claim.Unit))
		}
		return nil
	})
}

// initial requests the untrained parameters.
func (s *Stepper) initial(ctx context.Context, seed uint64) error {
	s.States = []string{initialFile}
	return s.conversation.Ask(ctx, initialMethod, initialMethod, map[string]any{"seed": seed, "into": initialFile}, func(json.RawMessage) error {
		_, err := s.read(initialFile)
		return err
	})
}

// trained adds the trained parameters, if present.
func (s *Stepper) trained(r *Result) error {
	if !strings.HasSuffix(r.Model, tensorsSuffix) {
		return nil
	}
	data, err := s.workspace.Read(r.Model, maxFile)
	if err == nil {
		_, err = s.values(r.Model, data)
	}
	if err != nil {
		return nil // the model is not a safetensors file
	}
	s.States = append(s.States, trainedFile)
	return s.workspace.Put(trainedFile, data)
}

func (s *Stepper) read(name string) ([]float32, error) {
	data, err := s.workspace.Read(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, AnswersSteps.Errorf("it has left no %s", name)
	}
	if err != nil {
		return nil, err
	}
	return s.values(name, data)
}

// values returns the values of the claimed tensors in a file's data, flat, in the order of the
// claim.
func (s *Stepper) values(name string, data []byte) ([]float32, error) {
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return nil, AnswersSteps.Errorf("its %s: %v", name, err)
	}
	out := make([]float32, 0, s.Claim.Size())
	for _, p := range s.Claim.Parameters {
		tensor, ok := file.Tensor(p.Name)
		if !ok || !slices.Equal(tensor.Shape, p.Shape) || len(tensor.Float32) != Volume(p.Shape) {
			return nil, AnswersSteps.Errorf("its %s has no tensor %q of float32 and the shape %v, as its describe has it", name, p.Name, p.Shape)
		}
		out = append(out, tensor.Float32...)
	}
	if i := slices.IndexFunc(out, func(v float32) bool { return !numbers.IsFinite(v) }); i >= 0 {
		return nil, AnswersSteps.Errorf("its %s has %g as value %d; expected finite numbers", name, out[i], i)
	}
	return out, nil
}

// Sample asks for the members of a round's batch, in ascending order.
func (s *Stepper) Sample(ctx context.Context, round int, seed uint64) (members []int, err error) {
	err = s.conversation.Ask(ctx, sampleMethod, fmt.Sprintf("%s of round %d", sampleMethod, round), map[string]any{"round": round, "seed": seed}, func(result json.RawMessage) error {
		var said struct {
			Members []int `json:"members"`
		}
		if err := json.Unmarshal(result, &said); err != nil || said.Members == nil {
			return AnswersSteps.Errorf("it answers sample by %s; expected an object with the list members", contracts.Quote(result))
		}
		members = said.Members
		if err := checkMembers(members, s.Claim.Population); err != nil {
			return AnswersSteps.Errorf("its sample of round %d %v", round, err)
		}
		return nil
	})
	return members, err
}

// samplesBySeed returns a doubt if two seeds draw the same random batches. Independent batches raise it with a probability below 1e-9.
func (s *Stepper) samplesBySeed(ctx context.Context, seed, other uint64) error {
	equal := s.Claim.logEqual()
	for round := 1; round <= maxSampled && equal < 0; round++ {
		members, err := s.Sample(ctx, round, seed)
		if err != nil {
			return err
		}
		others, err := s.Sample(ctx, round, other)
		if err != nil || !slices.Equal(members, others) {
			return err
		}
		if float64(round)*equal < math.Log(1e-9) {
			return contracts.Doubt("its samples of rounds 1 to %d are the same with another seed: does the training draw other batches in every run?", round)
		}
	}
	return nil
}

// logEqual returns the logarithm of the probability that two random batches are equal, 0 unless the sampling is Poisson or fixed-size.
func (c *StepClaim) logEqual() float64 {
	n, q := float64(c.Population), float64(c.Cohort)/float64(c.Population)
	switch c.Sampling {
	case privacy.Poisson:
		return n * math.Log(float64(q*q)+float64((1-q)*(1-q)))
	case privacy.FixedSize:
		return -combin.LogGeneralizedBinomial(n, float64(c.Cohort))
	case privacy.Shuffled, privacy.Separated, privacy.NoSampling:
	}
	return 0
}

// Step asks for one step, and returns its release: flat, in the order of the claim.
func (s *Stepper) Step(ctx context.Context, r StepRequest) (release []float32, err error) {
	r.Into = releaseFile
	err = s.conversation.Ask(ctx, stepMethod, fmt.Sprintf("%s of round %d", stepMethod, r.Round), r, func(json.RawMessage) (err error) {
		release, err = s.read(releaseFile)
		return err
	})
	return release, err
}

// Close ends the command. It returns an error if the command did not end as the contract requires.
func (s *Stepper) Close() error {
	err := s.conversation.Close()
	if s.owned {
		s.workspace.Remove()
	}
	return err
}

// maxSampled is the largest number of rounds whose batches a check samples.
const maxSampled = 50

// steps checks the step command of the training.
func (x *trial) steps(ctx context.Context, r *Result) error {
	if r.Step == "" {
		return x.withoutStep()
	}
	s, err := startStepper(ctx, x.training, r)
	if err != nil {
		return err
	}
	if err = s.conforms(ctx, x.params.Seed); err == nil {
		err = s.samplesBySeed(ctx, x.params.Seed, x.params.Seed+1)
	}
	return cmp.Or(err, s.Close()) // the first error decides
}

// stepsOnFew checks the step command, if there is one, with requests that a correct command
// answers correctly for any data. It samples only if the records suffice for a cohort.
func (x *trial) stepsOnFew(ctx context.Context) error {
	r, err := x.ended()
	if err != nil || r.Step == "" {
		return err
	}
	s, err := startStepper(ctx, x.training, r)
	if err != nil {
		return err
	}
	if s.Claim.Cohort <= s.Claim.Population {
		err = s.conforms(ctx, x.params.Seed)
	}
	if errors.Is(err, errNoMembers) {
		err = nil
	}
	return cmp.Or(err, s.Close())
}

// withoutStep explains how audit.neighbours replays a training that names no step.
func (x *trial) withoutStep() error {
	if x.params.Replay == nil {
		return contracts.Skip("its %s names no step, so audit.neighbours asks the training itself to replay steps: check that with --replays 20, or name a step, which is checked here", resultFile)
	}
	return contracts.Skip("its %s names no step; the %s that the training itself has replayed, as audit.neighbours asks for, were read", resultFile, readable.Count(x.params.Replay.Repeats, "step"))
}

// conforms repeats a request, with and without noise, and with another seed.
func (s *Stepper) conforms(ctx context.Context, seed uint64) error {
	r, err := s.anyBatch(ctx, seed)
	if err != nil {
		return err
	}
	other := seed + 1
	answers := map[string][]float32{}
	for _, asked := range []struct {
		name  string
		seed  uint64
		noise bool
	}{{"clean", seed, false}, {"clean again", seed, false}, {"clean by another seed", other, false}, {"noisy", seed, true}, {"noisy again", seed, true}, {"noisy by another seed", other, true}} {
		r.Seed, r.Noise = asked.seed, asked.noise
		if answers[asked.name], err = s.Step(ctx, r); err != nil {
			return err
		}
	}
	equal := func(a, b string) bool { return slices.Equal(answers[a], answers[b]) }
	switch {
	case !equal("clean", "clean again") || !equal("noisy", "noisy again"):
		return StepsByRequest.Errorf("it answers a step of round %d and the same again by other numbers", r.Round)
	case !equal("clean", "clean by another seed"):
		return StepsByRequest.Errorf("its step of round %d without noise is another one by another seed: expected no random numbers but the noise, such as no dropout", r.Round)
	case equal("noisy", "clean"):
		return StepsByRequest.Errorf("its step of round %d with noise is that without", r.Round)
	case equal("noisy", "noisy by another seed"):
		return StepsByRequest.Errorf("its step of round %d has the same noise by another seed", r.Round)
	}
	return s.withoutOne(ctx, r, replay.Subtract(answers["noisy by another seed"], answers["clean"]))
}

// withoutOne leaves out a member of the batch, which must not change the noise.
func (s *Stepper) withoutOne(ctx context.Context, r StepRequest, noise []float64) error {
	r.Without, r.Batch = r.Batch[:1], r.Batch[1:]
	noisy, err := s.Step(ctx, r)
	if err != nil {
		return err
	}
	r.Noise = false
	clean, err := s.Step(ctx, r)
	if err != nil {
		return err
	}
	length, moved := 0.0, 0.0
	for i, v := range replay.Subtract(noisy, clean) {
		length, moved = length+float64(noise[i]*noise[i]), moved+float64((v-noise[i])*(v-noise[i]))
	}
	if moved > sameNoise*sameNoise*length {
		return StepsByRequest.Errorf("its noise of round %d changes by %.3g of its length if a record or user is left out", r.Round, math.Sqrt(moved/length))
	}
	return nil
}

// sameNoise is the tolerance for rounding of the noise, as a share of its norm.
const sameNoise = 1e-3

var errNoMembers = AnswersSteps.Errorf("its samples of rounds 1 to %d are all empty", maxSampled)

// anyBatch returns a request for the first round with a nonempty batch.
func (s *Stepper) anyBatch(ctx context.Context, seed uint64) (StepRequest, error) {
	for round := 1; round <= maxSampled; round++ {
		members, err := s.Sample(ctx, round, seed)
		if err != nil {
			return StepRequest{}, err
		}
		again, err := s.Sample(ctx, round, seed)
		if err != nil {
			return StepRequest{}, err
		}
		if !slices.Equal(members, again) {
			return StepRequest{}, StepsByRequest.Errorf("it answers sample of round %d and the same again by other members", round)
		}
		if len(members) > 0 {
			return StepRequest{Round: round, Parameters: initialFile, Batch: members, Without: []int{}, Clip: s.Claim.Clip}, nil
		}
	}
	return StepRequest{}, errNoMembers
}
