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
			references := make([]ReferenceLoss, len(u.References))
			for model, r := range u.References {
				references[model] = ReferenceLoss(r)
			}
			return row(Membership{number, u.Member, int64(u.Replaced), u.Targets, u.Loss, references})
		})
	}
	return errors.New("no task of the cell audits memberships")
}
