package devices

import (
	"context"
	"fmt"

	"coalmine/internal/readable"
	"coalmine/tasks"
)

// WorldBlob is a Summary, as JSON.
const WorldBlob = "world"

// Summary says how users were divided into devices.
type Summary struct {
	// Devices train: two of every seen and every held-out user, one of every unseen user.
	Devices int `json:"devices"`
	Seen    int `json:"seen"`
	Unseen  int `json:"unseen"`
	HeldOut int `json:"held_out"`
	// Private and PriorExamples are those on anonymous and on shadow devices.
	Private       int `json:"private_examples"`
	PriorExamples int `json:"prior_examples"`
	// Background examples stand on anonymous devices in place of private ones or beside
	// them.
	Background int `json:"background_examples,omitempty"`
	// Profiles have devices of their own, with ProfileExamples.
	Profiles        int `json:"profiles,omitempty"`
	ProfileExamples int `json:"profile_examples,omitempty"`
	// Prior and Size are data.devices.prior and data.devices.size.
	Prior Prior  `json:"prior"`
	Size  string `json:"size"`
	// IID devices have examples of all users.
	IID bool `json:"iid,omitempty"`
}

// String is a sentence for people.
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

// Summary describes a world that was divided by these parameters.
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

// readSummary reads that of a node with a WorldBlob.
func readSummary(ctx context.Context, t *tasks.Task, input string) (s Summary, err error) {
	err = t.InputJSON(ctx, input, WorldBlob, &s)
	return s, err
}

// users is the number of users in a set.
func (s *Summary) users(set Set) *int {
	return map[Set]*int{Seen: &s.Seen, Unseen: &s.Unseen, HeldOut: &s.HeldOut}[set]
}
