package external

import (
	"context"
	"encoding/json"
	"math"

	"coalmine/internal/contracts"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
)

// oneShotFile holds a command's report of its canary clients.
const oneShotFile = outFolder + "/one_shot.json"

// OneShot asks a command for canary clients: whenever sampled, each sends a random direction, in
// addition to the command's own clients (Andrew et al. 2024).
type OneShot struct {
	Canaries int `json:"canaries"`
	// Unseen is the number of directions that are followed like the canaries', but never sent.
	Unseen int `json:"unseen,omitempty"`
	// Final asks for the cosines with the change of the model.
	Final bool `json:"final,omitempty"`
}

// Cosines holds the cosines of directions with the released updates of a training:
// out/one_shot.json.
type Cosines struct {
	// Dimension is the number of trained parameters.
	Dimension int `json:"dimension"`
	// Unit names the unit that a canary is; empty for a user.
	Unit string `json:"unit,omitempty"`
	// Final holds the canaries' cosines with the change of the model, Largest their largest cosine
	// with the update of any round, and Unseen the largest of directions never sent.
	Final   []float64 `json:"final,omitempty"`
	Largest []float64 `json:"largest,omitempty"`
	Unseen  []float64 `json:"unseen,omitempty"`
}

// Cosines reads the report of the training at the input on its canary clients.
func (o *OneShot) Cosines(ctx context.Context, t *tasks.Task, input string) (*Cosines, error) {
	data, err := t.Blob(ctx, input, oneShotFile)
	if err != nil {
		return nil, err
	}
	c, err := o.parse(data)
	return c, tasks.Permanent(err)
}

// checkOneShot reads the command's report, if requested.
func (x *training) checkOneShot() error {
	if x.params.OneShot == nil {
		return nil
	}
	data, err := x.read(oneShotFile, maxFile, TellsOfCanaries, "it ended with exit status 0 and has left no "+oneShotFile+", and its job has one_shot")
	if err != nil {
		return err
	}
	_, err = x.params.OneShot.parse(data)
	return err
}

// parse reads the cosines of all requested directions.
func (o *OneShot) parse(data []byte) (*Cosines, error) {
	c := new(Cosines)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, TellsOfCanaries.Errorf("its %s is no JSON object of numbers: %v", oneShotFile, contracts.Mistyped(err))
	}
	if least := max(empirical.MinDimension, o.Canaries*empirical.MinPerCanary); c.Dimension < least {
		return nil, TellsOfCanaries.Errorf("its %s has the dimension %d; expected at least %d for %d canaries, which hide each other else", oneShotFile, c.Dimension, least, o.Canaries)
	}
	for _, list := range []struct {
		name    string
		cosines []float64
		want    int
	}{
		{"final", c.Final, o.count(o.Final)}, {"largest", c.Largest, o.count(o.Unseen > 0)}, {"unseen", c.Unseen, o.Unseen},
	} {
		if len(list.cosines) != list.want {
			return nil, TellsOfCanaries.Errorf("its %s has %d cosines in %s; expected %d", oneShotFile, len(list.cosines), list.name, list.want)
		}
		for i, cosine := range list.cosines {
			if math.Abs(cosine) > 1+rounding {
				return nil, TellsOfCanaries.Errorf("its %s has %g as number %d of %s; expected a cosine, from -1 to 1", oneShotFile, cosine, i+1, list.name)
			}
		}
	}
	return c, nil
}

// rounding is the tolerance for a cosine computed in 32 bits.
const rounding = 1e-4

// count returns the number of canaries if something is asked of them. Rounds are followed only
// together with unseen directions.
func (o *OneShot) count(asked bool) int {
	if asked {
		return o.Canaries
	}
	return 0
}
