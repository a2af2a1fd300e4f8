package privacy

import (
	"math"

	"coalmine/internal/seeds"
)

// AddGaussian adds to every element of x an independent draw from the normal
// distribution with mean 0 and standard deviation std, from first to last, one draw per element. A
// std of 0 draws nothing and leaves x unchanged.
//
// Each sum is rounded from float64 to float32. The floating-point grid of the
// noise is a known leak: Mironov 2012 (On Significance of the Least Significant
// Bits for Differential Privacy) shows that the low bits of a sum can reveal
// the value below the noise. Epsilon treats the noise as a real number, as
// every system of this kind does. Release a rounded model to protect against an
// adversary that reads the low bits.
//
// The stream determines who the noise protects against: a reader who knows its seed
// can subtract the noise.
func AddGaussian(normals *seeds.Normals, x []float32, std float64) {
	if std == 0 {
		return
	}
	var noise [512]float64
	for len(x) > 0 {
		n := min(len(x), len(noise))
		normals.Draw(noise[:n])
		for i, v := range x[:n] {
			x[i] = float32(float64(v) + float64(std*noise[i]))
		}
		x = x[n:]
	}
}

// NoiseShare returns the standard deviation of the noise that each device of a cohort adds to
// its clipped update if devices, not the server, add the noise of a round: noiseMultiplier x clip /
// sqrt(cohort). The sum of the cohort's updates carries noiseMultiplier x clip, because the
// variances of independent noise add up.
func NoiseShare(noiseMultiplier, clip float64, cohort int) float64 {
	return noiseMultiplier * clip / math.Sqrt(float64(cohort))
}

// MeanNoise returns the standard deviation of the noise on the mean of a
// round's clipped updates, noiseMultiplier x clip / cohort: the sum carries
// noiseMultiplier x clip. For Poisson cohorts, cohort is the expected number.
func MeanNoise(noiseMultiplier, clip float64, cohort int) float64 {
	return noiseMultiplier * clip / float64(cohort)
}
