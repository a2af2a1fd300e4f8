package storage

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// ObjectKind is the kind of an object of a store.
type ObjectKind string

// The kinds of objects for housekeeping, each a directory of the layout.
const (
	CommitObject ObjectKind = commitsDir
	BlobObject   ObjectKind = blobsDir
	LogObject    ObjectKind = logsDir    // output of an attempt
	RecordObject ObjectKind = runsDir    // a run's spec, log or plans
	SourceObject ObjectKind = sourcesDir // cannot be recreated
	// UnfinishedObject belongs to a running execution.
	UnfinishedObject ObjectKind = unfinishedDir
)

// Object is a listed object of a store. Its kind determines which of Key, Digest and Run are set.
type Object struct {
	Kind     ObjectKind
	Key      Key    // of the node: commits, blobs, logs, unfinished
	Digest   Digest // of the content: blobs, sources
	Run      string // logs, records
	Size     int64
	Modified time.Time
	name     string
}

// IsSpec reports whether the object is a run's spec; without a spec the run does not exist.
func (o Object) IsSpec() bool { return o.Kind == RecordObject && o.name == specName(o.Run) }

// OfNode reports whether the object is a part of a node: its commit, a blob or partial state.
func (o Object) OfNode() bool {
	return o.Kind == CommitObject || o.Kind == BlobObject || o.Kind == UnfinishedObject
}

// Objects lists all objects of a kind. It leaves out objects whose names are
// not in the layout: they are not Coalmine's. It is slow for many objects, and
// the yielded objects may be gone or changed by then.
func (a *Archive) Objects(ctx context.Context, kind ObjectKind) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for info, err := range a.store.List(ctx, string(kind)+"/") {
			if err != nil {
				yield(Object{}, a.fail("listing", string(kind), err))
				return
			}
			if o, ok := parseObject(kind, info); ok && !yield(o, nil) {
				return
			}
		}
	}
}

func parseObject(kind ObjectKind, info Info) (Object, bool) {
	o := Object{Kind: kind, Size: info.Size, Modified: info.Modified, name: info.Name}
	parts := strings.Split(info.Name, "/")[1:]
	var err error
	switch {
	case kind == CommitObject && len(parts) == 1:
		o.Key, err = ParseKey(parts[0])
	case kind == BlobObject && len(parts) == 2:
		if o.Key, err = ParseKey(parts[0]); err == nil {
			o.Digest, err = ParseDigest(parts[1])
		}
	case kind == UnfinishedObject && len(parts) == 2:
		o.Key, err = ParseKey(parts[0])
	case kind == LogObject && len(parts) == 3:
		o.Run = parts[0]
		o.Key, err = ParseKey(parts[1])
	case kind == SourceObject && len(parts) == 1:
		o.Digest, err = ParseDigest(parts[0])
	case kind == RecordObject && len(parts) >= 2:
		o.Run = parts[0]
		err = CheckRunID(o.Run)
	default:
		return Object{}, false
	}
	return o, err == nil
}

// DeleteObjects deletes objects yielded by Objects, in order if the store
// preserves it. Only the leader deletes.
func (a *Archive) DeleteObjects(ctx context.Context, objects ...Object) error {
	names := make([]string, len(objects))
	for i, o := range objects {
		if o.name == "" {
			return fmt.Errorf("deleting a %s object in %s: it comes from no listing", o.Kind, a.store)
		}
		names[i] = o.name
	}
	return a.delete(ctx, names)
}
