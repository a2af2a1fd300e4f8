package vision

import (
	"math"

	"coalmine/models"
)

// lanes are the elements over which a normalization takes means: of each feature, or of each row.
func lanes(kind models.Normalization, rows, features int) (lanes [][]int) {
	count, at := features, func(lane, i int) int { return i*features + lane }
	length := rows
	if kind == models.LayerNorm {
		count, length, at = rows, features, func(lane, i int) int { return lane*features + i }
	}
	for lane := range count {
		var indices []int
		for i := range length {
			indices = append(indices, at(lane, i))
		}
		lanes = append(lanes, indices)
	}
	return lanes
}

func meanOf(indices []int, value func(i int) float64) float64 {
	sum := 0.0
	for _, i := range indices {
		sum += value(i)
	}
	return sum / float64(len(indices))
}

func momentsOf(x reference, indices []int) (mean, variance float64) {
	mean = meanOf(indices, func(i int) float64 { return x.values[i] })
	return mean, meanOf(indices, func(i int) float64 { return (x.values[i] - mean) * (x.values[i] - mean) })
}

// normalize normalizes over the last feature, or over rows.
func normalize(kind models.Normalization, x reference) reference {
	y := newReference(x.shape...)
	copy(y.values, x.values)
	if kind == models.NoNorm {
		return y
	}
	features := x.shape[len(x.shape)-1]
	for _, indices := range lanes(kind, len(x.values)/features, features) {
		mean, variance := momentsOf(x, indices)
		for _, i := range indices {
			y.values[i] = (x.values[i] - mean) / math.Sqrt(variance+0.001)
		}
	}
	return y
}

// normalizeBack is the gradient in x from that in the normalized, element by element: the
// derivative of normalized i by x j is (1[i=j] - 1/n - x̂i x̂j/n) / sqrt(variance + 0.001).
func normalizeBack(kind models.Normalization, x, dy reference) reference {
	dx := newReference(x.shape...)
	copy(dx.values, dy.values)
	if kind == models.NoNorm {
		return dx
	}
	normal := normalize(kind, x)
	for _, indices := range lanes(kind, x.shape[0], x.shape[1]) {
		_, variance := momentsOf(x, indices)
		n := float64(len(indices))
		for _, j := range indices {
			sum := 0.0
			for _, i := range indices {
				d := -(1 + normal.values[i]*normal.values[j]) / n
				if i == j {
					d++
				}
				sum += dy.values[i] * d
			}
			dx.values[j] = sum / math.Sqrt(variance+0.001)
		}
	}
	return dx
}

// slopes multiplies a gradient by the slope of a leaky rectifier at x.
func slopes(d, x reference, slope float64) reference {
	y := newReference(d.shape...)
	for i, v := range x.values {
		y.values[i] = d.values[i]
		if v <= 0 {
			y.values[i] *= slope
		}
	}
	return y
}

// hidden returns the values that the discriminator normalizes.
func (t tensors) hidden(x reference) reference {
	for _, name := range []string{"discriminator.conv1", "discriminator.conv2"} {
		x = shift(convolve(x, t[name+".kernel"], 2, 1, x.shape[1]/2, x.shape[2]/2), t[name+".bias"]).each(squash(0.01))
	}
	return multiply(x.flat(), t["discriminator.dense1.kernel"])
}

// follow moves the statistics of a normalization by a thousandth of the way to those of x,
// rows of features.
func (t tensors) follow(norm string, x reference) {
	mean, variance := t[norm+".mean"].values, t[norm+".variance"].values
	rows := len(x.values) / len(mean)
	for lane, indices := range lanes(models.BatchNorm, rows, len(mean)) {
		m, v := momentsOf(x, indices)
		mean[lane] += 0.001 * (m - mean[lane])
		variance[lane] += 0.001 * (v*float64(rows)/float64(rows-1) - variance[lane])
	}
}

// discriminate is the discriminator's outputs and, of their sum, the gradient in x.
func (t tensors) discriminate(kind models.Normalization, x reference) (outputs, dx reference) {
	const slope = 0.01
	k1, k2, w1, w2 := t["discriminator.conv1.kernel"], t["discriminator.conv2.kernel"], t["discriminator.dense1.kernel"], t["discriminator.dense2.kernel"]
	z1 := shift(convolve(x, k1, 2, 1, x.shape[1]/2, x.shape[2]/2), t["discriminator.conv1.bias"])
	a1 := z1.each(squash(slope))
	z2 := shift(convolve(a1, k2, 2, 1, a1.shape[1]/2, a1.shape[2]/2), t["discriminator.conv2.bias"])
	a2 := z2.each(squash(slope))
	z3 := multiply(a2.flat(), w1)
	y3 := shift(normalize(kind, z3), t["discriminator.norm.beta"])
	outputs = shift(multiply(y3.each(squash(slope)), w2), t["discriminator.dense2.bias"])

	d := multiplyBack(outputs.each(func(float64) float64 { return 1 }), w2)
	d = normalizeBack(kind, z3, slopes(d, y3, slope))
	d2 := reference{a2.shape, multiplyBack(d, w1).values}
	d1 := spread(slopes(d2, z2, slope), k2, 2, 1, a1.shape[1], a1.shape[2])
	return outputs, spread(slopes(d1, z1, slope), k1, 2, 1, x.shape[1], x.shape[2])
}

// generate is the generator's images, each feature normalized by a function.
func (t tensors) generate(u reference, shape models.ImageShape, normalize func(name string, x reference) reference) reference {
	layer := func(i string, x reference) reference {
		return shift(normalize("generator.norm"+i, x), t["generator.norm"+i+".beta"]).each(squash(0))
	}
	x := layer("1", multiply(u, t["generator.dense1.kernel"]))
	x = layer("2", multiply(x, t["generator.dense2.kernel"]))
	h, w := shape.Height, shape.Width
	k := t["generator.conv1.kernel"]
	x = reference{[]int{u.shape[0], h / 4, w / 4, k.shape[3]}, x.values}
	x = layer("3", spread(x, k, 2, 1, h/2, w/2))
	x = layer("4", spread(x, t["generator.conv2.kernel"], 2, 1, h, w))
	x = shift(convolve(x, t["generator.conv3.kernel"], 1, 1, h, w), t["generator.conv3.bias"])
	return x.each(math.Tanh)
}

// byBatch normalizes as in training.
func byBatch(_ string, x reference) reference { return normalize(models.BatchNorm, x) }

// byStatistics normalizes by moving statistics, without the remaining share of 0 and 1 in them.
func (t tensors) byStatistics(name string, x reference) reference {
	mean, variance, left := t[name+".mean"].values, t[name+".variance"].values, t["generator.norm.initial_share"].values[0]
	y := newReference(x.shape...)
	for i, v := range x.values {
		j := i % len(mean)
		y.values[i] = (v - mean[j]/(1-left)) / math.Sqrt(math.Max(0, (variance[j]-left)/(1-left))+0.001)
	}
	return y
}

// decayOf is half of 2.5e-5 times the squares of the weights of one network that are decayed:
// all but betas, statistics and the generator's last layer.
func (t tensors) decayOf(network string, names ...string) float64 {
	sum := 0.0
	for _, name := range names {
		for _, v := range t[network+"."+name].values {
			sum += v * v
		}
	}
	return 0.5 * 2.5e-5 * sum
}

// judge is a loss of outputs: their mean, or the mean of log(1 + e^y).
func judge(loss models.AdversarialLoss, sign float64, y reference) float64 {
	sum := 0.0
	for _, v := range y.values {
		if loss == models.Minimax {
			sum += math.Log(1 + math.Exp(sign*v))
		} else {
			sum += sign * v
		}
	}
	return sum / float64(len(y.values))
}

// discriminatorLoss returns the loss of made, given and interpolated images, with its penalty.
func (t tensors) discriminatorLoss(a models.Adversarial, made, data, between reference) float64 {
	onMade, _ := t.discriminate(a.Normalization, made)
	onData, _ := t.discriminate(a.Normalization, data)
	loss := judge(a.Loss, 1, onMade) + judge(a.Loss, -1, onData)
	loss += t.decayOf("discriminator", "conv1.kernel", "conv1.bias", "conv2.kernel", "conv2.bias", "dense1.kernel", "dense2.kernel", "dense2.bias")
	_, gradient := t.discriminate(a.Normalization, between)
	for i := range gradient.shape[0] {
		sum := 1e-10
		for _, v := range gradient.row(i).values {
			sum += v * v
		}
		loss += a.Penalty * math.Pow(math.Sqrt(sum)-1, 2) / float64(gradient.shape[0])
	}
	return loss
}

func (t tensors) generatorLoss(a models.Adversarial, shape models.ImageShape, u reference) float64 {
	outputs, _ := t.discriminate(a.Normalization, t.generate(u, shape, byBatch))
	return judge(a.Loss, -1, outputs) + t.decayOf("generator", "dense1.kernel", "dense2.kernel", "conv1.kernel", "conv2.kernel")
}

// interpolate is data + share*(made - data), a share an image.
func interpolate(data, made reference, shares []float64) reference {
	out := newReference(data.shape...)
	size := len(data.values) / data.shape[0]
	for i, v := range data.values {
		out.values[i] = v + shares[i/size]*(made.values[i]-v)
	}
	return out
}

// drawn are the numbers that a learner or a generator takes from a stream: the inputs of n
// images, then n shares.
func drawn(seed uint64, n, latent int) (inputs reference, shares []float64) {
	rng := testRand(seed)
	inputs = newReference(n, latent)
	for i := range inputs.values {
		inputs.values[i] = float64(float32(rng.NormFloat64()))
	}
	for range n {
		shares = append(shares, float64(float32(rng.Float64())))
	}
	return inputs, shares
}
