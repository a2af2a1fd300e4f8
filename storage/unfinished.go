package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Unfinished is what an execution of a node has got so far, for the next one to go on from. It is
// kept under the node's key, and so never taken for another's. It belongs to whoever executes the
// node: of two who do so at once, the one that keeps last counts, and what of the other is gone
// then is only work.
type Unfinished struct {
	Key Key `json:"key"`
	// Attempt tells the execution from others.
	Attempt string `json:"attempt"`
	// Files are those that are kept, by name.
	Files []Blob `json:"files"`
	// State is what else the kind keeps, as JSON.
	State json.RawMessage `json:"state,omitempty"`
}

func (u *Unfinished) has(digest Digest) bool {
	return slices.ContainsFunc(u.Files, func(b Blob) bool { return b.Digest == digest })
}

// PutUnfinished stores a file of an unfinished execution, and describes it for KeepUnfinished.
func (a *Archive) PutUnfinished(ctx context.Context, key Key, name string, data []byte) (Blob, error) {
	b := Blob{Name: name, Digest: DigestOf(data), Size: int64(len(data))}
	object := unfinishedFileName(key, b.Digest)
	if err := a.put(ctx, object, data, Recomputable); err != nil {
		return Blob{}, a.fail(fmt.Sprintf("keeping file %q as", name), object, err)
	}
	return b, nil
}

// KeepUnfinished makes what is kept of a node what u says, in place of what before says, nil for
// nothing. Files of before that u does not have are deleted.
func (a *Archive) KeepUnfinished(ctx context.Context, u, before *Unfinished) error {
	name := unfinishedName(u.Key)
	data, err := seal(unfinishedFormat, u)
	if err == nil {
		err = a.put(ctx, name, data, Recomputable)
	}
	if err != nil {
		return a.fail("keeping", name, err)
	}
	if before == nil {
		return nil
	}
	var gone []string
	for _, b := range before.Files {
		if !u.has(b.Digest) {
			gone = append(gone, unfinishedFileName(u.Key, b.Digest))
		}
	}
	return a.delete(ctx, gone)
}

// ReadUnfinished returns what is kept of a node; nil if there is nothing, or nothing that can be
// read.
func (a *Archive) ReadUnfinished(ctx context.Context, key Key) (*Unfinished, error) {
	u := new(Unfinished)
	err := a.readSealed(ctx, unfinishedFormat, unfinishedName(key), u)
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt):
		return nil, nil
	case err != nil:
		return nil, a.fail("reading", unfinishedName(key), err)
	case u.Key != key:
		return nil, nil
	}
	return u, nil
}

// ReadUnfinishedFile returns a file of an unfinished execution. The error wraps ErrNotFound if it
// is gone, ErrCorrupt if it is damaged.
func (a *Archive) ReadUnfinishedFile(ctx context.Context, key Key, b Blob) ([]byte, error) {
	return a.readChecked(ctx, "file", unfinishedFileName(key, b.Digest), b)
}

// DropUnfinished deletes what is kept of a node, which is done.
func (a *Archive) DropUnfinished(ctx context.Context, u *Unfinished) error {
	names := []string{unfinishedName(u.Key)}
	for _, b := range u.Files {
		names = append(names, unfinishedFileName(u.Key, b.Digest))
	}
	return a.delete(ctx, names)
}
