package networks

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"

	"coalmine/internal/kernels"
)

// crossEntropy is the sum of -targets * log softmax(logits), both [rows, classes]. Gorgonia's
// LogSoftMax starts a goroutine for each row, and its exponential and logarithm depend on the
// processor; crossEntropy uses the functions of package kernels. It computes its gradient with the
// loss, so the gradient's operation depends on it.
func crossEntropy[T Real](logits, targets *gorgonia.Node) *gorgonia.Node {
	rows, classes := logits.Shape()[0], logits.Shape()[1]
	errors := make([]T, rows*classes)
	loss := &operation[T]{name: "cross-entropy", do: func(_, logits, targets []T) float64 {
		return softmax(errors, logits, targets, classes)
	}}
	loss.gradients = func(loss, grad *gorgonia.Node, _ gorgonia.Nodes) (by, _ *gorgonia.Node) {
		scaled := &operation[T]{name: fmt.Sprintf("errors of %v", logits.ID()), rows: rows, columns: classes, ofScalars: true, do: func(scaled, _, grad []T) float64 {
			for i, e := range errors {
				scaled[i] = e * grad[0]
			}
			return 0
		}}
		return scaled.of(loss, grad), nil
	}
	return loss.of(logits, targets)
}

// softmax returns the cross-entropy of all rows, and writes its gradient to errors.
func softmax[T Real](errors, logits, targets []T, classes int) (loss float64) {
	for i := 0; i < len(logits); i += classes {
		loss += softmaxRow(errors[i:i+classes], logits[i:i+classes], targets[i:i+classes])
	}
	return loss
}

func softmaxRow[T Real](errors, logits, targets []T) (loss float64) {
	var weight T
	for _, t := range targets {
		weight += t
	}
	if weight == 0 {
		clear(errors)
		return 0
	}
	top := slices.Max(logits)
	total := exponentials(errors, logits, top)
	logTotal := kernels.LogFloat64(total) + float64(top)
	scale := T(float64(weight) / total)
	for j, t := range targets {
		if t != 0 {
			loss += float64(float64(t) * (logTotal - float64(logits[j])))
		}
		errors[j] = T(errors[j]*scale) - t
	}
	return loss
}

func exponentials[T Real](dst, x []T, top T) (sum float64) {
	if x, ok := any(x).([]float32); ok {
		return kernels.ExpSum(any(dst).([]float32), x, float32(top))
	}
	for i, v := range x {
		dst[i] = T(math.Exp(float64(v - top)))
		sum += float64(dst[i])
	}
	return sum
}
