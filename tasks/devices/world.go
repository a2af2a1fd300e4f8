package devices

import (
	"cmp"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
)

// Prior names the user's examples that the adversary knows.
type Prior string

// Priors (Orekondy et al. 2018, section 5.2.2).
const (
	// Random draws from all of the user's examples.
	Random Prior = "random"
	// Chronological takes the first examples, as from an account known earlier.
	Chronological Prior = "chronological"
	// Groups draws whole groups of the user's examples, such as albums or documents, so that no
	// group is on both devices.
	Groups Prior = "groups"
)

// Choices lists the priors for an experiment file.
func (Prior) Choices() []string {
	return []string{string(Random), string(Chronological), string(Groups)}
}

// SplitParams are the parameters of Split.
type SplitParams struct {
	Seed  uint64 `json:"seed"`
	Prior Prior  `json:"prior"`
	// Share is the share of a user's examples that are not private, above 0 and below 1: share x n of n,
	// rounded to nearest; for Groups, the nearest number of examples in whole groups.
	Share float64 `json:"share"`
	// Count is the number of these examples that the adversary knows; the others are on no device.
	// 0 means all.
	Count int `json:"count,omitempty"`
	// AtLeast is the number of examples that a user must have to take part. 0 means that every user
	// must have enough to be divided.
	AtLeast int `json:"at_least,omitempty"`
	// AtLeastGroups is the number of groups that a user must have to take part, with Groups. 0
	// means that every user must have two.
	AtLeastGroups int `json:"at_least_groups,omitempty"`
	// Unseen and HeldOut are the shares of the users that are in these sets, together at most 1:
	// share x n of n users, rounded to nearest.
	Unseen  float64 `json:"unseen,omitempty"`
	HeldOut float64 `json:"held_out,omitempty"`
	// IID shuffles the examples of all devices, which keep their sizes.
	IID bool `json:"iid,omitempty"`
}

// Check returns an error for invalid parameters.
func (p *SplitParams) Check() error {
	switch {
	case !slices.Contains(p.Prior.Choices(), string(p.Prior)):
		return fmt.Errorf("prior %q; expected one of %v", p.Prior, p.Prior.Choices())
	case !(p.Share > 0 && p.Share < 1):
		return fmt.Errorf("a share of %v of the examples is kept from the private ones; expected above 0 and below 1", p.Share)
	case p.AtLeastGroups != 0 && (p.Prior != Groups || p.AtLeastGroups < 2):
		return fmt.Errorf("users of at least %d groups, and the prior is %s; expected at least 2 of the prior %s, or 0", p.AtLeastGroups, p.Prior, Groups)
	case p.Count < 0 || p.AtLeast < 0:
		return fmt.Errorf("%d prior examples of users with at least %d; expected at least 1, or 0 for all", p.Count, p.AtLeast)
	case !(p.Unseen >= 0 && p.HeldOut >= 0 && p.Unseen+p.HeldOut <= 1):
		return fmt.Errorf("shares of %v unseen and %v held-out users; expected at least 0, and at most 1 together", p.Unseen, p.HeldOut)
	}
	return nil
}

// rounded returns share x n, rounded to nearest.
func rounded(share float64, n int) int {
	product := float64(share * float64(n)) // round the product before the addition on every processor
	return int(product + 0.5)
}

// Needed returns the number of examples that a user must have to be divided: at least one private
// example and the prior ones. It is 0 with Groups; a user must then have two groups of any size.
func (p *SplitParams) Needed() int {
	if p.Prior == Groups {
		return 0
	}
	prior := float64(max(1, p.Count))
	n := max(1, int(max((prior-0.5)/p.Share, 0.5/(1-p.Share)))-1)
	for rounded(p.Share, n) < max(1, p.Count) || rounded(p.Share, n) >= n {
		n++
	}
	return n
}

// World is a population of users divided into devices.
type World struct {
	// Devices are in the order of their numbers: in the order of users, the anonymous device of a user before
	// the shadow device.
	Devices []Device
	// Sizes holds the number of examples of each device, at least 1.
	Sizes []int
}

// Divide assigns devices to users, given their examples. Users with too few are a
// *TooFewError, unless AtLeast or AtLeastGroups leaves them out.
func (p *SplitParams) Divide(users []Owned) (*World, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	sets, err := p.sets(users)
	if err != nil {
		return nil, err
	}
	w := &World{Devices: []Device{}}
	for user, set := range sets {
		if set == "" {
			continue
		}
		reserved := p.reserved(user, users[user])
		w.add(Device{User: user, Set: set}, users[user].Examples-reserved)
		if set != Unseen {
			w.add(Device{User: user, Shadow: true, Set: set}, cmp.Or(p.Count, reserved))
		}
	}
	return w, nil
}

func (w *World) add(d Device, size int) {
	w.Devices, w.Sizes = append(w.Devices, d), append(w.Sizes, size)
}

// Examples returns the number of examples on all devices.
func (w *World) Examples() int {
	n := 0
	for _, size := range w.Sizes {
		n += size
	}
	return n
}

// sets assigns every participating user to a set; other users have none. Held-out users are drawn
// first, so that cells with different shares of unseen users hold out the same users.
func (p *SplitParams) sets(users []Owned) ([]Set, error) {
	taking, err := p.taking(users)
	if err != nil {
		return nil, err
	}
	sets := make([]Set, len(users))
	heldOut, unseen := rounded(p.HeldOut, len(taking)), rounded(p.Unseen, len(taking))
	for i, at := range seeds.Stream(p.Seed, seeds.DeviceSets).Perm(len(taking)) {
		set := Seen
		switch {
		case i < heldOut:
			set = HeldOut
		case i < heldOut+unseen:
			set = Unseen
		}
		sets[taking[at]] = set
	}
	return sets, nil
}

// taking returns the users who take part.
func (p *SplitParams) taking(users []Owned) ([]int, error) {
	var taking []int
	few := &TooFewError{Needed: p.Needed(), Size: p.size(), Of: len(users)}
	for user, o := range users {
		switch {
		case o.Examples < p.AtLeast || len(o.Groups) < p.AtLeastGroups:
		case p.lacks(user, o):
			few.add(user, o)
		default:
			taking = append(taking, user)
		}
	}
	if few.Users != nil {
		return nil, few
	}
	if taking == nil && p.AtLeastGroups > 0 {
		return nil, fmt.Errorf("none of %d users has at least %d examples in at least %d groups, and nobody is left to divide; lower data.devices.at_least or data.devices.at_least_groups", len(users), p.AtLeast, p.AtLeastGroups)
	}
	if taking == nil {
		return nil, fmt.Errorf("none of %d users has at least %d examples, and nobody is left to divide; lower data.devices.at_least", len(users), p.AtLeast)
	}
	return taking, nil
}

// size describes data.devices.size.
func (p *SplitParams) size() string {
	if p.Count > 0 {
		return fmt.Sprint(p.Count)
	}
	return fmt.Sprintf("%g%%", 100*p.Share)
}

// examples returns the numbers of a user's private and prior examples, each ascending. Cells of one
// seed that differ only in Count have the same private examples, and a larger prior includes a
// smaller one.
func (p *SplitParams) examples(user, n int) (private, prior []int) {
	order := lists.Make(n, func(i int) int { return i })
	if p.Prior == Random {
		order = seeds.Stream(p.Seed, seeds.PriorExamples, uint64(user)).Perm(n)
	}
	reserved := rounded(p.Share, n)
	prior, private = order[:cmp.Or(p.Count, reserved)], order[reserved:]
	slices.Sort(prior)
	slices.Sort(private)
	return private, prior
}
