package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"coalmine/internal/contracts"
	"coalmine/privacy"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
)

// Files of a command's replayed steps.
const (
	replayFile    = outFolder + "/replay.json"
	replayTensors = outFolder + "/replay.safetensors"
)

// Replay asks a command to replay steps of its training on neighbouring data.
type Replay struct {
	Repeats int `json:"repeats"`
}

// Replayed is a command's description of its replayed steps: out/replay.json, and the tensors with
// it.
type Replayed struct {
	ReplayClaim
	Parts   []ReplayedPart `json:"parts"`
	Cohorts [][]int        `json:"cohorts"`

	// Whole, Inside, Outside and Noisy are the sums of each repeat, one after another, in clip norms: without
	// noise, without a member of the cohort, without a member outside it, and with noise.
	Whole   []float32 `json:"-"`
	Inside  []float32 `json:"-"`
	Outside []float32 `json:"-"`
	Noisy   []float32 `json:"-"`
}

// ReplayClaim is the mechanism that a training claims to be.
type ReplayClaim struct {
	// Unit is the kind of member: a record or a user.
	Unit string `json:"unit"`
	// NoiseMultiplier is the deviation of the noise in clip norms.
	NoiseMultiplier float64          `json:"noise_multiplier"`
	Sampling        privacy.Sampling `json:"sampling"`
	// Population is the number of members, and Cohort the size of a cohort (expected with Poisson
	// sampling).
	Population int     `json:"population"`
	Cohort     int     `json:"cohort"`
	Rounds     int     `json:"rounds"`
	Delta      float64 `json:"delta"`
}

// Recipe returns the recipe of the claim's epsilon.
func (c *ReplayClaim) Recipe() privacy.Recipe {
	return privacy.Recipe{
		Population: c.Population, Cohort: c.Cohort, Rounds: c.Rounds, NoiseMultiplier: c.NoiseMultiplier, Delta: c.Delta, Sampling: c.Sampling, Unit: c.Unit,
	}
}

// ReplayedPart is a tensor of the model.
type ReplayedPart struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// Size returns the number of trained parameters.
func (v *Replayed) Size() (size int) {
	for _, p := range v.Parts {
		size += p.Size
	}
	return size
}

// Replayed reads the replayed steps of the training at the input.
func (r *Replay) Replayed(ctx context.Context, t *tasks.Task, input string) (*Replayed, error) {
	said, err := t.Blob(ctx, input, replayFile)
	if err != nil {
		return nil, err
	}
	file, err := t.Blob(ctx, input, replayTensors)
	if err != nil {
		return nil, err
	}
	v, err := r.parse(said, file)
	return v, tasks.Permanent(err)
}

// checkReplay reads the command's replayed steps, if requested and if it names no step command.
func (x *training) checkReplay(r *Result) error {
	if x.params.Replay == nil || r.Step != "" {
		return nil
	}
	var contents [2][]byte
	for i, name := range []string{replayFile, replayTensors} {
		missing := fmt.Sprintf("its job has replay, for audit.neighbours, and its %s names no step, and it has left no %s: it lacks a step that can be replayed; expected one of them, such as the methods steps, sample and step of coalmine.steps", resultFile, name)
		var err error
		if contents[i], err = x.read(name, maxFile, TellsOfReplays, missing); err != nil {
			return err
		}
	}
	_, err := x.params.Replay.parse(contents[0], contents[1])
	return err
}

func (r *Replay) parse(said, file []byte) (*Replayed, error) {
	v := new(Replayed)
	if err := json.Unmarshal(said, v); err != nil {
		return nil, TellsOfReplays.Errorf("its %s is no JSON object as the contract has it: %v", replayFile, contracts.Mistyped(err))
	}
	if err := v.check(r.Repeats); err != nil {
		return nil, TellsOfReplays.Errorf("its %s: %v", replayFile, err)
	}
	tensors, err := safetensors.Unmarshal(file)
	if err != nil {
		return nil, TellsOfReplays.Errorf("its %s: %v", replayTensors, err)
	}
	want := []int{r.Repeats, v.Size()}
	for name, into := range map[string]*[]float32{"whole": &v.Whole, "inside": &v.Inside, "outside": &v.Outside, "noisy": &v.Noisy} {
		tensor, ok := tensors.Tensor(name)
		if !ok || !slices.Equal(tensor.Shape, want) || len(tensor.Float32) != want[0]*want[1] {
			return nil, TellsOfReplays.Errorf("its %s has no tensor %s of float32 and the shape %v: the repeats of the job, and the sizes of the parts of %s", replayTensors, name, want, replayFile)
		}
		*into = tensor.Float32
	}
	return v, nil
}

func (c *ReplayClaim) check() error {
	switch {
	case !slices.Contains([]privacy.Sampling{privacy.Poisson, privacy.FixedSize, privacy.Shuffled}, c.Sampling):
		return fmt.Errorf("sampling is %q; expected %s, %s or %s", c.Sampling, privacy.Poisson, privacy.FixedSize, privacy.Shuffled)
	case c.NoiseMultiplier == 0:
		return errors.New("noise_multiplier is 0; expected the one that epsilon is computed for")
	}
	recipe := c.Recipe()
	return recipe.Validate()
}

func (v *Replayed) check(repeats int) error {
	if err := v.ReplayClaim.check(); err != nil {
		return err
	}
	switch {
	case len(v.Cohorts) != repeats:
		return fmt.Errorf("%d cohorts; expected %d, one of each replayed step", len(v.Cohorts), repeats)
	case v.Size() == 0 || slices.ContainsFunc(v.Parts, func(p ReplayedPart) bool { return p.Size < 1 }):
		return errors.New("parts are none, or have a size below 1; expected the tensors of the model with their numbers of elements")
	}
	for i, cohort := range v.Cohorts {
		if err := checkMembers(cohort, v.Population); err != nil {
			return fmt.Errorf("cohort %d %w", i+1, err)
		}
	}
	return nil
}

// checkMembers returns an error unless the numbers are members of a population in ascending order.
func checkMembers(members []int, population int) error {
	for j, member := range members {
		if member < 0 || member >= population || j > 0 && member <= members[j-1] {
			return fmt.Errorf("has %d as member %d; expected ascending numbers from 0 to below the population of %d", member, j+1, population)
		}
	}
	return nil
}
