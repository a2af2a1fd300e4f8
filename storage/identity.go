package storage

import (
	"context"
	"crypto/rand"
	"errors"
)

// identity tells a store from all others, by whatever address it is reached.
type identity struct {
	ID string `json:"id"`
}

// Identity is the random text that a store was given by Identify: processes that
// read the same one work on the same store, whatever their URLs say. The error
// wraps ErrNotFound if it was given none yet. An identity that is damaged is
// empty, and nothing can be told by it.
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

// Identify gives the store its identity unless it has one, and returns the one
// that stands. It is empty if the store is too full for one.
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
