package experiment

import (
	"math/big"

	"coalmine/tasks/datasets"
	"coalmine/tasks/devices"
)

// Split are the devices as a task makes them.
func (d *Devices) Split(seed uint64) devices.SplitParams {
	p := devices.SplitParams{
		Seed: seed, Prior: d.Prior, Share: 0.5, Count: d.Size.Count, AtLeast: d.AtLeast,
		Unseen: d.Unseen.Float64(), HeldOut: d.HeldOut.Float64(), IID: d.IID,
	}
	if !d.Size.Percentage.IsZero() {
		p.Share = d.Size.Percentage.Float64()
	}
	return p
}

// order checks data.order.
func (c *checker) order() {
	if c.Data.Order == datasets.TimeOrder && c.Data.Users.Words > 0 {
		c.fail([]string{"data.order", "data.users.words"}, "is time, which is for users as they are, and data.users.words is %d; expected 0", c.Data.Users.Words)
	}
}

// dividing checks data.devices.
func (c *checker) dividing() {
	d := c.Data.Devices
	if d == nil {
		return
	}
	if d.Size.Percentage.String() == "100%" {
		c.fail([]string{"data.devices.size"}, "is 100%%, and leaves no private example to train on; expected less, or a number of examples")
	}
	if d.Prior == devices.Chronological && c.Data.Order == "" {
		c.fail([]string{"data.devices.prior", "data.order"}, "is chronological, and nothing says in which order a user's examples were made; expected data.order: time, where every line has a \"time\", or data.order: source, where the lines of a user follow their time")
	}
	if sum := new(big.Rat).Add(d.Unseen.Rat(), d.HeldOut.Rat()); sum.Cmp(big.NewRat(1, 1)) > 0 {
		c.fail([]string{"data.devices.unseen", "data.devices.held_out"}, "is %s; with data.devices.held_out %s it is more than all users", d.Unseen, d.HeldOut)
	}
	if c.Data.Partition != datasets.ByUser {
		c.fail([]string{"data.devices", "data.partition"}, "divides each user's examples, and data.partition is %s, which mixes users before; expected by-user, and data.devices.iid: true for a control", c.Data.Partition)
	}
}

// Narrowed reports whether some of the data are removed before users are divided into
// devices, by what only tasks know.
func (d *Data) Narrowed() bool {
	return d.Select.predicted() || d.Sanitize != nil || d.Disagreement != nil
}
