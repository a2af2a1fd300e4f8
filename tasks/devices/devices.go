// Package devices divides users into devices, from the view of an adversary who knows some of their
// data: each user's examples are the private ones of an anonymous device, or the prior ones of a
// shadow device that the adversary runs itself (Orekondy et al. 2018, sections 5.2 and 6). Both
// train in the same federation; a device is a user of the training population.
//
//	devices/split   population of users -> population of devices
//	devices/modes   background -> the topic of each example
//	devices/mix     devices and background -> devices with users hidden in a crowd
//	devices/profiles devices and profiles -> devices, and one for each profile
package devices

import (
	"context"
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
)

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Split, Modes, Mix, Profiles} }

// Set is the adversary's knowledge of a user (Orekondy et al. 2018, section 6.1.2).
type Set string

// Sets of users. In a closed world all are seen.
const (
	// Seen users have a shadow device; an attack should identify their anonymous device.
	Seen Set = "seen"
	// Unseen users have only an anonymous device; an attack should report that it matches no user.
	Unseen Set = "unseen"
	// HeldOut users give an attack training examples of users that it must not name.
	HeldOut Set = "held-out"
	// Profile is the set of profiles: hand-made examples of the adversary's target, only on a
	// shadow device.
	Profile Set = "profile"
)

// Device is one device of a training. Its number is the number of the population's user.
type Device struct {
	// User is the number of the user with these examples, from 0, in the divided population.
	// Profiles have numbers after these.
	User int `json:"user"`
	// Shadow devices have the user's prior examples, anonymous devices the private ones.
	Shadow bool `json:"shadow"`
	Set    Set  `json:"set"`
}

// DevicesBlob is a JSON array of all Devices of the population, in the order of their numbers.
const DevicesBlob = "devices"

// Read reads the devices of a Split node, or of another node with a DevicesBlob, in the order
// of their numbers.
func Read(ctx context.Context, t *tasks.Task, input string) ([]Device, error) {
	var list []Device
	if err := t.InputJSON(ctx, input, DevicesBlob, &list); err != nil {
		return nil, err
	}
	for i, d := range list {
		if d.User < 0 || !slices.Contains([]Set{Seen, Unseen, HeldOut, Profile}, d.Set) || d.Shadow && d.Set == Unseen || !d.Shadow && d.Set == Profile {
			return nil, fmt.Errorf("device %d is %+v: %w", i, d, storage.ErrCorrupt)
		}
	}
	return list, nil
}
