package storage

import (
	"context"
	"fmt"
	"strings"
)

// CreateEntry names an imported source in the store's library. record describes it and is
// encoded as JSON. If another record has the name, the error wraps ErrExists.
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

// Entry reads the record of CreateEntry. The error wraps ErrNotFound if there is no such name,
// ErrCorrupt if the record is damaged.
func (a *Archive) Entry(ctx context.Context, name string, into any) error {
	if err := checkEntry(name); err != nil {
		return err
	}
	return a.fail("reading", entryName(name), a.readSealed(ctx, entryFormat, entryName(name), into))
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

// DeleteEntry removes a name from the library. The next collection removes the source, unless
// it is needed.
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
