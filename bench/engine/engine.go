// Package engine measures the compute engine on this machine: training steps relative
// to the peak of the core, parallel workers, memory.
//
// A row is the median of several measurements. Before each measurement the core's peak is measured again
// (kernels.PeakGFLOPS: independent multiply-adds in registers), and a share of peak compares the two: on
// a shared machine the ratio is steadier than either. Work of one thread is timed by the processor time
// of that thread if the system reports it (Linux), so that the time of other programs does not count;
// two workers are timed by wall-clock time.
//
// Floating-point operations count only the matrix products, a multiply-add as two:
// models.Language.TrainingFLOPs for each predicted token. All other work, including exponentials, takes
// time but counts as no operations. (The recurrent product of a sentence's first token counts, as in
// every framework, although it is skipped because its operand is zero.)
package engine

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// Options select the measurements.
type Options struct {
	// Repeat is the number of measurements of each row; at least 1.
	Repeat int
	// Only names the rows to measure; empty means all.
	Only []string
	// Text is a file of JSON lines in the format of docs/data.md, the source of rows
	// with real sentences.
	Text string
	// Program is the path of a program whose command SlotCommand calls Slot, for the processes of the
	// row slots. If it is empty, the row is skipped.
	Program string
	// Price is the price of a core for an hour, in any currency; 0 means none. With it each row
	// of tokens has a cost.
	Price float64
	// Done, if set, is called with each row as soon as it is measured.
	Done func(Row)
}

// Report is the outcome of a benchmark.
type Report struct {
	// Kernels is the kernel set of rows that do not name another, Processors the
	// number of logical processors.
	Kernels    string `json:"kernels"`
	Processors int    `json:"processors"`
	Repeat     int    `json:"repeat"`
	// Price is Options.Price.
	Price float64 `json:"price,omitempty"`
	Rows  []Row   `json:"rows"`
	// Peers are shown for comparison in the printed table.
	Peers []*Peer `json:"-"`
}

// Row is one measured line. Figures that do not apply are 0 and absent from JSON.
type Row struct {
	Name string `json:"row"`
	// What describes the measurement in words.
	What string `json:"what"`
	// TokensPerSecond counts predicted tokens, which are also trained on except in
	// rows that only score; in rows with images it counts images.
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	// Cores is the number of cores used for TokensPerSecond; 0 stands for one.
	Cores int `json:"cores,omitempty"`
	// MillionCost is the price of a million tokens, in the currency of the report's price.
	MillionCost float64 `json:"million_tokens_cost,omitempty"`
	GFLOPS      float64 `json:"gflops,omitempty"`
	// OfPeak is GFLOPS as a share of one core's peak in the same moments.
	OfPeak float64 `json:"of_peak,omitempty"`
	// Ratio compares the row with the reference that What names.
	Ratio float64 `json:"ratio,omitempty"`
	// Share is a part of the whole that What names, from 0 to 1.
	Share float64 `json:"share,omitempty"`
	// Allocations per step, and Megabytes (10^6) of memory: pointers, because 0 is a valid figure.
	Allocations *float64 `json:"allocations,omitempty"`
	Megabytes   *float64 `json:"megabytes,omitempty"`
	// Seconds is the length of an audit.
	Seconds float64 `json:"seconds,omitempty"`
	// SequencesPerSecond counts ranked references. BruteForceGFLOPS is the rate that
	// scoring every word of each would need for the same time.
	SequencesPerSecond float64 `json:"sequences_per_second,omitempty"`
	BruteForceGFLOPS   float64 `json:"brute_force_gflops,omitempty"`
	// Goal is the goal of the row, in words, and Reached whether it was reached.
	Goal    string `json:"goal,omitempty"`
	Reached *bool  `json:"reached,omitempty"`
	// Skipped is the reason for which the row could not be measured.
	Skipped string `json:"skipped,omitempty"`
}

type measure func(ctx context.Context, b *bench, r *Row) error

// rows lists all rows, in the order of the table.
var rows = []struct {
	name, description string
	measure           measure
}{
	{"peak", "the core's peak: multiply-adds in registers", measurePeak},
	{"gemm", "matrix product, 512 x 512 x 512", measureGemm},
	{"training", "training step, paper's model (CIFG-LSTM, 10,004 words, 96, 670 units), batch 16 x 20", paper.measure},
	{"training-avx2", "the same by the AVX2 kernels", measureAVX2},
	{"sentences", "paper's model, whole sentences of one speaker, batch 16; ratio: to padding them to the batch's longest", measureSentences},
	{"sentences-cut", "the same, cut at 20 words as in training", measureCutSentences},
	{"lstm", "training step, LSTM of the paper's sizes, batch 16 x 20", lstm.measure},
	{"gru", "training step, GRU of the paper's sizes, batch 16 x 20", gru.measure},
	{"small", "training step, model of examples/dp-ftrl-small.yaml (2,004 words, 64, 128 units), batch 16 x 20", small.measure},
	{"characters", "training step, 2 layers of 200 LSTM units on 260 characters (The Secret Sharer), batch 16 x 100", characters.measure},
	{"classifier", "training step, classifier of images 28 x 28 (Augenstein et al. 2020), batch 32; tokens are images, here and below", imageStep{kind: models.CNN}.measure},
	{"discriminator", "training step, discriminator with gradient penalty on images 28 x 28 (the same paper), batch 32", imageStep{kind: models.GAN}.measure},
	{"generator", "training step, its generator, batch 32", imageStep{kind: models.GAN, generating: true}.measure},
	{"dp-sgd", "step of DP-SGD with RMSProp, paper's model, batch 16 x 20: norms, clipping and noise; ratio: to a plain step", paper.measurePrivate},
	{"dp-sgd-lstm", "the same, LSTM of the paper's sizes", lstm.measurePrivate},
	{"dp-sgd-gru", "the same, GRU of the paper's sizes", gru.measurePrivate},
	{"dp-sgd-small", "the same, model of the row small", small.measurePrivate},
	{"dp-sgd-bytes", "the same, 2 layers of 200 LSTM units on bytes (examples/secret-sharer-characters.yaml), batch 16 x 80", byteModel.measurePrivate},
	{"noise", "noise of a round of DP-FTRL by four buffers, paper's model, 50 clients of 16 sentences of 19 words; its share of the round", paper.measureNoise(50)},
	{"noise-small", "the same, model of examples/dp-ftrl-small.yaml and as many clients as there, 10", small.measureNoise(10)},
	{"canaries", "following 1,000 canary clients and as many unseen directions, paper's model; its share of a round of 500 clients of 2,000 words, of which a small one is timed", paper.measureFollowing(500)},
	{"canaries-50", "the same, of a round of 50 clients", paper.measureFollowing(50)},
	{"two-workers", "two trainers on two cores; ratio: to one", measureTwoWorkers},
	{slotsRow, "tasks of clients, paper's model, on all cores: slots of one process; ratio: to as many processes of one slot", measureSlots},
	{"allocations", "allocations of a training step, paper's model", measureAllocations},
	{"scoring-whole", "scoring word after word of 480 sequences over the full softmax, paper's model: no bound, nothing shared", measureWholeScoring},
	{"token-scores", "scores of users of 40 sentences for all membership attacks by one scoring and the compression of their texts, paper's model; ratio: to the losses alone, whose rate stands here", paper.measureTokenScores},
	{"token-scores-small", "the same, model of the row small", small.measureTokenScores},
	{"token-scores-tiny", "the same, model of examples/membership.yaml (2,004 words, 32, 64 units)", tiny.measureTokenScores},
	{"scoring", "exact rank of one canary among 2,000,000 references, paper's model, untrained; ratio: to scoring them whole at peak; measured once", measureScoring},
	{"audit-untrained", "random sampling of 90 canaries, paper's model, untrained, on all processors; measured once", measureAudit("untrained")},
	{"audit-trained", "the same, trained for a minute until some canaries are memorized", measureAudit("trained")},
	{"search", "nodes of a shortest-path search expanded 1,000 at once, 2 layers of 200 LSTM units on bytes, untrained; ratio: to one at a time", measureSearch},
	{"sampling", "100,000 sentences of 10 words, paper's model, untrained, on all processors; measured once", measureSampling},
	{"memory", "memory of a clients task above its model and gradient, paper's model, batch 16 x 20", measureMemory},
	{"memory-gan", "memory of a clients task of two clients, model included, GAN of the row discriminator, batch 32", measureGANMemory},
}

// Names lists the rows.
func Names() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return names
}

// Validate returns an error for invalid options.
func (o Options) Validate() error {
	if o.Repeat < 1 {
		return fmt.Errorf("repeat %d: want at least 1", o.Repeat)
	}
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("no row %q: want some of %s", name, strings.Join(Names(), ", "))
		}
	}
	if !(o.Price >= 0) || math.IsInf(o.Price, 0) {
		return fmt.Errorf("price %v: want the price of a core for an hour, such as 0.04", o.Price)
	}
	return nil
}

// Run measures. It uses the current kernel set, and temporarily others; no other code
// of the process should compute meanwhile.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := &bench{Options: o}
	report := &Report{Kernels: kernels.Set(), Processors: runtime.NumCPU(), Repeat: o.Repeat, Price: o.Price}
	for _, r := range rows {
		if len(o.Only) > 0 && !slices.Contains(o.Only, r.name) {
			continue
		}
		row := Row{Name: r.name, What: r.description}
		if err := r.measure(ctx, b, &row); err != nil {
			return nil, fmt.Errorf("row %s: %w", r.name, err)
		}
		row.MillionCost = o.millionCost(row)
		report.Rows = append(report.Rows, row)
		if o.Done != nil {
			o.Done(row)
		}
	}
	return report, nil
}

// millionCost returns the price of a million of the row's tokens, 0 without a price or a rate.
func (o Options) millionCost(r Row) float64 {
	if r.TokensPerSecond == 0 {
		return 0
	}
	coreHours := float64(max(r.Cores, 1)) / time.Hour.Seconds()
	return o.Price * coreHours * 1e6 / r.TokensPerSecond
}

type bench struct {
	Options
	subjects []Subject // models to audit, nil until made
}

// peakTime is the duration of a peak measurement.
const peakTime = 3 * time.Millisecond

// job is work of one thread, with its numbers of operations and predicted tokens.
type job struct {
	flops  float64
	tokens int
	run    func() error
}

// rates measures a job and sets the row's medians; other, unless nil, is work for
// comparison. Both run once before, to warm up.
func (b *bench) rates(ctx context.Context, r *Row, j job, other func() error) error {
	s := new(samples)
	for i := range b.Repeat + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i == 1 {
			s = new(samples)
		}
		if err := s.take(j, other); err != nil {
			return err
		}
	}
	r.GFLOPS, r.OfPeak = median(s.rates), median(s.shares)
	r.TokensPerSecond = float64(j.tokens) * r.GFLOPS * 1e9 / j.flops
	if other != nil {
		r.Ratio = median(s.ratios)
	}
	return nil
}

// samples are measurements of one job.
type samples struct{ rates, shares, ratios []float64 }

func (s *samples) take(j job, other func() error) error {
	peak := kernels.PeakGFLOPS(peakTime)
	seconds, err := timed(j.run)
	if err != nil {
		return err
	}
	rate := j.flops / seconds / 1e9
	s.rates, s.shares = append(s.rates, rate), append(s.shares, rate/peak)
	if other == nil {
		return nil
	}
	longer, err := timed(other)
	s.ratios = append(s.ratios, longer/seconds)
	return err
}

var start = time.Now()

// timed returns the thread time of work. The caller must lock its thread.
func timed(work func() error) (seconds float64, err error) {
	begin := threadTime()
	err = work()
	return (threadTime() - begin).Seconds(), err
}

func clocked(work func() error) (seconds float64, err error) {
	begin := time.Now()
	err = work()
	return time.Since(begin).Seconds(), err
}

// median sorts x, which is not empty, and returns its median.
func median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

func (r *Row) goal(reached bool, words string) { r.Goal, r.Reached = words, &reached }

func measurePeak(_ context.Context, b *bench, r *Row) error {
	peaks := make([]float64, b.Repeat)
	for i := range peaks {
		peaks[i] = kernels.PeakGFLOPS(10 * peakTime)
	}
	r.GFLOPS, r.OfPeak = median(peaks), 1
	return nil
}

func measureGemm(ctx context.Context, b *bench, r *Row) error {
	const n = 512
	x, y, z := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for i := range x { // unwritten memory is a single page, which reads slower than real matrices
		x[i], y[i] = float32(i%7), float32(i%5)
	}
	return b.rates(ctx, r, job{flops: 2 * n * n * n, run: func() error {
		kernels.Gemm(false, true, n, n, n, 1, x, n, y, n, 0, z, n)
		return nil
	}}, nil)
}

// Print writes the rows as a table, with the peers' measurements.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "kernels %s, %d processors, medians of %d\n\n", r.Kernels, r.Processors, r.Repeat)
	r.printTable(w)
	fmt.Fprintln(w)
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s: %s\n", row.Name, row.What)
	}
	for i, p := range r.Peers {
		fmt.Fprintf(w, "peer %d: %s\n", i+1, p.Name)
	}
	if r.Price != 0 {
		fmt.Fprintf(w, "cost of a million: of tokens, or images, at %v for an hour of a core\n", r.Price)
	}
}

func (r *Report) printTable(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	fmt.Fprint(t, "row\ttokens/s\tGFLOP/s\t% of peak\tother\tgoal\treached\t")
	if r.Price != 0 {
		fmt.Fprint(t, "cost of a million\t")
	}
	for i := range r.Peers {
		fmt.Fprintf(t, "times peer %d\t", i+1)
	}
	fmt.Fprintln(t)
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t", row.Name, figure("%.0f", row.TokensPerSecond), figure("%.1f", row.GFLOPS),
			figure("%.1f", 100*row.OfPeak), row.other(), row.Goal, row.reached())
		if r.Price != 0 {
			fmt.Fprintf(t, "%s\t", figure("%.3g", row.MillionCost))
		}
		for _, p := range r.Peers {
			fmt.Fprintf(t, "%s\t", row.timesPeer(p))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
}

func figure(format string, value float64) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf(format, value)
}

// other returns the figure that only a few rows have.
func (r *Row) other() string {
	switch {
	case r.Skipped != "":
		return "not measured: " + r.Skipped
	case r.BruteForceGFLOPS != 0:
		return fmt.Sprintf("%.1f s, by brute force %.0f GFLOP/s", r.Seconds, r.BruteForceGFLOPS)
	case r.Seconds != 0:
		return fmt.Sprintf("%.0f s", r.Seconds)
	case r.Ratio != 0:
		return fmt.Sprintf("%.2f times", r.Ratio)
	case r.Share != 0:
		return fmt.Sprintf("%.1f%%", 100*r.Share)
	case r.Allocations != nil:
		return fmt.Sprintf("%.0f allocations", *r.Allocations)
	case r.Megabytes != nil:
		return fmt.Sprintf("%.1f MB", *r.Megabytes)
	}
	return ""
}

func (r *Row) reached() string {
	switch {
	case r.Reached == nil:
		return ""
	case *r.Reached:
		return "yes"
	}
	return "no"
}
