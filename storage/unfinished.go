package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Unfinished is the checkpoint of an execution of a node, from which the next execution resumes. It
// is stored under the node's key, so another node never uses it. Its owner is the process that
// executes the node: if two do so concurrently, the last write wins, and the other's work is lost.
type Unfinished struct {
	Key Key `json:"key"`
	// Attempt identifies the execution.
	Attempt string `json:"attempt"`
	// Files are the files of the checkpoint, by name.
	Files []Blob `json:"files"`
	// State is the additional state of the kind, as JSON.
	State json.RawMessage `json:"state,omitempty"`
}

func (u *Unfinished) has(digest Digest) bool {
	return slices.ContainsFunc(u.Files, func(b Blob) bool { return b.Digest == digest })
}

// PutUnfinished stores a file of a checkpoint and returns its description for KeepUnfinished.
func (a *Archive) PutUnfinished(ctx context.Context, key Key, name string, data []byte) (Blob, error) {
	b := Blob{Name: name, Digest: DigestOf(data), Size: int64(len(data))}
	object := unfinishedFileName(key, b.Digest)
	if err := a.put(ctx, object, data, Recomputable); err != nil {
		return Blob{}, a.fail(fmt.Sprintf("keeping file %q as", name), object, err)
	}
	return b, nil
}

// KeepUnfinished replaces the checkpoint before (nil if there is none) of a node by u. It deletes
// the files of before that are not in u.
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

// ReadUnfinished returns the checkpoint of a node; nil if there is none or it is unreadable.
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

// ReadUnfinishedFile returns a file of a checkpoint. The error wraps ErrNotFound if it is gone,
// ErrCorrupt if it is damaged.
func (a *Archive) ReadUnfinishedFile(ctx context.Context, key Key, b Blob) ([]byte, error) {
	return a.readChecked(ctx, "file", unfinishedFileName(key, b.Digest), b)
}

// DropUnfinished deletes the checkpoint of a finished node.
func (a *Archive) DropUnfinished(ctx context.Context, u *Unfinished) error {
	names := []string{unfinishedName(u.Key)}
	for _, b := range u.Files {
		names = append(names, unfinishedFileName(u.Key, b.Digest))
	}
	return a.delete(ctx, names)
}
