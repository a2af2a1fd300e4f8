package main

import (
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/kernels"
	"coalmine/workflows/forecast"
)

// machineSpeed is the arithmetic speed of this machine, from which plan predicts times.
type machineSpeed struct {
	Cores int `json:"cores"`
	// GFLOPS is the measured peak of a core, and Used the fraction of it that plan assumes in training.
	GFLOPS  float64 `json:"core_gflops"`
	Used    float64 `json:"used"`
	Kernels string  `json:"kernels"`
}

func measureSpeed() machineSpeed {
	return machineSpeed{runtime.GOMAXPROCS(0), kernels.PeakGFLOPS(100 * time.Millisecond), forecast.TrainingEfficiency, kernels.Set()}
}

func newBenchCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "bench",
		Short: "Measure the arithmetic speed of this machine",
		Long: `Print the cores of this machine, the kernel set in use (avx512, avx2 or go;
COALMINE_KERNELS selects another) and the measured peak of a core. "coalmine plan"
predicts times from the same measurement.

Close other programs first: they lower the peak. The benchmarks of the code are in
the source tree; "go run ./bench/cmd --help" lists them.`,
		Example: "  coalmine bench",
		RunE: func(*cobra.Command, []string) error {
			m := measureSpeed()
			return g.report(m, "%d cores of %.0f GFLOP/s (%s kernels); plan expects %.0f%% of it in training, %.0f%% in scoring\n",
				m.Cores, m.GFLOPS, m.Kernels, 100*m.Used, 100*forecast.ScoringEfficiency)
		},
	}
}
