// This file compares slots of one process with as many processes of one slot. Both execute the same tasks of
// training/clients, which read a model, train from it and encode an update, as in a worker.

package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"coalmine/internal/kernels"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/training"
)

const (
	// SlotCommand is the command of Options.Program that calls Slot.
	SlotCommand = "slot"
	slotsRow    = "slots"
)

// slotsExperiment trains four clients of a batch each with the paper's model, in one task.
const slotsExperiment = `
name: bench-slots
data: {source: synthetic, vocabulary: {size: 10_000}, users: {words: 304}}
model: {kind: cifg-lstm, embedding: 96, units: 670}
training: {algorithm: fedavg, rounds: 1, cohort: 4, chunks: 1, client: {batch: 16}}
`

const (
	// slotTokens is the number of targets of a task: 20 in each of a client's 16 sentences of 19 words.
	slotTokens = 4 * 16 * 20
	// tasksPerTurn keeps a slot busy so long that its start is negligible.
	tasksPerTurn = 3
	// slotsShare is the least speed of slots, as a share of the speed of processes.
	slotsShare = 0.97
)

// slot executes one task at a time.
type slot struct {
	spec   tasks.Spec
	source tasks.Source
}

func newSlot(ctx context.Context) (*slot, error) {
	chain, source, err := reachFirstRound(ctx, slotsExperiment, memoryText())
	if err != nil {
		return nil, err
	}
	return &slot{chain.PartSpec(1, 0), source}, nil
}

// turn executes the task tasksPerTurn times.
func (s *slot) turn(ctx context.Context) error {
	for range tasksPerTurn {
		task := tasks.NewTask(s.spec, s.source, discard{}, nil, func(tasks.Progress) {})
		if err := training.Clients.Run(ctx, task); err != nil {
			return err
		}
	}
	return nil
}

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) Put(context.Context, string, []byte, storage.Durability) error { return nil }

// turnLine requests a turn from a process. A process sends it back after the turn, and once when it has
// started.
const turnLine = "turn\n"

// Slot runs a process of one slot. It writes a line when it is ready, executes a turn of tasks for each line
// of input, and answers each turn with a line.
func Slot(ctx context.Context, in io.Reader, out io.Writer) error {
	s, err := newSlot(ctx)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for more := true; more; more = lines.Scan() {
		if err := s.turn(ctx); err != nil { // the first one warms up
			return err
		}
		if _, err := io.WriteString(out, turnLine); err != nil {
			return err
		}
	}
	return lines.Err()
}

// measureSlots times turns of all slots and of all processes, one after the other.
func measureSlots(ctx context.Context, b *bench, r *Row) error {
	n := runtime.GOMAXPROCS(0)
	switch {
	case n < 2:
		r.Skipped = "needs two processors"
		return nil
	case b.Program == "":
		r.Skipped = "no program to start"
		return nil
	}
	slots, err := newSlots(ctx, n)
	if err != nil {
		return err
	}
	processes, err := startProcesses(ctx, b.Program, n)
	defer func() { processes.stop() }()
	if err != nil {
		return err
	}
	var ratios, rates []float64
	for range b.Repeat {
		if err := ctx.Err(); err != nil {
			return err
		}
		within, err := clocked(func() error { return slots.turn(ctx) })
		if err != nil {
			return err
		}
		apart, err := clocked(processes.turn)
		if err != nil {
			return err
		}
		ratios = append(ratios, apart/within)
		rates = append(rates, float64(n*tasksPerTurn*slotTokens)/within)
	}
	r.Ratio, r.TokensPerSecond, r.Cores = median(ratios), median(rates), n
	r.goal(r.Ratio >= slotsShare, fmt.Sprintf("%.2f times", slotsShare))
	return nil
}

// slots are the slots of this process.
type slots []*slot

// newSlots returns n slots that have executed a turn.
func newSlots(ctx context.Context, n int) (slots, error) {
	all := make(slots, n)
	for i := range all {
		var err error
		if all[i], err = newSlot(ctx); err != nil {
			return nil, err
		}
	}
	return all, all.turn(ctx)
}

func (all slots) turn(ctx context.Context) error {
	var group errgroup.Group
	for _, s := range all {
		group.Go(func() error { return s.turn(ctx) })
	}
	return group.Wait()
}

// process is a running Slot.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *bytes.Buffer
}

type processes []*process

// startProcesses starts n processes, each with one processor and the kernels of this one, and awaits their
// first turn. The started ones are returned even with an error.
func startProcesses(ctx context.Context, program string, n int) (all processes, err error) {
	for range n {
		p := &process{cmd: exec.CommandContext(ctx, program, SlotCommand), stderr: new(bytes.Buffer)}
		p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1", kernels.Environment+"="+kernels.Set())
		p.cmd.Stderr = p.stderr
		stdout, err := p.cmd.StdoutPipe()
		if err != nil {
			return all, err
		}
		p.stdout = bufio.NewReader(stdout)
		if p.stdin, err = p.cmd.StdinPipe(); err != nil {
			return all, err
		}
		if err := p.cmd.Start(); err != nil {
			return all, fmt.Errorf("starting a slot: %w", err)
		}
		all = append(all, p)
	}
	return all, all.await()
}

func (all processes) turn() error {
	for _, p := range all {
		if _, err := io.WriteString(p.stdin, turnLine); err != nil {
			return p.failure(err)
		}
	}
	return all.await()
}

// await reads the answer of each process.
func (all processes) await() error {
	for _, p := range all {
		if line, err := p.stdout.ReadString('\n'); err != nil {
			return p.failure(err)
		} else if line != turnLine {
			return p.failure(fmt.Errorf("it printed %q, expected %q", line, turnLine))
		}
	}
	return nil
}

func (p *process) failure(err error) error {
	_ = p.stdin.Close()
	return fmt.Errorf("%s: %w: %s", strings.Join(p.cmd.Args, " "), errors.Join(err, p.cmd.Wait()), bytes.TrimSpace(p.stderr.Bytes()))
}

func (all processes) stop() {
	for _, p := range all {
		_ = p.stdin.Close() // the process ends with its input; failure may have closed it
		_ = p.cmd.Wait()
	}
}
