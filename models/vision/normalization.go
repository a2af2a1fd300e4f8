package vision

import (
	"math"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// Constants of the normalizations: TensorFlow's addition to a variance, and the authors' decay of a
// moving statistic.
const (
	normEpsilon  = 0.001
	normMomentum = 0.999
)

// norm normalizes the outputs z of a layer, a matrix of rows and features, lane by lane: a lane is
// a feature over all rows (batch normalization, Ioffe and Szegedy 2015, algorithm 1), or a row over
// all its features (layer normalization, Ba et al. 2016, equation 4). With m the mean over a lane:
//
//	normalized n = (z - m(z)) r,  r = 1/sqrt(m((z - m(z))²) + 0.001)
//
// There is no scale, as in the authors' code; the layer adds a beta for each feature.
//
// The Jacobian of n in z is symmetric, J v = r (v - m(v) - n m(v n)): it turns a gradient of n into
// the gradient of z, and a change of z into the change of n.
type norm struct {
	kind           models.Normalization
	rows, features int
	// inverse holds r by lane; mean and variance are the moments of z by lane.
	inverse        []float32
	mean, variance []float64
	// backward and forward are the means over lanes of the two uses of J.
	backward, forward laneMeans
	cross             []float64
	narrow            [2][]float32 // means in float32
}

// laneMeans are m(v) and m(v n).
type laneMeans struct{ plain, product []float64 }

func (m *laneMeans) resize(lanes int) {
	m.plain, m.product = grow(m.plain, lanes), grow(m.product, lanes)
}

func (b *norm) reset(kind models.Normalization, rows, features int) {
	b.kind, b.rows, b.features = kind, rows, features
	lanes := b.lanes()
	b.inverse = grow(b.inverse, lanes)
	b.mean, b.variance, b.cross = grow(b.mean, lanes), grow(b.variance, lanes), grow(b.cross, lanes)
	b.backward.resize(lanes)
	b.forward.resize(lanes)
}

// lanes returns the number of lanes; count returns the number of elements of each.
func (b *norm) lanes() int {
	if b.kind == models.LayerNorm {
		return b.rows
	}
	return b.features
}

func (b *norm) count() float64 { return float64(b.rows * b.features / b.lanes()) }

// strides returns the step of the lane number per row and per feature.
func (b *norm) strides() (row, feature int) {
	if b.kind == models.LayerNorm {
		return 1, 0
	}
	return 0, 1
}

// normalize replaces z by n.
func (b *norm) normalize(z []float32) {
	if b.kind == models.NoNorm {
		return
	}
	b.moments(z)
	for lane, v := range b.variance {
		b.inverse[lane] = float32(1 / math.Sqrt(v+normEpsilon))
	}
	if b.kind == models.BatchNorm {
		kernels.NormalizeColumns(z, narrow(&b.narrow[0], b.mean), b.inverse)
		return
	}
	for i, mean := range b.mean {
		image := part(z, i, i+1, b.features)
		for j, v := range image {
			image[j] = (v - float32(mean)) * b.inverse[i]
		}
	}
}

// moments sets mean and variance from sums of z and of its squares, accurate enough in float64.
func (b *norm) moments(z []float32) {
	b.sums(b.mean, b.variance, z, z)
	for lane := range b.mean {
		b.mean[lane] /= b.count()
		b.variance[lane] = max(0, b.variance[lane]/b.count()-float64(b.mean[lane]*b.mean[lane]))
	}
}

// sums sets plain and product to the sums over lanes of v and of v w.
func (b *norm) sums(plain, product []float64, v, w []float32) {
	if b.kind == models.BatchNorm {
		kernels.ColumnMoments(v, w, plain, product)
		return
	}
	clear(plain)
	clear(product)
	for i := range b.rows {
		others := part(w, i, i+1, b.features)
		for j, x := range part(v, i, i+1, b.features) {
			plain[i] += float64(x)
			product[i] += float64(float64(x) * float64(others[j]))
		}
	}
}

func narrow(buffer *[]float32, x []float64) []float32 {
	*buffer = grow(*buffer, len(x))
	for i, v := range x {
		(*buffer)[i] = float32(v)
	}
	return *buffer
}

// means sets plain to m(v) and product to m(v w).
func (b *norm) means(m *laneMeans, v, w []float32) {
	b.sums(m.plain, m.product, v, w)
	for lane := range m.plain {
		m.plain[lane] /= b.count()
		m.product[lane] /= b.count()
	}
}

// jacobian sets dst to J v at n, and stores the means of v in m. dst may be v.
func (b *norm) jacobian(m *laneMeans, dst, v, n []float32) {
	if b.kind == models.NoNorm {
		copy(dst, v)
		return
	}
	b.means(m, v, n)
	if b.kind == models.BatchNorm {
		kernels.NormalizeColumnsBackward(dst, v, n, b.inverse, narrow(&b.narrow[0], m.plain), narrow(&b.narrow[1], m.product))
		return
	}
	for i, inverse := range b.inverse {
		d, x, normal := part(dst, i, i+1, b.features), part(v, i, i+1, b.features), part(n, i, i+1, b.features)
		plain, product := float32(m.plain[i]), float32(m.product[i])
		for j := range d {
			d[j] = inverse * (x[j] - plain - float32(normal[j]*product))
		}
	}
}

// curve sets dst to the change of the gradient dz = J dn if z changes and dn does not. jacobian has
// computed moved, the change of n, with the means in forward, and dz with the means in backward.
// With z' the change of z, the change of r is -r² m(n z'), so
//
//	change of dz = -r (m(n z') dz + moved m(dn n) + n m(dn moved))
//
// Without normalization it is zero.
func (b *norm) curve(dst, dz, dn, n, moved []float32) {
	b.crossMeans(dn, moved)
	row, feature := b.strides()
	for i := range b.rows {
		lane := i * row
		for at := i * b.features; at < (i+1)*b.features; at++ {
			sum := float32(float32(b.forward.product[lane])*dz[at]) + float32(moved[at]*float32(b.backward.product[lane]))
			dst[at] = -b.inverse[lane] * (sum + float32(n[at]*float32(b.cross[lane])))
			lane += feature
		}
	}
}

// crossMeans sets cross to m(dn moved).
func (b *norm) crossMeans(dn, moved []float32) {
	clear(b.cross)
	row, feature := b.strides()
	for i := range b.rows {
		lane := i * row
		for at := i * b.features; at < (i+1)*b.features; at++ {
			b.cross[lane] += float64(float64(dn[at]) * float64(moved[at]))
			lane += feature
		}
	}
	for lane := range b.cross {
		b.cross[lane] /= b.count()
	}
}

// track moves moving statistics towards the batch's mean and unbiased variance (biased for a single
// row), as TensorFlow does.
func (b *norm) track(mean, variance []float32) {
	unbiased := b.count() / max(1, b.count()-1)
	for lane := range mean {
		mean[lane] = approach(mean[lane], b.mean[lane])
		variance[lane] = approach(variance[lane], b.variance[lane]*unbiased)
	}
}

func approach(moving float32, batch float64) float32 {
	return moving - (moving-float32(batch))*float32(1-normMomentum)
}

// normalizeBy replaces z, rows of features, by its normalization with moving statistics, in which
// the initial values, 0 for the mean and 1 for the variance, still have the weight initialShare.
// Their contribution is removed after the first batch (as Kingma and Ba 2015, section 3, correct a
// moving mean).
func normalizeBy(mean, variance []float32, initialShare float32, z []float32) {
	seen := 1 - initialShare
	if seen == 0 {
		seen, initialShare = 1, 0
	}
	for at := 0; at < len(z); at += len(mean) {
		for j := range mean {
			spread := max(0, (variance[j]-initialShare)/seen)
			z[at+j] = (z[at+j] - mean[j]/seen) / float32(math.Sqrt(float64(spread)+normEpsilon))
		}
	}
}
