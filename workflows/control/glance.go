package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/internal/goroutines"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/retention"
	"coalmine/workflows/runs/status"
)

// The requests of a glance are bounded, so that a status takes little time for any number of runs, cells
// and rounds. About twenty records determine the progress of a training.
const (
	glanceCells     = 32
	glanceQuestions = 40 * glanceCells
)

// glance reads from storage the progress of runs that no coordinator reports. It lists no objects.
type glance struct {
	archive *storage.Archive
	cells   int // remaining number of cells to look up
	left    atomic.Int64

	mu     sync.Mutex
	newest time.Time // newest commit of the current run, zero before the first
}

func (l *Local) glance() *glance {
	g := &glance{archive: l.archive, cells: glanceCells}
	g.left.Store(glanceQuestions)
	return g
}

// at sets the progress of the first cells of an unfinished run, those of spec, from storage. It returns a
// text about the coverage. spec is nil if it cannot be read.
func (g *glance) at(ctx context.Context, spec *experiment.Spec, s *status.Run) string {
	if spec == nil {
		return "its progress is unknown, because its experiment cannot be read"
	}
	open := openCells(s.Cells)
	some := openCells(s.Cells[:len(spec.Cells)])
	some = some[:min(len(some), g.cells)]
	g.cells -= len(some)
	g.newest = time.Time{}
	err := g.lookAt(ctx, spec, s.Cells, some)
	s.FromStorage = err == nil
	if s.FromStorage {
		s.LastProgress, s.AgeSeconds = g.newest, ageOf(g.newest, time.Now())
	}
	switch {
	case err != nil:
		return fmt.Sprintf("its progress could not be read from storage: %v", err)
	case len(some) < len(open):
		return fmt.Sprintf("progress read from storage for %d of its %d open cells", len(some), len(open))
	}
	return "progress read from storage"
}

// statusOf returns the status of one run, with the progress if it is cancelled. Reading that progress takes
// too long for every run of a list.
func (l *Local) statusOf(ctx context.Context, run *runs.Run, record *recorded) *status.Run {
	glance := l.glance()
	s := l.status(ctx, run, record, glance)
	if s.Phase == runs.Cancelled && record.head != nil {
		glance.cancelled(ctx, record.head, s)
	}
	return s
}

// cancelled reads the progress of the first cells of a cancelled run, those of spec, and marks finished
// ones as done. If the read fails, it changes nothing.
func (g *glance) cancelled(ctx context.Context, spec *experiment.Spec, s *status.Run) {
	cells := slices.Clone(s.Cells)
	open := openCells(cells[:len(spec.Cells)])
	if g.lookAt(ctx, spec, cells, open[:min(len(open), g.cells)]) != nil {
		return
	}
	for i := range cells {
		if cells[i].Phase == runs.Running {
			cells[i].Phase = runs.Cancelled
		}
	}
	s.Cells = cells
}

// ageOf returns status.Run.AgeSeconds. It is 0 for the zero time.
func ageOf(newest, now time.Time) int64 {
	if newest.IsZero() {
		return 0
	}
	age := max(0, now.Sub(newest))
	unit := time.Hour
	if age < unit {
		unit = time.Minute
	}
	return int64(age.Truncate(unit).Seconds())
}

// openCells returns the indexes of the cells without an outcome in the run's record.
func openCells(cells []status.Cell) []int {
	var open []int
	for i := range cells {
		if p := cells[i].Phase; p == runs.Queued || p == runs.Cancelled {
			open = append(open, i)
		}
	}
	return open
}

// lookAt sets the progress of the given open cells.
func (g *glance) lookAt(ctx context.Context, spec *experiment.Spec, cells []status.Cell, open []int) error {
	if len(open) == 0 {
		return nil
	}
	part := *spec
	part.Cells = lists.Map(open, func(i int) experiment.Cell { return spec.Cells[i] })
	p, err := compile.Plan(&part)
	if err != nil {
		return err
	}
	seen, err := g.see(ctx, p)
	if err != nil {
		return err
	}
	for k := range p.Cells {
		c, s := &p.Cells[k], &cells[open[p.Cells[k].Index]]
		s.Step = c.RoundsDone(seen.step(c), seen.nodes[c.Model.Key])
		switch {
		case seen.available(c.Report) && seen.available(c.Model):
			s.Phase = runs.Done
		case s.Step > 0:
			s.Phase = runs.Running
		}
	}
	return nil
}

// seen is the state of the targets of cells in storage.
type seen struct {
	nodes  map[storage.Key]bool             // available standing nodes
	chains map[storage.Key]plan.StoredChain // by recipe
}

// step returns the last step from which the cell's training can continue.
func (x *seen) step(c *plan.Cell) int {
	step := 0
	if c.Chain != nil {
		for _, s := range x.chains[c.Chain.Recipe].Checkpoints { // ascending
			if s <= c.ChainSteps() {
				step = s
			}
		}
	}
	return step
}

func (x *seen) available(r plan.Ref) bool {
	if r.Chain == nil {
		return x.nodes[r.Key]
	}
	return slices.Contains(x.chains[r.Chain.Recipe].Checkpoints, r.Step)
}

// see looks up the targets of a plan's cells.
func (g *glance) see(ctx context.Context, p *plan.Plan) (*seen, error) {
	nodes, goals := targets(p)
	x := &seen{nodes: nodes, chains: make(map[storage.Key]plan.StoredChain)}
	var mu sync.Mutex // guards x
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(lookupsAtOnce)
	for _, key := range plan.SortedKeys(nodes) {
		group.Go(func() error {
			found, err := g.lookUp(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			x.nodes[key] = found.Available()
			return err
		})
	}
	for _, recipe := range plan.SortedKeys(goals) {
		group.Go(func() error {
			chain := p.Chains[recipe]
			surveyor := plan.Surveyor{LookUp: g.lookUp, Has: g.has, Chain: chain, Kept: retention.ClaimOf(chain).StepsKept}
			found, err := surveyor.Survey(ctx, chain.Steps, goals[recipe])
			mu.Lock()
			defer mu.Unlock()
			x.chains[recipe] = found
			return err
		})
	}
	return x, group.Wait()
}

// targets returns the outputs that the cells of a plan want: standing nodes by key, and steps of chains by recipe.
func targets(p *plan.Plan) (nodes map[storage.Key]bool, goals map[storage.Key][]int) {
	nodes, goals = make(map[storage.Key]bool), make(map[storage.Key][]int)
	for i := range p.Cells {
		c := &p.Cells[i]
		for _, r := range []plan.Ref{c.Report, c.Model} {
			if r.Chain == nil {
				nodes[r.Key] = false
			}
		}
		if c.Chain != nil {
			goals[c.Chain.Recipe] = append(goals[c.Chain.Recipe], c.ChainSteps())
		}
	}
	return nodes, goals
}

// errTooLong reports that a glance has made its maximum number of requests.
var errTooLong = errors.New("too many outputs are missing for a quick look; a coordinator finds its progress")

func (g *glance) ask() error {
	if g.left.Add(-1) < 0 {
		return errTooLong
	}
	return nil
}

func (g *glance) lookUp(ctx context.Context, key storage.Key) (plan.Stored, error) {
	if err := g.ask(); err != nil {
		return plan.Stored{}, err
	}
	found, err := plan.LookUp(ctx, g.archive, key)
	if found.Commit != nil {
		g.note(found.Commit.Provenance)
	}
	return found, err
}

// note records the time of a commit.
func (g *glance) note(p storage.Provenance) {
	made := p.Started.Add(time.Duration(p.Seconds * float64(time.Second)))
	g.mu.Lock()
	defer g.mu.Unlock()
	if made.After(g.newest) {
		g.newest = made
	}
}

func (g *glance) has(ctx context.Context, key storage.Key) (bool, error) {
	if err := g.ask(); err != nil {
		return false, err
	}
	return g.archive.HasCommit(ctx, key)
}
