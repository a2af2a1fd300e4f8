package experiment

import (
	"fmt"
	"math/big"

	"coalmine/tasks/datasets"
	"coalmine/tasks/devices"
)

// Split returns the parameters of the task that makes the devices.
func (d *Devices) Split(seed uint64) devices.SplitParams {
	p := devices.SplitParams{
		Seed: seed, Prior: d.Prior, Share: 0.5, Count: d.Size.Count, AtLeast: d.AtLeast,
		AtLeastGroups: d.AtLeastGroups,
		Unseen:        d.Unseen.Float64(), HeldOut: d.HeldOut.Float64(), IID: d.IID,
	}
	if !d.Size.Percentage.IsZero() {
		p.Share = d.Size.Percentage.Float64()
	}
	return p
}

// origin checks data.form, data.columns and data.split.
func (c *checker) origin() {
	r := c.Data.Reading()
	if err := r.Origin.Check(r.Level.Scheme().Images); err != nil {
		c.fail([]string{"data.form", "data.unit", "data.columns", "data.split", "data.file_splits", "data.test.split", "data.validation.split"}, "cannot be read: %v", err)
	}
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
	if c.Data.grouped() && c.Data.Users.Words > 0 {
		c.fail([]string{"data.devices.prior", "data.users.words"}, "is groups, which are those of users as they are, and data.users.words is %d; expected 0", c.Data.Users.Words)
	}
	if sum := new(big.Rat).Add(d.Unseen.Rat(), d.HeldOut.Rat()); sum.Cmp(big.NewRat(1, 1)) > 0 {
		c.fail([]string{"data.devices.unseen", "data.devices.held_out"}, "is %s; with data.devices.held_out %s it is more than all users", d.Unseen, d.HeldOut)
	}
	if c.Data.Partition != datasets.ByUser {
		c.fail([]string{"data.devices", "data.partition"}, "divides each user's examples, and data.partition is %s, which mixes users before; expected by-user, and data.devices.iid: true for a control", c.Data.Partition)
	}
	if d.Defence != nil {
		c.defence(d.Defence)
	}
}

// defence checks data.devices.defence.
func (c *checker) defence(d *Defence) {
	const path = "data.devices.defence"
	if c.Data.Background == nil {
		c.fail([]string{path, "data.background"}, "mixes in a background, and there is none; expected data.background, such as {source: FILE}")
	}
	if d.Replace.IsZero() == (d.Augment == 0) {
		c.fail([]string{path, path + ".replace", path + ".augment"}, "expected one of replace and augment, such as augment: 1")
	}
	if d.Modes > 0 && d.Augment == 0 {
		c.fail([]string{path + ".modes", path + ".augment"}, "is the number of topics that examples are added of; expected augment beside it")
	}
	if c.Data.selectedWords() != nil {
		c.fail([]string{path, "data.select.words"}, "mixes in sentences, and data.select.words makes examples of words; set one of the two to null for this cell")
	}
}

// Narrowed reports whether tasks remove some of the data before users are divided into devices.
func (d *Data) Narrowed() bool {
	return d.Select.predicted() || d.Sanitize != nil || d.Disagreement != nil
}

// Mix returns the parameters of the task that mixes examples.
func (d *Defence) Mix(seed uint64) devices.MixParams {
	return devices.MixParams{Seed: seed, Replace: d.Replace.Float64(), Augment: d.Augment}
}

// label names the defence as in Orekondy et al. 2018; empty without one.
func (d *Devices) label() string {
	if d == nil || d.Defence == nil {
		return ""
	}
	return d.Defence.label()
}

func (d *Defence) label() string {
	switch {
	case !d.Replace.IsZero():
		return "bkg-repl " + d.Replace.String()
	case d.Modes > 0:
		return fmt.Sprintf("mm-aug %g (%d modes)", d.Augment, d.Modes)
	}
	return fmt.Sprintf("rand-aug %g", d.Augment)
}
