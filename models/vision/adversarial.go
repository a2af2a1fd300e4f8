package vision

import (
	"math"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// adversarialLoss returns the loss of the discriminator's outputs y on a batch: the mean of sign*y,
// or with Minimax of the cross-entropy log(1 + e^(sign*y)), for sign 1 or -1. It sets gradient to
// the gradient of the loss.
func adversarialLoss(kind models.AdversarialLoss, sign float32, y, gradient []float32) (loss float64) {
	share := sign / float32(len(y))
	if kind == models.Minimax {
		return softplusLoss(sign, share, y, gradient)
	}
	for i, v := range y {
		loss += float64(sign * v)
		gradient[i] = share
	}
	return loss / float64(len(y))
}

// softplusLoss uses that log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
func softplusLoss(sign, share float32, y, gradient []float32) (loss float64) {
	for i, v := range y {
		gradient[i] = -float32(math.Abs(float64(v)))
	}
	kernels.Exp(gradient, gradient)
	for i, v := range y {
		x, small := sign*v, gradient[i]
		loss += float64(max(x, 0)) + kernels.LogFloat64(1+float64(small))
		if x > 0 {
			gradient[i] = share / (1 + small)
		} else {
			gradient[i] = share * (small / (1 + small))
		}
	}
	return loss / float64(len(y))
}

// decayChunk is a number of weights that fit the first-level cache.
const decayChunk = 4 << 10

// decay adds the gradient of weightDecay/2 times the squares of the spans' weights to a gradient,
// and returns that loss.
func decay(params, gradient []float32, spans []models.Span) (loss float64) {
	for _, s := range spans {
		w, g := s.Of(params), s.Of(gradient)
		for at := 0; at < len(w); at += decayChunk {
			to := min(len(w), at+decayChunk)
			loss += kernels.SquaredNorm(w[at:to])
			kernels.Axpy(weightDecay, w[at:to], g[at:to])
		}
	}
	return 0.5 * weightDecay * loss
}
