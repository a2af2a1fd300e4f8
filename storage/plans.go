package storage

import (
	"context"
	"errors"
	"io"
)

// CreatePlan records the n-th plan of a run. record is small, is encoded as JSON, and names parts
// that PutPlanned has stored. If another record has the number, the error wraps ErrExists.
func (a *Archive) CreatePlan(ctx context.Context, run string, n int, record any) error {
	if err := CheckRunID(run); err != nil {
		return err
	}
	data, err := seal(planFormat, record)
	if err == nil {
		_, err = a.create(ctx, planName(run, n), data, func(found []byte) bool { return sameRecord(planFormat, found, data) })
	}
	return a.fail("recording", planName(run, n), err)
}

// Plans returns the numbers of the recorded plans of a run, ascending.
func (a *Archive) Plans(ctx context.Context, run string) ([]int, error) {
	if err := CheckRunID(run); err != nil {
		return nil, err
	}
	numbers, err := a.numbersBelow(ctx, planDir(run))
	return numbers, a.fail("listing", planDir(run), err)
}

// Plan reads the record of the n-th plan.
func (a *Archive) Plan(ctx context.Context, run string, n int, into any) error {
	if err := CheckRunID(run); err != nil {
		return err
	}
	return a.fail("reading", planName(run, n), a.readSealed(ctx, planFormat, planName(run, n), into))
}

func plannedName(run string, d Digest) string { return plannedDir(run) + "/" + d.String() }

// PutPlanned stores a part of a plan under its digest, which the reader of ReadPlanned checks.
func (a *Archive) PutPlanned(ctx context.Context, run string, d Digest, data []byte) error {
	if err := CheckRunID(run); err != nil {
		return err
	}
	return a.fail("storing", plannedName(run, d), a.put(ctx, plannedName(run, d), data, Durable))
}

// ReadPlanned passes a part of a plan to read. If read returns an error that wraps ErrCorrupt, the
// part is fetched again, up to sealedTries times in all: bytes can be damaged in transit as well as
// in the store.
func (a *Archive) ReadPlanned(ctx context.Context, run string, d Digest, read func(io.Reader) error) error {
	if err := CheckRunID(run); err != nil {
		return err
	}
	var err error
	for range sealedTries {
		if err = a.readPlanned(ctx, plannedName(run, d), read); !errors.Is(err, ErrCorrupt) {
			break
		}
	}
	return a.fail("reading", plannedName(run, d), err)
}

func (a *Archive) readPlanned(ctx context.Context, name string, read func(io.Reader) error) error {
	r, err := a.store.Get(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	return read(r)
}
