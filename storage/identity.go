package storage

import (
	"context"
	"crypto/rand"
	"errors"
)

// identity distinguishes a store from all others, regardless of its address.
type identity struct {
	ID string `json:"id"`
}

// Identity returns the random text that Identify gave to the store: processes
// that read the same text use the same store, whatever their URLs. The error
// wraps ErrNotFound if the store has no identity yet. A damaged identity is
// empty, and does not compare.
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
