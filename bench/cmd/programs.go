package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coalmine/bench/cluster"
	"coalmine/bench/engine"
	"coalmine/internal/kernels"
	"coalmine/models/attacks"
)

func newSubmit(o *output) *cobra.Command {
	options, program := cluster.SubmitOptions{Note: o.note}, ""
	c := &cobra.Command{
		Use:   "submit [FILE]",
		Short: "Cost of submitting a large grid",
		Long: `Submit a grid to a cluster without workers, and print what that costs: the time and
memory of the command, those of the coordinator that takes the run up, and how long
the list of runs takes while it waits and after it was cancelled.

The grid is that of FILE, or one of --cells seeds of a small experiment with audits:
cells that have no task in common but to import their text. It starts a redis-server
from PATH and keeps its store in a temporary directory. --program measures another
build, such as an older one.`,
		Example: "  go run ./bench/cmd submit --cells 10000",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				options.File = args[0]
			}
			return withProgram(c.Context(), program, func(path string) error {
				options.Program = path
				return o.show(cluster.RunSubmit(c.Context(), options))
			})
		},
	}
	f := c.Flags()
	f.IntVar(&options.Cells, "cells", 1000, "cells of the grid if no file is named")
	f.IntVar(&options.Lists, "lists", 20, "how often the list of runs is asked for")
	addProgram(c, &program)
	return c
}

func addProgram(c *cobra.Command, program *string) {
	c.Flags().StringVar(program, "program", "", "path of the coalmine to measure (default: a build of this source tree)")
}

func newPlan(o *output) *cobra.Command {
	program, settings := "", []string(nil)
	c := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Time that coalmine plan predicts beside the time that experiments take",
		Long: `Plan and run experiments, each in a temporary directory of its own, and print the time
that "coalmine plan" predicts beside the one that the run takes, by the clock and of all
cores together: that of the run's process and of the programs that it starts. On a machine
that also does other work only the latter compares; the factor is how many times too low
or too high it is. --set makes a long experiment shorter.`,
		Example: "  go run ./bench/cmd plan examples/ci-gate.yaml examples/carlini-2019/table1-small.yaml\n  go run ./bench/cmd plan examples/dp-ftrl-small.yaml --set training.rounds=100",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			return withProgram(c.Context(), program, func(path string) error {
				var rows cluster.ForecastRows
				for _, file := range files {
					row, err := cluster.RunForecast(c.Context(), path, file, settings)
					if err != nil {
						return err
					}
					o.note("%s: factor %.2f", file, row.Factor())
					rows = append(rows, row)
				}
				return o.show(rows, nil)
			})
		},
	}
	c.Flags().StringArrayVar(&settings, "set", nil, "set a field of the experiments, such as training.rounds=100; may be repeated")
	addProgram(c, &program)
	return c
}

func newClients(o *output) *cobra.Command {
	options, config := engine.ClientsOptions{}, ""
	c := &cobra.Command{
		Use:   "clients",
		Short: "Overhead of clients that a program trains",
		Long: `Have a program train clients by the contract "client" (docs/contracts/client.md), and print
what that costs beside the program's own loop: from a user's examples to the update in the
sum, with the parameters' way to the program and back. The program tells the seconds of its
loop by the metric "seconds" of fit; clients/python/examples/paper_lstm.py does, with a model
of the paper's size.`,
		Example: `  go run ./bench/cmd clients --command "python3 clients/python/examples/paper_lstm.py"`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var block map[string]any
			if json.Unmarshal([]byte(config), &block) != nil || block == nil {
				return fmt.Errorf("--config %s: expected a JSON object, such as {\"batch\": 16}", config)
			}
			options.Config = json.RawMessage(config)
			return o.show(engine.RunClients(c.Context(), options))
		},
	}
	f := c.Flags()
	f.StringVar(&options.Command, "command", "", "the program, as the system's shell reads it")
	f.StringVar(&config, "config", `{"batch": 16}`, "training.job of an experiment file, as a JSON object")
	f.IntVar(&options.Words, "words", 10_000, "words of the vocabulary")
	f.IntVar(&options.Examples, "examples", 320, "examples of a user: 20 batches of 16")
	f.IntVar(&options.Length, "length", 20, "words of an example")
	f.IntVar(&options.Clients, "clients", 6, "measured clients, after a first one that is not measured")
	if err := c.MarkFlagRequired("command"); err != nil {
		panic(err)
	}
	return c
}

func newEngine(o *output) *cobra.Command {
	options, set, peers := engine.Options{}, "", []string{}
	c := &cobra.Command{
		Use:   "engine",
		Short: "Speed of training steps and audits, as a share of the core's peak",
		Long: `Measure the compute engine, each row several times, and print the medians. Before
each measurement the core's peak is measured anew: multiply-adds in registers, as
fast as the kernels in use can issue them. GFLOP/s counts the operations of matrix
products alone, a multiply-add as two, three products for each of the forward
pass; exponentials, sums and copies take time and count as nothing.

The last rows audit models that are trained for it first: they take some minutes
and are measured once.

The row slots runs as many tasks of clients at a time as there are cores: in slots of
one process, and in processes of one slot each, which it starts.

--peer names the result of another program on the same rows; bench/pytorch/README.md says
how to make one of PyTorch. Each peer gets a column, and each row that a peer has is
followed, at the end, by a row best-peer-ROW: the speed of the fastest peer, and by how
many times this engine is faster.

--price is the price of a core for an hour. It adds a column with the cost of a million
tokens, of cores that are busy all the time: at 0.04 and 10,000 tokens/s of one core that
is 0.04 / 3,600 s x 100 s = 0.00111.

Close other programs first: on a busy machine all figures are lower, the shares
of peak least.

Rows: ` + strings.Join(engine.Names(), ", ") + ".",
		Example: `  go run ./bench/cmd engine --only training,slots --price 0.04
  COALMINE_KERNELS=avx2 go run ./bench/cmd engine --json > avx2.json
  /usr/bin/python3 bench/pytorch/pytorch.py > peer.json && go run ./bench/cmd engine --only training,lstm --peer peer.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if options.Program, err = os.Executable(); err != nil {
				return err
			}
			options.Done = func(r engine.Row) { o.note("%s: done", r.Name) }
			return o.show(runEngine(c.Context(), options, set, peers))
		},
	}
	f := c.Flags()
	f.IntVar(&options.Repeat, "repeat", 11, "measurements of each row")
	f.StringSliceVar(&options.Only, "only", nil, "rows to measure, separated by commas")
	f.StringVar(&options.Text, "text", "examples/data/state-of-the-union.jsonl.gz", "JSON lines for the rows with real sentences")
	f.StringVar(&set, "kernels", "", "kernel set: avx512, avx2 or go (default: the fastest that the processor runs)")
	f.Float64Var(&options.Price, "price", 0, "price of a core for an hour, in any currency: print the cost of a million tokens")
	f.StringSliceVar(&peers, "peer", nil, "JSON files of bench/pytorch/pytorch.py to compare with")
	return c
}

// newSlot is a process of the row slots of engine.
func newSlot() *cobra.Command {
	return &cobra.Command{
		Use:    engine.SlotCommand,
		Short:  "A slot for engine, until its standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return engine.Slot(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	}
}

func runEngine(ctx context.Context, o engine.Options, set string, paths []string) (*engine.Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	peers := make([]*engine.Peer, len(paths))
	for i, path := range paths {
		var err error
		if peers[i], err = engine.ReadPeer(path); err != nil {
			return nil, err
		}
	}
	if set != "" {
		restore, err := kernels.ForceSet(set)
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	report, err := engine.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	report.Compare(peers)
	return report, nil
}

const scaleRounds = 10_000

func newQueue(o *output) *cobra.Command {
	var training cluster.Training
	var scaled bool
	options := cluster.Options{Note: o.note}
	c := &cobra.Command{
		Use:   "queue",
		Short: "Overhead of queue, coordinator and store",
		Long: `Train a tiny model for some rounds twice: in one plain loop in memory, and
through the queue, the coordinator, a worker and the store. The difference is the
overhead of the machinery. Embedded in a temporary directory, or on --redis and
--store if they are given.

With --scale, tasks that do nothing show how far the machinery goes: how many of
them it carries in a second over --slots slots, how long each of --rounds rounds
takes and what it costs the coordinator, the first thousand against the last, what
idle processes cost, and how soon a coordinator goes on with --cells trainings that
were interrupted near their end. It starts --processes workers, and a redis-server
from PATH unless --redis names an empty Redis. Records are kept in memory, and on
disk for the last measurement, unless --store names a store.`,
		Example: "  go run ./bench/cmd queue\n  go run ./bench/cmd queue --scale --slots 100 --measure tasks,rounds",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			options.Log = o.log()
			if !scaled {
				return o.show(cluster.RunOverhead(c.Context(), training, options.Redis, options.Store, options.Log))
			}
			if options.Program, err = os.Executable(); err != nil {
				return err
			}
			options.Rounds, options.Chunks = training.Rounds, training.Chunks
			if !c.Flags().Changed("rounds") {
				options.Rounds = scaleRounds
			}
			return o.show(cluster.Run(c.Context(), options))
		},
	}
	f := c.Flags()
	f.StringVar(&options.Redis, "redis", "", "URL of a Redis; with --scale an empty one")
	f.StringVar(&options.Store, "store", "", "store to work in: a directory or an s3:// URL")
	f.IntVar(&training.Rounds, "rounds", 200, fmt.Sprintf("rounds to measure; with --scale %d", scaleRounds))
	f.IntVar(&training.Chunks, "chunks", 4, "tasks that a round's cohort is split into")
	f.BoolVar(&scaled, "scale", false, "measure with tasks that do nothing, over processes and a real Redis")
	f.IntVar(&options.Slots, "slots", 1000, "with --scale: tasks that run at once, over all processes")
	f.IntVar(&options.Processes, "processes", 4, "with --scale: worker processes")
	f.IntVar(&options.Tasks, "tasks", 100_000, "with --scale: tasks for the rate")
	f.IntVar(&options.Cells, "cells", 20, "with --scale: trainings of --rounds rounds to take up")
	f.StringSliceVar(&options.Measure, "measure", cluster.Measurements, "with --scale: measurements to make")
	f.DurationVar(&options.Idle, "idle", 5*time.Second, "with --scale: how long idle processes are watched")
	return c
}

func newIdleWorker(o *output) *cobra.Command {
	slots := 1
	c := &cobra.Command{
		Use:    cluster.WorkerCommand,
		Short:  "A worker for queue --scale, until its standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return cluster.Work(c.Context(), c.InOrStdin(), slots, o.log())
		},
	}
	c.Flags().IntVar(&slots, "slots", slots, "tasks at a time")
	return c
}

func newAttacks(o *output) *cobra.Command {
	options, kind := attackOptions{}, string(attacks.MLP)
	c := &cobra.Command{
		Use:   "attacks",
		Short: "Time and memory of attacks on recorded updates",
		Long: `Train an attack of audit.deanonymization on updates that are made up, and print its time
and memory. The updates stand in no store: each shard is made when it is
read. The time is that of one task, with what it reads twice before its training and what it
scores; the difference between two numbers of epochs is that of the epochs.`,
		Example: "  go run ./bench/cmd attacks --updates 100000 --values 50000 --epochs 5",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			options.Attack = attacks.Kind(kind)
			return o.show(runAttack(c.Context(), options))
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "attack", kind, "mlp, svm, knn or cosine")
	f.IntVar(&options.Updates, "updates", 10_000, "updates of shadow devices")
	f.IntVar(&options.Values, "values", 50_000, "values of each")
	f.IntVar(&options.Users, "users", 118, "users, one device of each in every round")
	f.IntVar(&options.Epochs, "epochs", 1, "epochs of the training")
	f.IntVar(&options.Memory, "memory", 1024, "MiB of updates in memory at once")
	return c
}

func newCoverage(o *output) *cobra.Command {
	draws, fewDraws, simulated, seed, boundsOnly := 2000, 400, 500, uint64(1), false
	c := &cobra.Command{
		Use:   "coverage",
		Short: "How often intervals and bounds contain the truth",
		Long: `Three tables. The first: make up results of replicates whose truth is known, and print how often the 95% intervals
contain it: those of Student's t of means and of differences between rows, those of Korn and
Graubard of pooled counts, and the sign test. Rows without a goal violate the assumptions of
an interval, and show the effect.

The second: make up data of 1, 2, 3, 5, 10 and 30 users (or canaries, sentences, seeds), where
there is nothing to find, something, and nearly all, for every quantity that is printed with an
interval, and print how often the interval has the truth in it, and how often it lies wholly above
the truth: at no effect, the false alarms of a gate at chance. It takes about five minutes.

The third: simulate privacy audits of mechanisms of known privacy, and print how often each lower
bound is at most the truth. --bounds-only prints it alone, in half a minute.`,
		Example: "  go run ./bench/cmd coverage --draws 20000 --few-draws 2000\n  go run ./bench/cmd coverage --bounds-only --audits 500",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if min(draws, fewDraws, simulated) < 1 {
				return fmt.Errorf("--draws %d, --few-draws %d, --audits %d; expected at least 1", draws, fewDraws, simulated)
			}
			var report CoverageReport
			if !boundsOnly {
				report.Rows, report.Few = RunCoverage(draws, seed), RunFew(fewDraws, seed, FewUsers, append(quantities(), sparse()...))
			}
			var err error
			report.Bounds, err = RunBounds(simulated, seed)
			return o.show(&report, err)
		},
	}
	f := c.Flags()
	f.IntVar(&draws, "draws", draws, "studies that are made up for each line")
	f.IntVar(&fewDraws, "few-draws", fewDraws, "intervals over few users that are made up for each number of the second table")
	f.IntVar(&simulated, "audits", simulated, "audits that are simulated for each number of the third table")
	f.BoolVar(&boundsOnly, "bounds-only", false, "print the third table alone")
	f.Uint64Var(&seed, "seed", seed, "seed of all draws")
	return c
}
