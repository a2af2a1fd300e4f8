package kernels

import "time"

// PeakGFLOPS returns how many 10^9 floating-point operations a second this
// core can do with the set in use: independent multiply-adds in registers,
// run for about the given time. It is the bound that Gemm is measured against.
func PeakGFLOPS(duration time.Duration) float64 { return active.Load().peakGFLOPS(duration) }

func (s *set) peakGFLOPS(duration time.Duration) float64 {
	const rounds = 10_000
	best := 0.0
	for start := time.Now(); time.Since(start) < duration || best == 0; {
		begin := time.Now()
		operations := s.peak(rounds)
		if seconds := time.Since(begin).Seconds(); seconds > 0 {
			best = max(best, float64(operations)/seconds/1e9)
		}
	}
	return best
}
