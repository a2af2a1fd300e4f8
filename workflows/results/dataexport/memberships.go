package dataexport

import (
	"context"
	"errors"

	"coalmine/tasks/audits/membership/membership"
)

// eachMembership reads the losses that the membership audit of the cell has read.
func (c *Cell) eachMembership(ctx context.Context, row func(Membership) error) error {
	nodes, _ := c.Plan.Needed(c.Cell.Report)
	for _, n := range nodes {
		if n.Kind != membership.Kind.Name {
			continue
		}
		params, err := paramsOf[membership.Params](n)
		if err != nil {
			return err
		}
		number := int64(-1)
		return params.EachUser(ctx, c.task(n.Inputs...), func(u membership.User) error {
			number++
			return row(membershipOf(number, &u))
		})
	}
	return errors.New("no task of the cell audits memberships")
}

func membershipOf(number int64, u *membership.User) Membership {
	references := make([]ReferenceLoss, len(u.References))
	for model, r := range u.References {
		references[model] = ReferenceLoss(r)
	}
	m := Membership{
		User: number, Member: u.Member, Replaced: int64(u.Replaced), Targets: u.Targets, Loss: u.Loss,
		Words: u.Text.Words, Compressed: u.Text.Compressed, References: references,
	}
	if u.ByToken {
		m.MinK = &u.MinK
	}
	if u.ByDistribution() {
		m.MinKPlusPlus, m.Curvature = &u.MinKPlusPlus, &u.Curvature
	}
	return m
}
