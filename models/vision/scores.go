package vision

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
)

// ClassifierScore measures the certainty and the variety of a classifier's predictions for
// images, one row of probabilities per image: the exponential of the mean, over images x,
// of the Kullback-Leibler divergence of p(class | x) from the mean p(class) (Salimans et
// al. 2016, section 4, the Inception score; with a classifier of the data's classes in the authors'
// code). It is 1 if all predictions are equal, and at most the number of classes. It is an error
// unless there are images, all with the same number of classes.
func ClassifierScore(probabilities [][]float32) (float64, error) {
	classes, err := width("the classifier score", probabilities, 1)
	if err != nil {
		return 0, err
	}
	mean := make([]float64, classes)
	for _, row := range probabilities {
		for c, p := range row {
			mean[c] += float64(p) / float64(len(probabilities))
		}
	}
	divergence := 0.0
	for _, row := range probabilities {
		divergence += divergenceFrom(mean, row)
	}
	return math.Exp(divergence / float64(len(probabilities))), nil
}

// divergenceFrom is the sum of p ln(p/mean), in nats. A class of probability 0 adds nothing.
func divergenceFrom(mean []float64, row []float32) (sum float64) {
	for c, p := range row {
		if p > 0 {
			sum += float64(float64(p) * (kernels.LogFloat64(float64(p)) - kernels.LogFloat64(mean[c])))
		}
	}
	return sum
}

// FrechetDistance returns the distance of two sets of images, one row of a classifier's
// outputs per image: the squared Wasserstein distance between normal distributions of the
// sets' means m and covariances C (Heusel et al. 2017, equation 6),
//
//	|m1 - m2|² + trace(C1 + C2 - 2 (C1 C2)^(1/2))
//
// The authors' code uses the logits as rows, and covariances that divide by the number of images
// less one, as here. With fewer images than columns, covariances are singular; the distance is
// still defined, but mostly reflects the number of images. It is an error unless both sets have two
// images or more, all with the same number of columns.
func FrechetDistance(a, b [][]float32) (float64, error) {
	columns, err := width("the Frechet distance", a, 2)
	if err != nil {
		return 0, err
	}
	other, err := width("the Frechet distance", b, 2)
	if err != nil {
		return 0, err
	}
	if columns != other {
		return 0, fmt.Errorf("the Frechet distance: rows of %d columns in one set and of %d in the other", columns, other)
	}
	meanA, covarianceA := moments(a)
	meanB, covarianceB := moments(b)
	apart := 0.0
	for i := range meanA {
		apart += float64((meanA[i] - meanB[i]) * (meanA[i] - meanB[i]))
	}
	shared, ok := traceOfRoot(covarianceA, covarianceB)
	distance := apart + mat.Trace(covarianceA) + mat.Trace(covarianceB) - 2*shared
	if !ok || !numbers.IsFinite(distance) {
		return 0, fmt.Errorf("the Frechet distance is %v: are all columns of all rows finite?", distance)
	}
	return distance, nil
}

// width returns the number of columns. There must be at least least rows.
func width(name string, rows [][]float32, least int) (int, error) {
	if len(rows) < least {
		return 0, fmt.Errorf("%s needs at least %d images, not %d", name, least, len(rows))
	}
	for i, row := range rows {
		if len(row) != len(rows[0]) || len(row) == 0 {
			return 0, fmt.Errorf("%s: row %d has %d columns, the first %d", name, i, len(row), len(rows[0]))
		}
	}
	return len(rows[0]), nil
}

// moments are the means of the columns, and their covariance.
func moments(rows [][]float32) (means []float64, covariance *mat.SymDense) {
	x := mat.NewDense(len(rows), len(rows[0]), nil)
	means = make([]float64, len(rows[0]))
	for i, row := range rows {
		for j, v := range row {
			x.Set(i, j, float64(v))
			means[j] += float64(v) / float64(len(rows))
		}
	}
	covariance = new(mat.SymDense)
	stat.CovarianceMatrix(covariance, x, nil)
	return means, covariance
}

// traceOfRoot returns the trace of (a b)^(1/2): the product has the eigenvalues of the
// symmetric matrix a^(1/2) b a^(1/2).
func traceOfRoot(a, b *mat.SymDense) (trace float64, ok bool) {
	values, vectors, ok := eigen(a)
	if !ok {
		return 0, false
	}
	n := len(values)
	scaled, root, product := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	scaled.Apply(func(_, j int, v float64) float64 { return v * math.Sqrt(max(0, values[j])) }, vectors)
	root.Mul(scaled, vectors.T())
	product.Mul(root, b)
	product.Mul(product, root)
	symmetric := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			symmetric.SetSym(i, j, 0.5*(product.At(i, j)+product.At(j, i)))
		}
	}
	values, _, ok = eigen(symmetric)
	for _, v := range values {
		trace += math.Sqrt(max(0, v))
	}
	return trace, ok
}

// eigen returns the eigenvalues of a symmetric matrix and its eigenvectors, in columns. It
// fails if a number is not finite.
func eigen(a *mat.SymDense) (values []float64, vectors *mat.Dense, ok bool) {
	var e mat.EigenSym
	if !e.Factorize(a, true) {
		return nil, nil, false
	}
	vectors = new(mat.Dense)
	e.VectorsTo(vectors)
	return e.Values(nil), vectors, true
}
