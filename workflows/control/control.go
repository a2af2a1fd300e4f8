// Package control submits, shows and steers runs, and reads their results. API lists the operations. Local
// performs them on storage directly, for commands that can reach the store and for the HTTP server; the
// server's client performs them remotely.
package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"time"

	"coalmine/internal/build"
	"coalmine/internal/goroutines"
	"coalmine/internal/queue"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/results"
	"coalmine/workflows/results/dataexport"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/retention"
	"coalmine/workflows/runs/status"
)

// API has all operations on runs. A run is named by its id or a prefix of it. If a prefix fits several runs
// of one experiment, it means the newest (WithChoiceReporter). experiment.Latest or "" name the newest run.
type API interface {
	// HasSource reports whether a source has been uploaded.
	HasSource(ctx context.Context, digest storage.Digest) (bool, error)
	// PutSource uploads a source and returns its digest.
	PutSource(ctx context.Context, body io.ReadSeeker) (storage.Digest, error)
	// Submit records a run with uploaded sources or, unless fresh is set,
	// continues the unfinished run of the same resolved experiment.
	Submit(ctx context.Context, spec runs.Spec, fresh bool) (Submitted, error)
	// SubmitFile checks and submits an experiment file. Its data must have been uploaded, and named by
	// data.sha256, or be in a place that AllowSources permits.
	SubmitFile(ctx context.Context, file File, fresh bool) (Submitted, error)
	// List returns the status of all runs, the newest first.
	List(ctx context.Context) ([]*status.Run, error)
	// Status returns the status of a run.
	Status(ctx context.Context, run string) (*status.Run, error)
	// Watch sends the status of a run now and whenever it changes. It closes the channel after the status
	// of the finished run, or when ctx is done.
	Watch(ctx context.Context, run string) (<-chan *status.Run, error)
	// Steer appends a command to the run's log and returns the run's id.
	Steer(ctx context.Context, run string, e runs.Entry) (string, error)
	// Remove removes the record of a finished run that is not pinned. A prefix of an id must fit only one run.
	Remove(ctx context.Context, run string) (*Removed, error)
	// Collect deletes objects that no run needs.
	Collect(ctx context.Context, o CollectOptions) (*retention.Result, error)
	// Workers returns the live workers, with or without runs.
	Workers(ctx context.Context) (*status.Fleet, error)
	// Drain asks workers to take no more tasks, finish their tasks, and exit, and returns their ids. worker
	// is an id, a prefix of one, or a host, which means all workers there.
	Drain(ctx context.Context, worker string) ([]string, error)
	// Experiment returns the resolved experiment of a run.
	Experiment(ctx context.Context, run string) (*experiment.Spec, error)
	// Results returns the outcome of a run, complete or not.
	Results(ctx context.Context, run string) (*results.Results, error)
	// Rounds returns the metrics of every round of a run's trainings.
	Rounds(ctx context.Context, run string) (*results.Rounds, error)
	// Curve returns the measurements of a cell along its training so far, after at most points rounds.
	// points is from MinPoints to MaxPoints.
	Curve(ctx context.Context, run, cell string, points int) (*results.Curve, error)
	// Canaries returns the canaries of a cell and their audit outcomes so far, after at most points rounds.
	// points is from MinPoints to MaxPoints.
	Canaries(ctx context.Context, run, cell string, points int) (*results.CanaryLives, error)
	// Surroundings scores a canary and the first references that random sampling compares it with, under
	// the model after a measured round or LastRound. Canaries count from 0.
	Surroundings(ctx context.Context, run, cell string, canary, round int) (*Surroundings, error)
	// History returns the events of a run, the newest last.
	History(ctx context.Context, run string) (*History, error)
	// Pictures returns the pictures of a run's audits so far.
	Pictures(ctx context.Context, run string, shown results.Shown) ([]results.Picture, error)
	// Model returns the checkpoint of a cell after a round (of SGD: a step) as a safetensors file with its vocabulary.
	// Round 0 means the initial model, LastRound the trained model, and NewestRound the last stored model.
	Model(ctx context.Context, run, cell string, round int) ([]byte, error)
	// Prepared returns a model of a cell's prepare block as a safetensors file with its vocabulary. name is
	// its name there, such as Classifier.
	Prepared(ctx context.Context, run, cell, name string) ([]byte, error)
	// Data writes a table of the data on which a cell was computed. After an error the table is incomplete.
	Data(ctx context.Context, run, cell string, table dataexport.Table, format dataexport.Format, w io.Writer) error
	// Nodes returns the nodes of a run, or of one of its cells, and their outputs, including the recorded
	// steps of trainings.
	Nodes(ctx context.Context, run string, which NodeQuery) ([]Node, error)
	// Lineage returns the cells of the run that share a node of a cell, and the nodes that read it. key is
	// a prefix of the node's key.
	Lineage(ctx context.Context, run, cell, key string) (*Lineage, error)
	// Spending returns the privacy cost of a cell's training so far.
	Spending(ctx context.Context, run, cell string) (Spending, error)
	// Logs returns the logs of failed attempts of a run. If node is a label or a prefix of a key, it
	// returns those of that node as far back as the history goes; if it is "", those of at most a hundred
	// nodes that have failed or had failed attempts since they were last retried.
	Logs(ctx context.Context, run, node string) ([]AttemptLog, error)
}

// Submitted is the answer to a submission.
type Submitted struct {
	Run string `json:"run"`
	// Continued reports whether the run existed and had not finished.
	Continued bool `json:"continued"`
	// Phase is the phase of a continued run, which may be paused.
	Phase runs.Phase `json:"state,omitempty"`
	// Priority is the priority that the submission gave a continued run, or nil.
	Priority *int `json:"priority,omitempty"`
	// Earlier is the newest earlier run of the same name, if its experiment differs; nil for a continued run.
	Earlier *Earlier `json:"earlier,omitempty"`
}

// AttemptLog is the log of an attempt.
type AttemptLog struct {
	Node    storage.Key `json:"node"`
	Label   string      `json:"label"`
	Attempt string      `json:"attempt"`
	Text    string      `json:"text"`
}

// Errors of this package, to be tested with errors.Is.
var (
	// ErrNoRun means that there is no run of that name.
	ErrNoRun = errors.New("no such run")
	// ErrAmbiguous means that a prefix of an id fits runs of several experiments or, for a removal, several runs.
	ErrAmbiguous = errors.New("several runs")
	// ErrNoWorker means that no live worker has that name.
	ErrNoWorker = errors.New("no such worker")
	// ErrInput means that the request is invalid.
	ErrInput = errors.New("is invalid")
	// ErrExperiment means that the experiment is invalid or too large.
	ErrExperiment = errors.New("cannot be run")
)

// Local implements API on storage.
type Local struct {
	archive *storage.Archive
	runs    *runs.Service
	// queue connects to the coordinator and holds its published statuses, or is nil if there is no queue.
	// away is the reason why an existing queue does not answer.
	queue *queue.Broker
	away  error
	// coordinator is the coordinator of this process, which leads or stands by, or nil.
	coordinator *coordinator.Coordinator
	// records holds the parts of runs' records that lists and statuses show.
	records records
	// outcomes caches the results of the last requested runs.
	outcomes outcomes
	plans    plans
	// checking limits concurrent checks of submissions to one, because a large submission takes some hundred MB.
	checking chan struct{}
	// scoring limits concurrent scoring of references to one request, because it takes a core.
	scoring chan struct{}
	// allowed holds the places from which submitted files may read data, or is nil for no place.
	allowed *sources.Allowed
}

var _ API = (*Local)(nil)

// New returns the API of an archive. conn is nil if there is no queue, and c if this
// process has no coordinator.
func New(archive *storage.Archive, conn *queue.Conn, c *coordinator.Coordinator) *Local {
	l := &Local{archive: archive, runs: runs.NewService(archive, nil), coordinator: c, checking: make(chan struct{}, 1), scoring: make(chan struct{}, 1)}
	if conn != nil {
		l.queue = conn.Broker()
	}
	return l
}

// SetQueueError sets the reason why the queue does not answer. Runs can still be
// read and steered, but the leader is unknown.
func (l *Local) SetQueueError(why error) { l.away = why }

// nudge makes the coordinator read the runs now. It ignores errors, because the coordinator reads the runs
// within seconds anyway.
func (l *Local) nudge(ctx context.Context) {
	if l.coordinator != nil {
		l.coordinator.Nudge()
	}
	if !l.leads() && l.queue != nil {
		_ = l.queue.Nudge(ctx)
	}
}

// leads reports whether the coordinator of this process leads. Commands then reach it without the queue.
func (l *Local) leads() bool { return l.coordinator != nil && l.coordinator.Leads() }

func (l *Local) HasSource(ctx context.Context, digest storage.Digest) (bool, error) {
	return l.archive.HasSource(ctx, digest)
}

func (l *Local) PutSource(ctx context.Context, body io.ReadSeeker) (storage.Digest, error) {
	digest, _, err := l.archive.PutSource(ctx, body)
	return digest, err
}

func (l *Local) Submit(ctx context.Context, spec runs.Spec, fresh bool) (Submitted, error) {
	if !l.leads() && l.queue != nil {
		if err := leadership.CheckStore(ctx, l.queue, l.archive); err != nil {
			return Submitted{}, err
		}
	}
	e, data, err := l.check(ctx, &spec)
	if err == nil && !fresh {
		err = CheckKeys(ctx, l, e)
	}
	if err != nil {
		return Submitted{}, err
	}
	run, continued, err := l.runs.Submit(ctx, spec, person(), fresh)
	if err != nil {
		return Submitted{}, err
	}
	l.nudge(ctx)
	if err := l.checkSources(ctx, data); err != nil {
		return Submitted{}, fmt.Errorf("run %s is recorded, but its data was just deleted by a garbage collection: %w; repeat the command to upload it again", run.ID, err)
	}
	submitted := Submitted{Run: run.ID, Continued: continued}
	if continued {
		submitted.Phase, submitted.Priority = run.State.Phase, spec.Priority
		return submitted, nil
	}
	if submitted.Earlier, err = l.earlier(ctx, run, e); err != nil {
		slog.Default().Warn("comparing with earlier runs", "run", run.ID, "err", err)
	}
	return submitted, nil
}

// check checks that a spec compiles and that its sources are stored, so that every recorded run can begin.
// It returns the experiment and the sources.
func (l *Local) check(ctx context.Context, spec *runs.Spec) (*experiment.Spec, []storage.Digest, error) {
	select {
	case l.checking <- struct{}{}:
		defer func() { <-l.checking }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	e, err := checkRecord(spec)
	if err != nil {
		return nil, nil, err
	}
	data, err := compile.Sources(e)
	if err != nil {
		return nil, nil, fmt.Errorf("submission %w: %w", ErrInput, err)
	}
	return e, data, l.checkSources(ctx, data)
}

// checkRecord checks a record as strictly as an experiment file, because its sender may have forged it.
func checkRecord(spec *runs.Spec) (*experiment.Spec, error) {
	e, err := experiment.ReadSpec(spec.Experiment)
	if err != nil {
		return nil, fmt.Errorf("submission %w: %w", ErrExperiment, err)
	}
	// An experiment in a JSON form that this build does not write, such as with other keys, can still have
	// the digest of a valid one.
	if storage.DigestOf(spec.Experiment) != spec.Digest || e.Digest() != spec.Digest || e.Name != spec.Name {
		return nil, fmt.Errorf("submission %w: its digest or name does not match its experiment", ErrInput)
	}
	if err := e.Check(); err != nil {
		return nil, fmt.Errorf("submission %w: %w", ErrExperiment, err)
	}
	if err := compile.Check(e); err != nil {
		return nil, fmt.Errorf("submission %w: %w", ErrExperiment, err)
	}
	return e, nil
}

// checkSources checks that the sources of a run are stored. Submit calls it before the run is recorded and
// again afterwards, because only the sources of recorded runs are safe from collection.
func (l *Local) checkSources(ctx context.Context, digests []storage.Digest) error {
	for _, digest := range digests {
		there, err := l.archive.HasSource(ctx, digest)
		if err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("submission %w: source %s has not been uploaded", ErrInput, digest.Short())
		}
	}
	return nil
}

// person returns the name of the user who steers, for the log: usually the user of this process. In a
// container it may be a number.
func person() string {
	host, _ := os.Hostname()
	name := fmt.Sprint("uid ", os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return name + "@" + host
}

// get returns a run unless it is being removed.
func (l *Local) get(ctx context.Context, id string) (*runs.Run, error) {
	run, err := l.runs.Get(ctx, id)
	if err == nil && run.State.Removed {
		return nil, fmt.Errorf("run %q: %w in %s: it was removed", id, ErrNoRun, l.archive)
	}
	return run, err
}

// list returns all runs except those being removed, the newest first.
func (l *Local) list(ctx context.Context) ([]*runs.Run, error) {
	all, _, err := l.runs.Readable(ctx)
	return present(all), err
}

// present drops the runs that are being removed.
func present(all []*runs.Run) []*runs.Run {
	return slices.DeleteFunc(all, func(r *runs.Run) bool { return r.State.Removed })
}

// List implements API. Runs with unreadable records are at the end, as failed.
func (l *Local) List(ctx context.Context) ([]*status.Run, error) {
	all, unreadable, shown, err := l.readable(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*status.Run, 0, len(all)) // an empty list, not null, in JSON
	glance := l.glance()                    // one for all runs
	for _, run := range present(all) {
		out = append(out, l.status(ctx, run, shown[run.ID], glance))
	}
	for _, d := range unreadable {
		out = append(out, &status.Run{
			Run: d.ID, Phase: runs.Failed, Unreadable: true, Error: d.Err.Error(),
			Cells: []status.Cell{}, Workers: []status.Worker{},
		})
	}
	return out, nil
}

func (l *Local) Status(ctx context.Context, name string) (*status.Run, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return l.statusOf(ctx, run, l.recorded(ctx, run)), nil
}

// watchEvery is the interval of reading a run of another process.
const watchEvery = time.Second

func (l *Local) Watch(ctx context.Context, name string) (<-chan *status.Run, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	statuses, record := make(chan *status.Run), l.recorded(ctx, run)
	go func() {
		defer close(statuses)
		err := goroutines.Recover(func() error { l.watch(ctx, run, record, statuses); return nil })
		goroutines.LogPanic(slog.Default(), err, "watching", run.ID)
	}()
	return statuses, nil
}

// watch sends the status of a run whenever it may have changed, until the run has finished or is removed.
func (l *Local) watch(ctx context.Context, run *runs.Run, record *recorded, statuses chan<- *status.Run) {
	for {
		news := l.changes()
		changed, err := l.runs.Refresh(ctx, run)
		if err != nil && ctx.Err() != nil || err == nil && !changed && l.removed(ctx, run.ID) {
			return
		}
		s := l.statusOf(ctx, run, record)
		select {
		case statuses <- s:
		case <-ctx.Done():
			return
		}
		if s.Phase.Finished() {
			return
		}
		select {
		case <-news:
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return
		}
	}
}

// changes returns a channel that is closed when the coordinator of this process has news, or nil if there
// is no coordinator.
func (l *Local) changes() <-chan struct{} {
	if l.coordinator == nil {
		return nil
	}
	return l.coordinator.Updated()
}

// status returns a run's status, with its note, tags and gates.
func (l *Local) status(ctx context.Context, run *runs.Run, record *recorded, glance *glance) *status.Run {
	return l.judged(ctx, run, record, remarked(l.standing(ctx, run, record, glance), &run.State))
}

// standing returns a run's status from the coordinator or, if the run has finished or no coordinator
// reports it, from storage.
func (l *Local) standing(ctx context.Context, run *runs.Run, record *recorded, glance *glance) *status.Run {
	if run.State.Phase.Finished() {
		return stored(run, record)
	}
	live, err := l.live(ctx, run)
	if live != nil {
		return live
	}
	s := stored(run, record)
	if l.leads() {
		return s
	}
	looked := glance.at(ctx, record.head, s)
	leader, led := l.announced(ctx)
	switch {
	case s.Phase == runs.Paused:
	case err != nil:
		stick(s, status.WaitQueue, fmt.Sprintf("the queue does not answer, so coordinators and workers are unknown: %v; %s", err, looked))
	case led && leader.Build != build.Read().String():
		stick(s, status.WaitCoordinator, fmt.Sprintf("the leading coordinator %s (%s) does not report the run, whose record was written by %s in format %d: an older build skips records that it cannot read (see its log); update it; %s",
			leader.Holder, buildText(leader.Build), buildText(run.Spec.Build), max(run.Spec.Format, 1), looked))
	case led && l.coordinator == nil:
		stick(s, status.WaitCoordinator, fmt.Sprintf("the leading coordinator %s has not read it yet; %s", leader.Holder, looked))
	case l.coordinator == nil && s.Phase == runs.Queued:
		stick(s, status.WaitCoordinator, fmt.Sprintf("no process works on it yet; start coalmine serve (and, with Redis, coalmine worker), or: coalmine run --continue %s; %s", s.Run, looked))
	case l.coordinator == nil:
		stick(s, status.WaitCoordinator, fmt.Sprintf("no process works on it; to continue it, repeat the command, start coalmine serve, or: coalmine run --continue %s; %s", s.Run, looked))
	}
	return s
}

// announced returns the announcement of the cluster's leader, if there is one.
func (l *Local) announced(ctx context.Context) (leader leadership.Announcement, found bool) {
	if l.queue == nil || l.away != nil {
		return leader, false
	}
	return leadership.Announced(ctx, l.queue)
}

// buildText names the build of another process for messages.
func buildText(name string) string {
	if name == "" {
		return "an older build"
	}
	return "coalmine " + readable.Text(name)
}

// stick marks a run as stuck, with the reason.
func stick(s *status.Run, reason status.WaitReason, detail string) {
	s.Health, s.Reasons = status.Stuck, []string{detail}
	s.Waits = []status.Wait{{Reason: reason, Detail: detail}}
}

// live returns the coordinator's status of a run. It returns nil if the coordinator has no status, or one that is
// older than the run's record, and an error if the queue does not answer.
func (l *Local) live(ctx context.Context, run *runs.Run) (*status.Run, error) {
	if l.leads() {
		if s, ok := l.coordinator.Snapshot(run.ID); ok && s.Phase == run.State.Phase {
			return s, nil
		}
	}
	if l.queue == nil {
		return nil, l.away
	}
	data, err := l.queue.Published(ctx, status.PublishedName(run.ID))
	if err != nil || data == nil {
		return nil, err
	}
	var s status.Run
	if json.Unmarshal(data, &s) != nil || s.Phase != run.State.Phase {
		return nil, nil
	}
	return &s, nil
}

func (l *Local) Steer(ctx context.Context, name string, e runs.Entry) (string, error) {
	find := l.find
	if e.Kind == runs.RemoveEntry {
		find = l.findOnly
	}
	run, err := find(ctx, name)
	if err != nil {
		return "", err
	}
	if err := cmp.Or(checkRemark(e), l.checkCells(ctx, run, e)); err != nil {
		return "", err
	}
	e.By = person()
	if e.Missing, err = l.missing(ctx, run, e); err != nil {
		return "", err
	}
	if err := l.runs.Steer(ctx, run.ID, e); err != nil {
		return "", err
	}
	l.nudge(ctx)
	return run.ID, nil
}

func (l *Local) Results(ctx context.Context, name string) (*results.Results, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	found, err := l.outcomes.get(ctx, l.archive, run)
	return found, repairable(run, err)
}

// repairable adds the remedy to an error of reading damaged outputs of a done run.
func repairable(run *runs.Run, err error) error {
	if run.State.Phase == runs.Done && errors.Is(err, storage.ErrCorrupt) {
		return fmt.Errorf("%w; to recompute its damaged outputs: coalmine retry %s", err, run.ID)
	}
	return err
}

func (l *Local) Pictures(ctx context.Context, name string, shown results.Shown) ([]results.Picture, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	pictures, err := results.LoadPictures(ctx, l.archive, run, shown)
	return pictures, repairable(run, err)
}

// ResultsFor returns the results of a run with all parts that a format shows.
func ResultsFor(ctx context.Context, api API, run string, f results.Format) (*results.Results, error) {
	r, err := api.Results(ctx, run)
	if err != nil || !f.Pictures {
		return r, err
	}
	if r.Pictures, err = api.Pictures(ctx, r.Run, results.Shown{}); err != nil {
		return r, err
	}
	r.Origin, err = originOf(ctx, api, r)
	return r, err
}

// originOf returns the recipe and the times of a run. It omits the recipe if this build cannot read it.
func originOf(ctx context.Context, api API, r *results.Results) (*results.Origin, error) {
	s, err := api.Status(ctx, r.Run)
	if err != nil {
		return nil, err
	}
	origin := &results.Origin{Submitted: s.Submitted, Finished: s.Finished}
	if r.Unreadable != "" {
		return origin, nil
	}
	spec, err := api.Experiment(ctx, r.Run)
	if err != nil {
		return nil, err
	}
	for i := range spec.Cells {
		if seed := spec.Cells[i].Experiment.Seed; !slices.Contains(origin.Seeds, seed) {
			origin.Seeds = append(origin.Seeds, seed)
		}
	}
	recipe, err := spec.YAML()
	origin.Recipe = string(recipe)
	return origin, err
}

func (l *Local) Rounds(ctx context.Context, name string) (*results.Rounds, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return results.LoadRounds(ctx, l.archive, run)
}

func (l *Local) Experiment(ctx context.Context, name string) (*experiment.Spec, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	spec, err := runs.Experiment(run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return spec, nil
}
