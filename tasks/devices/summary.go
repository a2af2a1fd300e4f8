package devices

import (
	"context"
	"fmt"

	"coalmine/internal/readable"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// WorldBlob is a Summary, as JSON.
const WorldBlob = "world"

// Summary describes the division of users into devices.
type Summary struct {
	// Devices counts the devices: two for every seen and every held-out user, one for every unseen
	// user.
	Devices int `json:"devices"`
	Seen    int `json:"seen"`
	Unseen  int `json:"unseen"`
	HeldOut int `json:"held_out"`
	// Private and PriorExamples count the examples on anonymous and on shadow devices.
	Private       int `json:"private_examples"`
	PriorExamples int `json:"prior_examples"`
	// Background counts the background examples on anonymous devices, replacing private ones or
	// added to them.
	Background int `json:"background_examples,omitempty"`
	// Profiles counts the devices of profiles, and ProfileExamples their examples.
	Profiles        int `json:"profiles,omitempty"`
	ProfileExamples int `json:"profile_examples,omitempty"`
	// Prior and Size are data.devices.prior and data.devices.size.
	Prior Prior  `json:"prior"`
	Size  string `json:"size"`
	// IID reports whether devices have examples of all users.
	IID bool `json:"iid,omitempty"`
}

func (s *Summary) String() string {
	text := fmt.Sprintf("trained on %s of %s: %d private examples on anonymous ones, %d on those of an adversary who knows %s of a user's examples (%s)",
		readable.Count(s.Devices, "device"), readable.Count(s.Seen+s.Unseen+s.HeldOut, "user"), s.Private, s.PriorExamples, s.Size, s.Prior)
	if s.Unseen+s.HeldOut > 0 {
		text += fmt.Sprintf("; %d users are seen, %d unseen, %d held out", s.Seen, s.Unseen, s.HeldOut)
	}
	if s.Background > 0 {
		text += fmt.Sprintf("; %d examples of a background are mixed into the private ones", s.Background)
	}
	if s.Profiles > 0 {
		text += fmt.Sprintf("; %d profiles of %d examples have devices, too", s.Profiles, s.ProfileExamples)
	}
	if s.IID {
		text += "; the examples are shuffled over all devices"
	}
	return text
}

// Summary describes a world divided with the given parameters.
func (w *World) Summary(p SplitParams) Summary {
	s := Summary{Prior: p.Prior, Size: p.size(), IID: p.IID, Devices: len(w.Devices)}
	for i, d := range w.Devices {
		if d.Shadow {
			s.PriorExamples += w.Sizes[i]
			continue
		}
		s.Private += w.Sizes[i]
		*s.users(d.Set)++
	}
	return s
}

// putWorld writes devices and their summary.
func putWorld(ctx context.Context, t *tasks.Task, list []Device, s Summary) error {
	if err := t.PutJSON(ctx, DevicesBlob, list); err != nil {
		return err
	}
	return t.PutJSON(ctx, WorldBlob, s)
}

// users returns a pointer to the number of users in a set.
func (s *Summary) users(set Set) *int {
	return map[Set]*int{Seen: &s.Seen, Unseen: &s.Unseen, HeldOut: &s.HeldOut}[set]
}

// divided is a population of devices.
type divided struct {
	task       *tasks.Task
	population *population.Population
	devices    []Device
	summary    Summary
}

// readDivided reads the Split or Mix node of population.Input.
func readDivided(ctx context.Context, t *tasks.Task) (d divided, err error) {
	d.task = t
	if d.population, err = population.Open(ctx, t, population.Input, population.Input); err != nil {
		return d, err
	}
	if d.devices, err = Read(ctx, t, population.Input); err != nil {
		return d, err
	}
	return d, t.InputJSON(ctx, population.Input, WorldBlob, &d.summary)
}
