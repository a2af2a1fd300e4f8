package storage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// keptEpochs is the number of epoch records to keep. A number among them has never been
// returned before; see NextEpoch.
const keptEpochs = 10

// Epoch describes the leader of an epoch, for display.
type Epoch struct {
	// Holder names the process, and Queue the queue in which it holds the lease, if any.
	Holder, Queue string
	// Began is the beginning of the epoch, by the clock of the store.
	Began time.Time
}

// epochRecord is the stored form of an Epoch.
type epochRecord struct {
	Holder string `json:"holder"`
	Queue  string `json:"queue,omitempty"`
	ID     string `json:"id"`
}

// NextEpoch begins a new epoch of leadership and returns its number, and the previous epoch if it
// can be read; numbers rise, and each is returned only once. Another process may begin the next
// epoch at any moment, even before this call returns: a leader compares its number with
// CurrentEpoch before every batch of deletions and steps down if they differ.
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
			before, _ = a.EpochOf(ctx, last) // only for display
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
		// A delayed candidate may have received a number that was deleted meanwhile. The
		// process that deleted it has a much higher one.
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

// createEpoch creates the record of an epoch. In a full store it creates an empty
// one, because deleting, which makes room, requires an epoch. An empty record does
// not identify its maker: if the outcome is unknown, the number counts as taken.
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

// CurrentEpoch returns the newest epoch of leadership, 0 before the first.
func (a *Archive) CurrentEpoch(ctx context.Context) (int, error) {
	numbers, err := a.numbersBelow(ctx, leaderDir)
	if err != nil {
		return 0, a.fail("listing", leaderDir, err)
	}
	return newest(numbers), nil
}

// identity distinguishes a store from all others, regardless of its address.
type identity struct {
	ID string `json:"id"`
}

// Identity returns the random text that Identify gave to the store: processes that read the same
// text use the same store, whatever their URLs. The error wraps ErrNotFound if the store has no
// identity yet. A damaged identity is empty, and does not compare.
func (a *Archive) Identity(ctx context.Context) (string, error) {
	var its identity
	err := a.readSealed(ctx, identityFormat, identityName, &its)
	if errors.Is(err, ErrCorrupt) {
		return "", nil
	}
	if err != nil {
		return "", a.fail("reading", identityName, err)
	}
	return its.ID, nil
}

// Identify sets the store's identity unless it has one, and returns the
// identity in effect. It is empty if the store is too full for one.
func (a *Archive) Identify(ctx context.Context) (string, error) {
	id, err := a.Identity(ctx)
	if !errors.Is(err, ErrNotFound) {
		return id, err
	}
	record, err := seal(identityFormat, identity{ID: rand.Text()})
	if err != nil {
		return "", err
	}
	switch err := a.createOwn(ctx, identityName, record); {
	case errors.Is(err, ErrFull):
		return "", nil
	case err != nil && !errors.Is(err, ErrExists):
		return "", a.fail("creating", identityName, err)
	}
	return a.Identity(ctx)
}

// Now returns the time by the clock of the store, which stamps the objects. The clocks of other machines
// may differ from it by any amount. In a full store it is the start of the current epoch, which is earlier.
func (a *Archive) Now(ctx context.Context) (time.Time, error) {
	err := a.put(ctx, clockName, nil, Recomputable)
	if errors.Is(err, ErrFull) {
		epoch, err := a.CurrentEpoch(ctx)
		if err != nil {
			return time.Time{}, err
		}
		now, err := a.EpochOf(ctx, epoch)
		return now.Began, err
	}
	if err != nil {
		return time.Time{}, a.fail("writing", clockName, err)
	}
	info, err := a.store.Head(ctx, clockName)
	return info.Modified, a.fail("reading", clockName, err)
}
