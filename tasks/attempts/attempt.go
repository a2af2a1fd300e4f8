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

// Attempt is one planned execution of a spec, sent by the coordinator; see Encode.
type Attempt struct {
	tasks.Spec
	// Number counts the attempts at this node from 1.
	Number int
	// Runs are the runs that need the node, for logs only.
	Runs []string
	// Trace links the attempt to the coordinator's span, as a traceparent of W3C Trace Context;
	// empty without tracing.
	Trace string
	// TimeoutSeconds ends the attempt with an error; 0 means no timeout.
	TimeoutSeconds float64
	// Leader is the coordinator that sent the attempt.
	Leader Leader
}

// Leader identifies a coordinator to the processes that share its queue. It is empty if coordinator
// and workers are one process.
type Leader struct {
	// Holder names the process, for display.
	Holder string `json:"holder"`
	// Store is the URL of its store, without credentials, for display.
	Store string `json:"store"`
	// StoreID is the identity of that store (storage.Archive.Identify); empty if unknown.
	StoreID string `json:"store_id"`
}

// CheckStore returns an error that wraps ErrOtherStore if archive is on another store than the
// leader's. It returns nil if either identity is empty. Any other error is a failed read.
func (l Leader) CheckStore(ctx context.Context, archive *storage.Archive) error {
	if l.StoreID == "" {
		return nil
	}
	id, err := archive.Identity(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound): // the leader's store has one
	case err != nil:
		return err
	case id == "" || id == l.StoreID:
		return nil
	}
	return fmt.Errorf("%w: this process works on %s, the coordinator %s on %s; give both the same --store, or each store its own Redis database",
		ErrOtherStore, archive, l.Holder, l.Store)
}

// ErrOtherStore reports that the processes of a queue use different stores.
var ErrOtherStore = errors.New("the coordinator of this queue has another store")

// ID returns the attempt's name in the queue: sending it twice conflicts harmlessly.
func (a *Attempt) ID() string { return a.Key.String() + "." + strconv.Itoa(a.Number) }

// Result is the result of an attempt.
type Result string

const (
	// Done means that the node is committed, by this attempt or by another.
	Done Result = "done"
	// Failed is an error that a retry may resolve.
	Failed Result = "failed"
	// Refused is an error that no retry resolves; see tasks.Permanent.
	Refused Result = "refused"
	// Missing means that an input's output is gone; plan that node again, then this one.
	Missing Result = "missing"
	// Returned means not tried (unknown kind or format, no secret key, worker shutting down, not
	// enough memory, node no longer needed); costs no attempt.
	Returned Result = "returned"
	// StoreAway means that the store failed (see storage.IsTrouble); costs no attempt, and the
	// retry backs off.
	StoreAway Result = "store away"
)

// Outcome is a worker's report on an attempt. It is a hint: the commit in storage decides.
type Outcome struct {
	Key     storage.Key `json:"key"`
	Number  int         `json:"number"`
	Worker  string      `json:"worker"`
	Result  Result      `json:"result"`
	Error   string      `json:"error,omitempty"`
	Seconds float64     `json:"seconds"`
	Tokens  int64       `json:"tokens,omitempty"`
	// Format is the format of the outcome: the attempt's format, which its coordinator can read; 0
	// from builds that predate formats.
	Format int `json:"format,omitempty"`
	// Unread is set if Result is Returned because the worker reads no attempts of this format: the
	// coordinator need not send it more of them.
	Unread bool `json:"unread,omitempty"`
	// Objects lists the objects of the stored record when Result is Done (see
	// storage.Commit.Objects), so that deleting the node need not read it; nil if unknown.
	Objects []storage.Blob `json:"objects,omitzero"`
	// MissingNode is set when Result is Missing.
	MissingNode *storage.Key `json:"missing_node,omitempty"`
	// Kept is set when Result is Failed and the attempt has kept new state (tasks.Resumer): the
	// next attempt resumes from it.
	Kept bool `json:"kept,omitempty"`
	// Exit is the message of an external program whose end, not by a signal, made Result Failed. Equal ends
	// have equal messages.
	Exit string `json:"exit,omitempty"`
	// StoreFull is set when Result is StoreAway because the store is full.
	StoreFull bool `json:"store_full,omitempty"`
	// Divergent is set when a losing attempt had other digests than the commit: the task is not
	// deterministic, a bug to report.
	Divergent string `json:"divergent,omitempty"`
}

// Encode encodes the outcome for DecodeOutcome, in its Format or, if that is 0, in the format of
// this build.
func (o Outcome) Encode() ([]byte, error) {
	o.Format = cmp.Or(o.Format, Format)
	return json.Marshal(o)
}

// refusedFormat is part of the error for an unreadable attempt from workers that predate formats.
// They report it as a permanent failure.
const refusedFormat = "make sure that coordinator and workers are of one version"

// DecodeOutcome reads an outcome of any format up to Format. The error wraps ErrLaterFormat for a
// later format.
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
