package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/storage"
)

// SpecFormat is the format of run records. Its number also counts the forms of the resolved experiment: it rises when
// the experiment file gets a new field, because an older build that does not know the field must not work on the run.
var SpecFormat = storage.Format{Name: "record of a run", Number: 2}

// Spec is the submission of a run.
type Spec struct {
	// Stamp is the stamp of the record. Submit ignores it.
	storage.Stamp
	// Name is the name of the experiment.
	Name string `json:"name"`
	// Digest is the digest of Experiment. Files with the same meaning have the same digest.
	Digest storage.Digest `json:"digest"`
	// Priority is the priority of a new run, 0 if nil; runs of higher priority go first. If it is not nil,
	// it also becomes the priority of a run that the submission continues.
	Priority *int `json:"priority,omitempty"`
	// Nonce distinguishes the records of otherwise equal fresh submissions. Submit sets it; other
	// submissions have none.
	Nonce string `json:"nonce,omitempty"`
	// Experiment is the resolved experiment with its defaults, in its owner's format.
	Experiment Document `json:"experiment"`
}

func (s *Spec) check() error {
	if got := storage.DigestOf(s.Experiment); got != s.Digest {
		return fmt.Errorf("its experiment has the digest %s, but its record says %s", got.Short(), s.Digest.Short())
	}
	return nil
}

// Run is a submission with its state.
type Run struct {
	ID    string
	Spec  Spec
	State State
	// read is the number of the last log entry that State contains, and entries
	// the number of entries since the log's newest snapshot.
	read, entries int
}

// Position is the number of the last log entry that State contains; of two
// copies of a run the one with the higher position is newer.
func (r *Run) Position() int { return r.read }

// ErrState is wrapped by errors about commands that the state of a run does not allow.
var ErrState = errors.New("the run's state does not allow it")

// Service reads and writes run records. It needs only storage, so every process
// can use it. It may be used from several goroutines.
type Service struct {
	archive *storage.Archive
	now     func() time.Time
}

// NewService returns the service of an archive. now stamps new entries; nil means time.Now.
func NewService(archive *storage.Archive, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{archive, now}
}

// Submit records a run. Unless fresh is set, it returns the unfinished run of the same resolved experiment,
// if there is one, and continued is true. The id is <name>-<8 hex digits of the digest>, followed by ".2",
// ".3", ... for later runs of the same experiment, so that one file has the same id in every fresh store.
//
// Equal submissions at the same time make one run; each fresh submission makes its own.
func (s *Service) Submit(ctx context.Context, spec Spec, by string, fresh bool) (run *Run, continued bool, err error) {
	if err := spec.check(); err != nil {
		return nil, false, fmt.Errorf("submitting %q: %w", spec.Name, err)
	}
	spec.Nonce = ""
	if fresh {
		spec.Nonce = rand.Text()
	}
	base := runID(spec)
	for {
		last, err := s.last(ctx, base)
		if err != nil {
			return nil, false, err
		}
		if last > 0 && !fresh {
			run, err := s.resume(ctx, numbered(base, last), spec, by)
			if err != nil || run != nil {
				return run, true, err
			}
		}
		run, err = s.create(ctx, numbered(base, last+1), spec, by)
		if !errors.Is(err, storage.ErrExists) {
			return run, false, err
		}
		// Another submission took the number just now.
	}
}

// resume returns the run that a submission continues, with the priority of the submission, or nil if the
// run has finished or is another experiment's.
func (s *Service) resume(ctx context.Context, id string, spec Spec, by string) (*Run, error) {
	run, err := s.Get(ctx, id)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return nil, nil // its removal was interrupted, or its record is damaged for good
	}
	if err != nil {
		return nil, err
	}
	if run.State.Phase.Finished() || run.Spec.Digest != spec.Digest {
		return nil, nil
	}
	if err := s.complete(ctx, run, by); err != nil {
		return nil, err
	}
	if spec.Priority == nil || *spec.Priority == run.State.Priority {
		return run, nil
	}
	if err := s.Append(ctx, id, Entry{Kind: Prioritized, By: by, Priority: *spec.Priority}); err != nil {
		return nil, err
	}
	_, err = s.Refresh(ctx, run)
	return run, err
}

// last returns the highest number of a run with this base, or 0.
func (s *Service) last(ctx context.Context, base string) (int, error) {
	ids, err := s.archive.UsedRunIDs(ctx)
	if err != nil {
		return 0, err
	}
	last := 0
	for _, id := range ids {
		n := 1
		rest, ok := strings.CutPrefix(id, base)
		if !ok {
			continue
		}
		if rest != "" {
			if _, err := fmt.Sscanf(rest, ".%d", &n); err != nil || numbered(base, n) != id {
				continue
			}
		}
		last = max(last, n)
	}
	return last, nil
}

// create records a run. The error wraps storage.ErrExists if another submission has taken the id.
func (s *Service) create(ctx context.Context, id string, spec Spec, by string) (*Run, error) {
	spec.Stamp = SpecFormat.Stamp()
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("run %s cannot be recorded: %w", id, err)
	}
	if err := s.archive.CreateRun(ctx, id, raw); err != nil {
		return nil, err
	}
	run, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return run, s.complete(ctx, run, by)
}

// complete writes the first entry of a log if an interrupted submission has not written it.
func (s *Service) complete(ctx context.Context, run *Run, by string) error {
	if !run.State.Submitted.IsZero() {
		return nil
	}
	priority := 0
	if run.Spec.Priority != nil {
		priority = *run.Spec.Priority
	}
	if err := s.Append(ctx, run.ID, Entry{Kind: Submitted, By: by, Priority: priority}); err != nil {
		return err
	}
	_, err := s.Refresh(ctx, run)
	return err
}

// Get returns a run. The error wraps storage.ErrNotFound if it does not exist.
func (s *Service) Get(ctx context.Context, id string) (*Run, error) {
	spec, err := s.spec(ctx, id)
	if err != nil {
		return nil, err
	}
	run, err := s.WithoutSpec(ctx, id)
	run.Spec = spec
	return run, err
}

// spec reads the submission of a run, with the errors of Get.
func (s *Service) spec(ctx context.Context, id string) (Spec, error) {
	spec, err := s.readSpec(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		err = s.absent(ctx, id, err)
	}
	return spec, err
}

// AddSpec reads the submission of a run from WithoutSpec. Its errors are those of Get.
func (s *Service) AddSpec(ctx context.Context, run *Run) (err error) {
	run.Spec, err = s.spec(ctx, run.ID)
	return err
}

// absent distinguishes a run that does not exist or is being removed from a run that has lost its record: a
// submission writes the record before the log, and a removal writes to the log before the record is deleted.
func (s *Service) absent(ctx context.Context, id string, notFound error) error {
	run, err := s.WithoutSpec(ctx, id)
	switch {
	case IsUnreadable(err): // a removal has deleted the beginning of the log
		return notFound
	case err != nil:
		return err
	case run.State.Submitted.IsZero() || run.State.Removed:
		return notFound
	}
	return fmt.Errorf("record of run %s in %s: %w: runs/%s/spec is gone, although the run was not removed; restore it from a copy of the store, or remove the rest of the run by its full id: coalmine rm %s",
		id, s.archive, storage.ErrCorrupt, id, id)
}

// WithoutSpec returns a run without its submission. A run without a log is in the state queued, without a
// time of submission.
func (s *Service) WithoutSpec(ctx context.Context, id string) (*Run, error) {
	run := &Run{ID: id, State: State{Phase: Queued}}
	_, err := s.Refresh(ctx, run)
	return run, err
}

// specTries is the number of times that an invalid spec is read. Bytes can be damaged in transit, and a run
// of a wrong experiment would go unnoticed.
const specTries = 4

func (s *Service) readSpec(ctx context.Context, id string) (Spec, error) {
	var damage error
	for range specTries {
		raw, err := s.archive.Spec(ctx, id)
		if err != nil {
			return Spec{}, err
		}
		if err := SpecFormat.Check(storage.StampOf(raw)); err != nil {
			return Spec{}, fmt.Errorf("run %s in %s: %w", id, s.archive, err)
		}
		var spec Spec
		if damage = json.Unmarshal(raw, &spec); damage == nil {
			damage = spec.check()
		}
		if damage == nil {
			return spec, nil
		}
	}
	return Spec{}, fmt.Errorf("record of run %s in %s: %w: %w; its results are stored separately: submit the experiment again, which makes another run, and remove this record by its full id: coalmine rm %s",
		id, s.archive, storage.ErrCorrupt, damage, id)
}

// List returns all runs, the newest first. An unreadable record is an error.
func (s *Service) List(ctx context.Context) ([]*Run, error) {
	all, unreadable, err := s.Readable(ctx)
	if err == nil && len(unreadable) > 0 {
		return nil, unreadable[0].Err
	}
	return all, err
}

// Unreadable is a run with an unreadable record.
type Unreadable struct {
	ID  string
	Err error // see IsUnreadable
}

// IsUnreadable reports whether an error of Get means that the run exists but its record is
// damaged or from a newer build.
func IsUnreadable(err error) bool {
	return errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrNewer)
}

// Readable returns the runs with readable records, the newest first, and those with unreadable records.
func (s *Service) Readable(ctx context.Context) (all []*Run, unreadable []Unreadable, err error) {
	return s.ReadableBy(ctx, s.Get)
}

// ReadAtOnce is the number of runs to read at the same time. A run takes about five requests: read one
// after the other, 600 runs in a store that answers within 20 ms would take a minute.
const ReadAtOnce = 16

// ReadableBy is Readable with another function to read a run. It calls get from several goroutines; get
// must return the errors of Get.
func (s *Service) ReadableBy(ctx context.Context, get func(ctx context.Context, id string) (*Run, error)) (all []*Run, unreadable []Unreadable, err error) {
	ids, err := s.archive.Runs(ctx)
	if err != nil {
		return nil, nil, err
	}
	if unreadable, err = s.withoutRecord(ctx, ids); err != nil {
		return nil, nil, err
	}
	found, damage := make([]*Run, len(ids)), make([]error, len(ids))
	err = goroutines.Each(ctx, len(ids), ReadAtOnce, func(ctx context.Context, i int) error {
		run, err := get(ctx, ids[i])
		switch {
		case errors.Is(err, storage.ErrNotFound): // removed while we were listing
			return nil
		case IsUnreadable(err):
			damage[i] = err
			return nil
		}
		found[i] = run
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, id := range ids {
		if damage[i] != nil {
			unreadable = append(unreadable, Unreadable{id, damage[i]})
		} else if found[i] != nil {
			all = append(all, found[i])
		}
	}
	slices.SortFunc(all, func(a, b *Run) int {
		return cmp.Or(b.State.Submitted.Compare(a.State.Submitted), cmp.Compare(b.ID, a.ID))
	})
	return all, unreadable, nil
}

// withoutRecord returns the runs that have lost their record. ids are the runs with a record.
func (s *Service) withoutRecord(ctx context.Context, ids []string) (lost []Unreadable, err error) {
	used, err := s.archive.UsedRunIDs(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range used {
		if _, has := slices.BinarySearch(ids, id); has {
			continue
		}
		_, err := s.Get(ctx, id)
		switch {
		case IsUnreadable(err):
			lost = append(lost, Unreadable{id, err})
		case err != nil && !errors.Is(err, storage.ErrNotFound):
			return nil, err
		}
	}
	return lost, nil
}

// IDs returns the ids of all runs that have a record, in byte order.
func (s *Service) IDs(ctx context.Context) ([]string, error) { return s.archive.Runs(ctx) }

// Refresh applies the entries appended to the run's log since it was read, and
// reports whether there were any.
func (s *Service) Refresh(ctx context.Context, run *Run) (changed bool, err error) {
	entries, err := s.archive.ReadLog(ctx, run.ID, run.read+1)
	if err != nil {
		return false, err
	}
	state := run.State.Clone()
	read, count := run.read, run.entries
	for _, e := range entries {
		read, count = e.Number, count+1
		switch {
		case e.Torn: // lost in a power cut before the write was confirmed
		case e.Snapshot:
			state, count = State{}, 0
			err = json.Unmarshal(e.Data, &state)
		default:
			var entry Entry
			err = json.Unmarshal(e.Data, &entry)
			state.Apply(entry)
		}
		if err != nil {
			return false, fmt.Errorf("entry %d in the log of run %s in %s: %w: %w", e.Number, run.ID, s.archive, storage.ErrCorrupt, err)
		}
	}
	run.State, run.read, run.entries = state, read, count
	return len(entries) > 0, nil
}

// Append adds entries to a run's log, stamped with the time if they have none.
func (s *Service) Append(ctx context.Context, id string, entries ...Entry) error {
	for _, e := range entries {
		if e.Time.IsZero() {
			e.Time = s.now().UTC()
		}
		raw, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("entry for the log of run %s: %w", id, err)
		}
		if _, err := s.archive.AppendLog(ctx, id, raw); err != nil {
			return err
		}
	}
	return nil
}

// Steer appends a user's command after checking that the run's state allows it. The error wraps ErrState if
// the state does not allow it, or storage.ErrNotFound if there is no such run. The coordinator follows when
// it is nudged, or within seconds.
func (s *Service) Steer(ctx context.Context, id string, e Entry) error {
	run, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := allowed(run, e); err != nil {
		return err
	}
	return s.Append(ctx, id, e)
}

// commands are the entries that users may write.
var commands = []Kind{PauseEntry, ResumeEntry, CancelEntry, RetryEntry, PinEntry, Prioritized, NoteEntry, TagEntry, RemoveEntry}

// allowed returns an error if the state of a run does not allow a user's command.
func allowed(run *Run, e Entry) error {
	state := &run.State
	_, moves := findMove(e.Kind, state.Phase)
	switch {
	case !slices.Contains(commands, e.Kind):
		return fmt.Errorf("run %s: %q is not a command", run.ID, e.Kind)
	case state.Removed && state.blocked(e.Kind):
		return fmt.Errorf("run %s is being removed: %w; submit its experiment again", run.ID, ErrState)
	case e.Kind == PinEntry:
		return pinnable(run, e)
	case e.Kind == Prioritized, e.Kind == NoteEntry, e.Kind == TagEntry:
		return nil
	case e.Kind == RemoveEntry && !moves:
		return fmt.Errorf("run %s is %s: %w; cancel it first (coalmine cancel %s), or wait for its end", run.ID, state.Phase, ErrState, run.ID)
	case !moves:
		return fmt.Errorf("run %s is %s: %w; expected a %s run", run.ID, state.Phase, ErrState, phasesFor(e.Kind))
	case state.restores(e.Kind) && e.Missing == 0 && len(e.Keys) == 0:
		return fmt.Errorf("run %s is %s: %w; the run has no failed nodes and no missing outputs (coalmine run --new FILE computes an experiment again)", run.ID, state.Phase, ErrState)
	case state.restores(e.Kind) && e.Missing > 0:
		return nil
	case state.blocked(e.Kind):
		return fmt.Errorf("run %s is pinned: %w; unpin it first (coalmine unpin %s)", run.ID, ErrState, run.ID)
	case e.Kind == RetryEntry:
		return retryable(run, e)
	}
	return nil
}

// pinnable returns an error if a command unpins a cell of a run that is pinned as a whole.
func pinnable(run *Run, e Entry) error {
	if !e.Pinned && run.State.Pinned && len(e.Cells) > 0 {
		return fmt.Errorf("run %s is pinned as a whole: %w; unpin the run, and pin the cells to keep", run.ID, ErrState)
	}
	return nil
}

// Delete removes the record of a run if the run is marked as removed. Otherwise it does nothing, because a
// newer run may have taken the id. Only the leader calls it; it may be called again.
func (s *Service) Delete(ctx context.Context, id string) error {
	run, err := s.Get(ctx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && run.State.Removed {
		return s.archive.DeleteRun(ctx, id)
	}
	return err
}

// DeleteUnreadable removes the record of a run that cannot be read. Only the leader calls it.
func (s *Service) DeleteUnreadable(ctx context.Context, id string) error {
	run, err := s.Get(ctx, id)
	switch {
	case IsUnreadable(err):
		return s.archive.DeleteRun(ctx, id)
	case err == nil:
		return fmt.Errorf("run %s is %s: %w; its record is readable, so remove it like any other run (coalmine rm %s)", id, run.State.Phase, ErrState, id)
	}
	return err
}

func retryable(run *Run, e Entry) error {
	none := len(run.State.Failures) == 0 && run.State.Error == ""
	if none && (run.State.Phase == Cancelled || run.State.Phase == Paused) {
		return fmt.Errorf("run %s is %s: %w; the run has no failed nodes; to continue it: coalmine resume %s", run.ID, run.State.Phase, ErrState, run.ID)
	}
	if none {
		return fmt.Errorf("run %s is %s: %w; the run has no failed nodes (coalmine status %s shows its tasks)", run.ID, run.State.Phase, ErrState, run.ID)
	}
	for _, key := range e.Keys {
		if _, failed := run.State.Failures[key]; !failed {
			return fmt.Errorf("run %s is %s: %w; node %s has not failed (coalmine logs %s lists the failed ones)", run.ID, run.State.Phase, ErrState, key.Short(), run.ID)
		}
	}
	return nil
}

// compactAfter is the number of entries since the newest snapshot after which the leader folds a log.
const compactAfter = 64

// Compact folds the run's log if it has grown long. Only the leader calls it.
func (s *Service) Compact(ctx context.Context, run *Run) error {
	if run.entries <= compactAfter {
		return nil
	}
	raw, err := json.Marshal(run.State)
	if err != nil {
		return fmt.Errorf("state of run %s: %w", run.ID, err)
	}
	n, err := s.archive.CompactLog(ctx, run.ID, run.read, raw)
	if errors.Is(err, storage.ErrExists) {
		return nil // another process has just appended; the next call compacts
	}
	if n > 0 {
		run.read, run.entries = n, 0
	}
	return err
}

func numbered(base string, n int) string {
	if n == 1 {
		return base
	}
	return fmt.Sprintf("%s.%d", base, n)
}

// maxNameInID bounds the experiment's name within an id.
const maxNameInID = 60

// BelongsTo reports whether id has the form of an id of a run of the named experiment.
func BelongsTo(id, experiment string) bool {
	rest, ok := strings.CutPrefix(id, idName(experiment)+"-")
	digest, number, several := strings.Cut(rest, ".")
	_, notHex := hex.DecodeString(digest)
	_, notNumber := strconv.Atoi(number)
	return ok && len(digest) == digestInID && notHex == nil && (!several || notNumber == nil)
}

// digestInID is the number of digits of the digest in an id.
const digestInID = 8

func runID(spec Spec) string { return idName(spec.Name) + "-" + spec.Digest.String()[:digestInID] }

// idName returns the name of an experiment in the form of ids.
func idName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	name = strings.Trim(name[:min(len(name), maxNameInID)], "-._")
	return cmp.Or(name, "run")
}
