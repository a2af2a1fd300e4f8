package storage

import (
	"context"
	"fmt"
	"strings"
)

// CreateEntry gives a source that has been imported a name in the store's library. record is
// what is known of it, in JSON. A name that is taken by another record gives an error that wraps
// ErrExists.
func (a *Archive) CreateEntry(ctx context.Context, name string, record any) error {
	if err := checkEntry(name); err != nil {
		return err
	}
	data, err := seal(entryFormat, record)
	if err != nil {
		return err
	}
	if _, err = a.create(ctx, entryName(name), data, func(found []byte) bool { return sameRecord(entryFormat, found, data) }); err != nil {
		return a.fail("creating", entryName(name), err)
	}
	return nil
}

// Entry reads what CreateEntry has recorded. The error wraps ErrNotFound where there is no such
// name, ErrCorrupt where the record is damaged.
func (a *Archive) Entry(ctx context.Context, name string, into any) error {
	if err := checkEntry(name); err != nil {
		return err
	}
	if err := a.readSealed(ctx, entryFormat, entryName(name), into); err != nil {
		return a.fail("reading", entryName(name), err)
	}
	return nil
}

// Entries lists the names of the library in byte order.
func (a *Archive) Entries(ctx context.Context) ([]string, error) {
	var names []string
	for info, err := range a.store.List(ctx, libraryDir+"/") {
		if err != nil {
			return nil, a.fail("listing", libraryDir, err)
		}
		if name := strings.TrimPrefix(info.Name, libraryDir+"/"); checkEntry(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// DeleteEntry takes a name from the library. What it was of goes with the next collection, if
// nothing else needs it.
func (a *Archive) DeleteEntry(ctx context.Context, name string) error {
	if err := checkEntry(name); err != nil {
		return err
	}
	there, err := a.exists(ctx, entryName(name))
	if err == nil && !there {
		err = ErrNotFound
	}
	if err != nil {
		return a.fail("removing", entryName(name), err)
	}
	return a.delete(ctx, []string{entryName(name)})
}

func checkEntry(name string) error {
	if !runID.MatchString(name) {
		return fmt.Errorf("%w: name of a source %.100q: want 1 to 81 of a-z, 0-9, '.', '_', '-', starting with a letter or digit", ErrName, name)
	}
	return nil
}
