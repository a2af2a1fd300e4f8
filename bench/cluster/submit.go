// These files measure the cost of a large grid before its first task: the command that
// submits it, the coordinator that plans it, and the list of runs.
//
// The cluster has no workers, but separate processes for Redis, a coordinator with its API,
// and the command, with a store in a directory. The program may be another build of
// coalmine, to compare the two.

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"coalmine/internal/tempfiles"
)

// SubmitOptions describe the submission.
type SubmitOptions struct {
	// Program is the path of coalmine.
	Program string
	// File is an experiment file; "" stands for a grid of Cells seeds, which share only the
	// task that imports the text.
	File  string
	Cells int
	// Lists is the number of requests for the list of runs.
	Lists int
	// Note is called with the name of each measurement as it begins.
	Note func(format string, args ...any)
}

// SubmitResult holds the measurements of a submission.
type SubmitResult struct {
	Cells int `json:"cells"`
	Nodes int `json:"nodes"` // tasks of the run, as the coordinator counts them
	// Submit is the process of the command.
	Submit Process `json:"submit"`
	// Coordinator is the process of the coordinator from its start until the run has ready
	// tasks, TakenUp seconds after the end of the command. IdleBytes is its memory before.
	Coordinator Process `json:"coordinator"`
	IdleBytes   int64   `json:"coordinator_idle_bytes"`
	TakenUp     float64 `json:"taken_up_seconds"`
	// Lists are answers with the run while it waits for workers, EndedLists after its cancellation.
	Lists      Lists `json:"lists"`
	EndedLists Lists `json:"ended_lists"`
}

// Process is the resources that a process has used. Numbers that the system does not report are 0.
type Process struct {
	Seconds       float64 `json:"seconds"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	ResidentBytes int64   `json:"resident_bytes,omitempty"`
	PeakBytes     int64   `json:"peak_bytes"`
}

func newProcess(took time.Duration, u Usage) Process {
	return Process{Seconds: took.Seconds(), CPUSeconds: u.CPU.Seconds(), ResidentBytes: u.Resident, PeakBytes: u.Peak}
}

// Lists are times of answers to GET /runs, in milliseconds.
type Lists struct {
	FirstMS  float64 `json:"first_ms"`
	MedianMS float64 `json:"median_ms"`
	Bytes    int     `json:"bytes"`
}

// RunSubmit measures. It leaves nothing behind, even after an error.
func RunSubmit(ctx context.Context, o SubmitOptions) (*SubmitResult, error) {
	d, err := tempfiles.MakeDirectory("", "bench-")
	if err != nil {
		return nil, err
	}
	defer d.Remove()
	c := &submitCluster{SubmitOptions: o, dir: d.Path}
	r, err := c.measure(ctx)
	c.close()
	return r, err
}

// submitCluster holds the processes of a measurement.
type submitCluster struct {
	SubmitOptions
	dir, redisURL, api string
	redis, server      *Child
	started            time.Time
}

func (c *submitCluster) measure(ctx context.Context) (*SubmitResult, error) {
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	r := &SubmitResult{IdleBytes: c.server.Usage().Resident}
	if err := c.submit(ctx, r); err != nil {
		return nil, err
	}
	if err := c.takeUp(ctx, r); err != nil {
		return nil, err
	}
	var err error
	if r.Lists, err = c.lists(ctx); err != nil {
		return nil, err
	}
	if err := c.cancel(ctx); err != nil {
		return nil, err
	}
	r.EndedLists, err = c.lists(ctx)
	return r, err
}

func (c *submitCluster) start(ctx context.Context) (err error) {
	if c.redis, c.redisURL, err = Redis(c.dir); err != nil {
		return err
	}
	addr, err := FreeAddress()
	if err != nil {
		return err
	}
	c.api, c.started = "http://"+addr+"/api/v1/runs", time.Now()
	if c.server, err = StartChild(c.command("serve", "--listen", addr)); err != nil {
		return err
	}
	return Await(ctx, "the coordinator to begin", func() (bool, error) {
		_, err := c.list(ctx)
		return err == nil, c.server.Ended()
	})
}

func (c *submitCluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.Program, args...)
	cmd.Env = append(os.Environ(), "COALMINE_SERVER=", "COALMINE_REDIS_URL="+c.redisURL, "COALMINE_STORE_URL="+filepath.Join(c.dir, "store"))
	return cmd
}

func (c *submitCluster) perform(ctx context.Context, args ...string) (Process, error) {
	begun := time.Now()
	child, err := StartChild(c.command(args...))
	if err != nil {
		return Process{}, err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
		return Process{}, ctx.Err()
	}
	return newProcess(time.Since(begun), child.Usage()), child.Ended()
}

func (c *submitCluster) submit(ctx context.Context, r *SubmitResult) error {
	file := c.File
	if file == "" {
		var err error
		if file, err = writeGrid(c.dir, c.Cells); err != nil {
			return err
		}
	}
	c.Note("submitting")
	var err error
	r.Submit, err = c.perform(ctx, "submit", file)
	return err
}

// takeUp waits until the run has ready tasks.
func (c *submitCluster) takeUp(ctx context.Context, r *SubmitResult) error {
	c.Note("waiting for the coordinator to take it up")
	submitted := time.Now()
	err := AwaitLong(ctx, "the coordinator to take the run up", func() (bool, error) {
		run, err := c.run(ctx)
		if err != nil {
			return false, errors.Join(err, c.server.Ended())
		}
		r.Cells, r.Nodes = len(run.Cells), run.Nodes.Total
		return run.State == "running" && run.Nodes.Ready > 0, nil
	})
	r.TakenUp = time.Since(submitted).Seconds()
	r.Coordinator = newProcess(time.Since(c.started), c.server.Usage())
	return err
}

func (c *submitCluster) cancel(ctx context.Context) error {
	if _, err := c.perform(ctx, "cancel", "latest"); err != nil {
		return err
	}
	return Await(ctx, "the run to be cancelled", func() (bool, error) {
		run, err := c.run(ctx)
		return run.State == "cancelled", err
	})
}

type shownRun struct {
	State string            `json:"state"`
	Cells []json.RawMessage `json:"cells"`
	Nodes struct{ Total, Ready int }
}

func (c *submitCluster) run(ctx context.Context) (shownRun, error) {
	data, err := c.list(ctx)
	if err != nil {
		return shownRun{}, err
	}
	var answer struct{ Runs []shownRun }
	if err := json.Unmarshal(data, &answer); err != nil {
		return shownRun{}, err
	}
	if len(answer.Runs) != 1 {
		return shownRun{}, fmt.Errorf("%d runs, expected the one that was submitted", len(answer.Runs))
	}
	return answer.Runs[0], nil
}

func (c *submitCluster) list(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", c.api, answer.Status, bytes.TrimSpace(data))
	}
	return data, err
}

func (c *submitCluster) lists(ctx context.Context) (Lists, error) {
	var l Lists
	times := make([]float64, max(1, c.Lists))
	for i := range times {
		begun := time.Now()
		data, err := c.list(ctx)
		if err != nil {
			return Lists{}, err
		}
		times[i], l.Bytes = float64(time.Since(begun).Microseconds())/1000, len(data)
	}
	l.FirstMS = times[0]
	slices.Sort(times)
	l.MedianMS = times[len(times)/2]
	return l, nil
}

func (c *submitCluster) close() {
	for _, child := range []*Child{c.server, c.redis} {
		if child != nil {
			child.Kill()
		}
	}
}

// writeGrid writes a text and an experiment file that names it, and returns the file's path. Its
// grid has a seed for each cell, and the model of examples/dp-ftrl-small.yaml.
func writeGrid(dir string, cells int) (path string, err error) {
	source := filepath.Join(dir, "text.jsonl")
	if err := os.WriteFile(source, gridText(), 0o600); err != nil {
		return "", err
	}
	seeds := make([]string, cells)
	for i := range seeds {
		seeds[i] = fmt.Sprint(i + 1)
	}
	path = filepath.Join(dir, "grid.yaml")
	return path, os.WriteFile(path, fmt.Appendf(nil, `
name: bench-submit
data: {source: %q, vocabulary: {size: 2000}, users: {words: 400}, test: {fraction: 5%%}}
canaries: {per_configuration: 2, user_probability: [1/2000, 1/1000, 1/400], example_probability: [4%%, 20%%, 100%%]}
model: {embedding: 64, units: 128}
training: {epochs: 3, cohort: 10, chunks: 2, client: {learning_rate: 1}}
audit: {random_sampling: {references: 200000}, beam_search: {}}
grid: {axes: {seed: [%s]}}
`, source, strings.Join(seeds, ", ")), 0o600)
}

// gridText returns JSON lines of 250 users with 1.5 million words in sentences, about the size
// of the examples' text.
func gridText() []byte {
	var b bytes.Buffer
	for i := range 75_000 {
		fmt.Fprintf(&b, `{"user":"u%d","text":"`, i/300)
		for j := range 20 {
			fmt.Fprintf(&b, "w%d ", i*(i+j*j*j)%(20+i%7*1000))
		}
		b.WriteString(`"}` + "\n")
	}
	return b.Bytes()
}

// Print writes the result for people.
func (r *SubmitResult) Print(w io.Writer) {
	fmt.Fprintf(w, "a run of %d cells, %d tasks besides those of rounds\n\n", r.Cells, r.Nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tseconds\tCPU s\tresident\tpeak\t")
	fmt.Fprintf(t, "submit\t%.1f\t%.1f\t\t%s\t\n", r.Submit.Seconds, r.Submit.CPUSeconds, mebibytes(r.Submit.PeakBytes))
	fmt.Fprintf(t, "coordinator\t%.1f\t%.1f\t%s\t%s\t\n", r.TakenUp, r.Coordinator.CPUSeconds, mebibytes(r.Coordinator.ResidentBytes), mebibytes(r.Coordinator.PeakBytes))
	fmt.Fprintf(t, "  before\t\t\t%s\t\t\n\n", mebibytes(r.IdleBytes))
	_ = t.Flush() // a failed write to the terminal cannot be reported
	r.Lists.print(w, "list of runs")
	r.EndedLists.print(w, "after its end")
}

func (l *Lists) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%-13s  first %.0f ms, then %.1f ms (median), %s\n", name, l.FirstMS, l.MedianMS, mebibytes(int64(l.Bytes)))
}
