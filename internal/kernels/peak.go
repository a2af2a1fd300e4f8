package kernels

import "time"

// PeakGFLOPS returns the number of 10^9 floating-point operations per second of this core
// with the set in use: independent multiply-adds in registers, run for about the given time
// or longer if other processes use the core meanwhile. It is the upper bound for Gemm.
func PeakGFLOPS(duration time.Duration) float64 { return active.Load().peakGFLOPS(duration) }

func (s *set) peakGFLOPS(duration time.Duration) float64 {
	const rounds, least = 10_000, 20 // many short tries are interrupted less often than one
	best := 0.0
	for start, tries := time.Now(), 0; time.Since(start) < duration || tries < least || best == 0; tries++ {
		begin := time.Now()
		operations := s.peak(rounds)
		if seconds := time.Since(begin).Seconds(); seconds > 0 {
			best = max(best, float64(operations)/seconds/1e9)
		}
	}
	return best
}
