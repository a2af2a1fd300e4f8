package control

import (
	"context"
	"fmt"

	"coalmine/workflows/results"
)

// Bounds of the rounds that a curve may be asked for with.
const (
	MinPoints = 2
	MaxPoints = 20_000
)

// Curve implements API.
func (l *Local) Curve(ctx context.Context, name, cell string, points int) (*results.Curve, error) {
	if points < MinPoints || points > MaxPoints {
		return nil, fmt.Errorf("a curve of %d points %w: expected %d to %d", points, ErrInput, MinPoints, MaxPoints)
	}
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return results.LoadCurve(ctx, l.archive, run, cell, points)
}
