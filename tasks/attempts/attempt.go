package attempts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coalmine/storage"
	"coalmine/tasks"
)

// Attempt is one planned execution of a spec, as the coordinator sends it; see Encode.
type Attempt struct {
	tasks.Spec
	// Number counts the attempts at this node from 1.
	Number int
	// Runs are the runs that want the node, for logs only.
	Runs []string
	// Trace ties the attempt to the span of the coordinator that sent it, as a
	// traceparent of W3C Trace Context; empty if nothing is traced.
	Trace string
	// TimeoutSeconds ends the attempt with an error; 0 never.
	TimeoutSeconds float64
	// Leader is the coordinator that sent the attempt.
	Leader Leader
}

// Leader is a coordinator as others know it who share its queue. It is empty where
// coordinator and workers are one process.
type Leader struct {
	// Holder names the process, for people.
	Holder string `json:"holder"`
	// Store is the URL of its store, without credentials, for people.
	Store string `json:"store"`
	// StoreID is the identity of that store (storage.Archive.Identify); empty if it
	// is not known.
	StoreID string `json:"store_id"`
}

// CheckStore returns an error that wraps ErrOtherStore unless archive is on the
// store of the leader, or either has no identity to tell by. Any other error is of
// reading, and proves nothing.
func (l Leader) CheckStore(ctx context.Context, archive *storage.Archive) error {
	if l.StoreID == "" {
		return nil
	}
	id, err := archive.Identity(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound): // its leader has given it one
	case err != nil:
		return err
	case id == "" || id == l.StoreID:
		return nil
	}
	return fmt.Errorf("%w: this process works on %s, the coordinator %s on %s; give both the same --store, or each store a Redis database of its own",
		ErrOtherStore, archive, l.Holder, l.Store)
}

// ErrOtherStore: the processes that meet in a queue work on different stores.
var ErrOtherStore = errors.New("the coordinator of this queue has another store")

// ID names the attempt in the queue: sending it twice conflicts harmlessly.
func (a *Attempt) ID() string { return a.Key.String() + "." + strconv.Itoa(a.Number) }

// Result says how an attempt ended.
type Result string

const (
	// Done: the node is committed, by this attempt or by another.
	Done Result = "done"
	// Failed: an error that another try may mend.
	Failed Result = "failed"
	// Refused: an error that no other try mends; see tasks.Permanent.
	Refused Result = "refused"
	// Missing: an input's output is gone; plan that node again, then this one.
	Missing Result = "missing"
	// Returned: handed back untried (unknown kind or format, no secret key, worker
	// shutting down, no memory beside others, no wants left); costs no attempt.
	Returned Result = "returned"
	// StoreAway: the store did not do its work (see storage.IsTrouble); costs no
	// attempt, and another try waits a little.
	StoreAway Result = "store away"
)

// Outcome is a worker's report on an attempt. It is a hint: the commit in
// storage decides.
type Outcome struct {
	Key     storage.Key `json:"key"`
	Number  int         `json:"number"`
	Worker  string      `json:"worker"`
	Result  Result      `json:"result"`
	Error   string      `json:"error,omitempty"`
	Seconds float64     `json:"seconds"`
	Tokens  int64       `json:"tokens,omitempty"`
	// Format is the format of the outcome: that of the attempt, which its coordinator can read; 0 from
	// builds from before formats had versions.
	Format int `json:"format,omitempty"`
	// Unread is set if Result is Returned because the worker reads no attempts of this format:
	// the coordinator need not send it others.
	Unread bool `json:"unread,omitempty"`
	// Objects are those of the record that stands in storage when Result is Done
	// (see storage.Commit.Objects), which saves reading it when the node is deleted;
	// nil if the worker has not told.
	Objects []storage.Blob `json:"objects,omitzero"`
	// MissingNode is set when Result is Missing.
	MissingNode *storage.Key `json:"missing_node,omitempty"`
	// Kept is set when Result is Failed and the attempt has kept something (tasks.Resumer) that no
	// attempt before it had: the next one goes on from there.
	Kept bool `json:"kept,omitempty"`
	// StoreFull is set when Result is StoreAway for want of room.
	StoreFull bool `json:"store_full,omitempty"`
	// Divergent is set when an attempt that lost had other digests than the
	// commit: the task is not deterministic, which is a bug to report.
	Divergent string `json:"divergent,omitempty"`
}

// Encode encodes the outcome for DecodeOutcome, in its Format or, if that is 0, in that of this build.
func (o Outcome) Encode() ([]byte, error) {
	o.Format = cmp.Or(o.Format, Format)
	return json.Marshal(o)
}

// refusedFormat is in the error of workers from before formats had versions about an attempt that they
// cannot read. They report it as a permanent failure.
const refusedFormat = "make sure that coordinator and workers are of one version"

// DecodeOutcome reads an outcome of any format up to Format. The error wraps ErrLaterFormat for one
// of a later format.
func DecodeOutcome(data []byte) (Outcome, error) {
	var format struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return Outcome{}, fmt.Errorf("%d bytes that are no outcome: %w", len(data), err)
	}
	if format.Format > Format {
		return Outcome{}, fmt.Errorf("format %d; this build reads formats up to %d: %w", format.Format, Format, ErrLaterFormat)
	}
	var o Outcome
	if err := json.Unmarshal(data, &o); err != nil {
		return Outcome{}, fmt.Errorf("%d bytes that are no outcome: %w", len(data), err)
	}
	if o.Format == 0 && o.Result == Refused && strings.Contains(o.Error, refusedFormat) {
		o.Result, o.Unread = Returned, true
	}
	if !slices.Contains(results, o.Result) {
		return Outcome{}, fmt.Errorf("it ended %q, which this build does not know: %w", o.Result, ErrLaterFormat)
	}
	return o, nil
}

// results lists all results.
var results = []Result{Done, Failed, Refused, Missing, Returned, StoreAway}
