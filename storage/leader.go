package storage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// keptEpochs is how many epochs stay. A number that is still among them was
// never given out before; see NextEpoch.
const keptEpochs = 10

// NextEpoch begins a new epoch of leadership and returns its number; numbers
// rise, and none is returned twice. holder says who leads, for people. Another
// process may begin the next epoch at any moment, even before this returns: a
// leader compares its own with CurrentEpoch before every batch of deletions and
// steps down if it is not equal.
func (a *Archive) NextEpoch(ctx context.Context, holder string) (int, error) {
	record, err := json.Marshal(map[string]string{"holder": holder, "id": rand.Text()})
	if err != nil {
		return 0, err
	}
	for {
		before, err := a.CurrentEpoch(ctx)
		if err != nil {
			return 0, err
		}
		epoch := before + 1
		err = a.createEpoch(ctx, epochName(epoch), record)
		if errors.Is(err, ErrExists) {
			continue
		}
		if err != nil {
			return 0, a.fail("beginning", epochName(epoch), err)
		}
		numbers, err := a.numbersBelow(ctx, leaderDir)
		if err != nil {
			return 0, a.fail("listing", leaderDir, err)
		}
		// A candidate that was held up may have been given a number that had been
		// deleted meanwhile. Whoever deleted it is far above.
		if newest(numbers) < epoch+keptEpochs {
			return epoch, a.deleteEpochs(ctx, numbers, epoch-keptEpochs)
		}
	}
}

// createEpoch creates the record of an epoch; in a store that is full an empty one,
// since deleting, which makes room, takes an epoch. What an empty one is of cannot be
// read back: where its outcome is unknown the number counts as taken.
func (a *Archive) createEpoch(ctx context.Context, name string, record []byte) error {
	err := a.createOwn(ctx, name, record)
	if !errors.Is(err, ErrFull) {
		return err
	}
	err = a.store.Create(ctx, name, nil)
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

func (a *Archive) deleteEpochs(ctx context.Context, numbers []int, last int) error {
	var old []string
	for _, n := range numbers {
		if n <= last {
			old = append(old, epochName(n))
		}
	}
	return a.delete(ctx, old)
}

// CurrentEpoch is the newest epoch of leadership, 0 if there never was one.
func (a *Archive) CurrentEpoch(ctx context.Context) (int, error) {
	numbers, err := a.numbersBelow(ctx, leaderDir)
	if err != nil {
		return 0, a.fail("listing", leaderDir, err)
	}
	return newest(numbers), nil
}
