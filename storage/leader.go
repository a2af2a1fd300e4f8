package storage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// keptEpochs is how many epochs stay. A number that is still among them was
// never given out before; see NextEpoch.
const keptEpochs = 10

// Epoch describes the leader of an epoch, for people.
type Epoch struct {
	// Holder names the process, and Queue the queue in which it holds the lease, if it needs one.
	Holder, Queue string
	// Began is when the epoch began, by the clock of the store.
	Began time.Time
}

// epochRecord is an Epoch as it is stored.
type epochRecord struct {
	Holder string `json:"holder"`
	Queue  string `json:"queue,omitempty"`
	ID     string `json:"id"`
}

// NextEpoch begins a new epoch of leadership and returns its number, and the epoch before
// as far as it can be read; numbers rise, and none is returned twice. Another
// process may begin the next epoch at any moment, even before this returns: a
// leader compares its own with CurrentEpoch before every batch of deletions and
// steps down if it is not equal.
func (a *Archive) NextEpoch(ctx context.Context, by Epoch) (number int, before Epoch, err error) {
	record, err := json.Marshal(epochRecord{by.Holder, by.Queue, rand.Text()})
	if err != nil {
		return 0, Epoch{}, err
	}
	for {
		last, err := a.CurrentEpoch(ctx)
		if err != nil {
			return 0, Epoch{}, err
		}
		if last > 0 {
			before, _ = a.EpochOf(ctx, last) // only people read it
		}
		epoch := last + 1
		err = a.createEpoch(ctx, epochName(epoch), record)
		if errors.Is(err, ErrExists) {
			continue
		}
		if err != nil {
			return 0, Epoch{}, a.fail("beginning", epochName(epoch), err)
		}
		numbers, err := a.numbersBelow(ctx, leaderDir)
		if err != nil {
			return 0, Epoch{}, a.fail("listing", leaderDir, err)
		}
		// A candidate that was held up may have been given a number that had been
		// deleted meanwhile. Whoever deleted it is far above.
		if newest(numbers) < epoch+keptEpochs {
			return epoch, before, a.deleteEpochs(ctx, numbers, epoch-keptEpochs)
		}
	}
}

// EpochOf returns the description of an epoch, empty if the epoch began in a full store.
func (a *Archive) EpochOf(ctx context.Context, number int) (Epoch, error) {
	name := epochName(number)
	info, err := a.store.Head(ctx, name)
	if err != nil {
		return Epoch{}, a.fail("reading", name, err)
	}
	data, err := a.read(ctx, name)
	if err != nil {
		return Epoch{}, a.fail("reading", name, err)
	}
	var record epochRecord
	if len(data) > 0 && json.Unmarshal(data, &record) != nil {
		return Epoch{}, a.fail("reading", name, ErrCorrupt)
	}
	return Epoch{record.Holder, record.Queue, info.Modified}, nil
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
