package devices

import (
	"context"
	"fmt"

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
	// Prior and Size are data.devices.prior and data.devices.size.
	Prior Prior  `json:"prior"`
	Size  string `json:"size"`
	// IID devices have examples of all users.
	IID bool `json:"iid,omitempty"`
}

// String is a sentence for people.
func (s *Summary) String() string {
	text := fmt.Sprintf("trained on %d devices of %d users: %d private examples on anonymous ones, %d on those of an adversary who knows %s of a user's examples (%s)",
		s.Devices, s.Seen+s.Unseen+s.HeldOut, s.Private, s.PriorExamples, s.Size, s.Prior)
	if s.Unseen+s.HeldOut > 0 {
		text += fmt.Sprintf("; %d users are seen, %d unseen, %d held out", s.Seen, s.Unseen, s.HeldOut)
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

// put writes the devices and their summary.
func (w *World) put(ctx context.Context, t *tasks.Task, s Summary) error {
	if err := t.PutJSON(ctx, DevicesBlob, w.Devices); err != nil {
		return err
	}
	return t.PutJSON(ctx, WorldBlob, s)
}

// users is the number of users in a set.
func (s *Summary) users(set Set) *int {
	return map[Set]*int{Seen: &s.Seen, Unseen: &s.Unseen, HeldOut: &s.HeldOut}[set]
}
