package kernels

import "time"

// PeakGFLOPS returns how many 10^9 floating-point operations a second this
// core can do with the set in use: independent multiply-adds in registers,
// run for about the given time or, where others have the core meanwhile, some more. It is the
// bound that Gemm is measured against.
func PeakGFLOPS(duration time.Duration) float64 { return active.Load().peakGFLOPS(duration) }

func (s *set) peakGFLOPS(duration time.Duration) float64 {
	const rounds, least = 10_000, 20 // so many tries are interrupted less often than one
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
