package generatedimages

import "coalmine/tasks/audits"

// measureIntensity counts the images that are nearer to inverted than to upright handwriting,
// in two ways.
//
// By mean intensity: an upright image has about that of the real ones on average, m, and an
// inverted one 255 - m.
//
// By a classifier that is trained on the planted fault: it has the mean of the real images
// and the mean of their inversions, and says to which of the two an image is nearer, in the
// Euclidean distance over all values.
func (v *Outcome) measureIntensity(generated, real [][]byte) {
	upright := meanImage(real)
	v.Intensity, v.RealIntensity = meanIntensity(meanImage(generated)), meanIntensity(upright)
	inverted := func(image []byte) bool { return nearerInIntensity(image, v.RealIntensity) }
	v.Inverted, v.RealInverted = shareOf(generated, inverted), shareOf(real, inverted)
	v.InvertedByMeans = shareOf(generated, func(image []byte) bool { return nearerToInverse(image, upright) })
}

// shareOf is the share of the images that have a property.
func shareOf(images [][]byte, has func(image []byte) bool) audits.Share {
	count := 0
	for _, image := range images {
		if has(image) {
			count++
		}
	}
	return audits.NewShare(count, len(images))
}

// meanImage has the mean of each value over the images.
func meanImage(images [][]byte) []float64 {
	mean := make([]float64, len(images[0]))
	for _, image := range images {
		for i, value := range image {
			mean[i] += float64(value)
		}
	}
	for i := range mean {
		mean[i] /= float64(len(images))
	}
	return mean
}

func meanIntensity(image []float64) float64 {
	sum := 0.0
	for _, value := range image {
		sum += value
	}
	return sum / float64(len(image))
}

// nearerInIntensity reports whether the mean of an image is nearer to 255 - upright than to
// upright.
func nearerInIntensity(image []byte, upright float64) bool {
	sum := 0.0
	for _, value := range image {
		sum += float64(value)
	}
	mean := sum / float64(len(image))
	return (mean > white/2) == (upright < white/2) && mean != white/2
}

const white = 255.0

// nearerToInverse reports whether an image is nearer to the inverse of another than to it.
func nearerToInverse(image []byte, upright []float64) bool {
	// |x - (255 - u)|² < |x - u|², summed over the values.
	difference := 0.0
	for i, value := range image {
		toUpright, toInverse := float64(value)-upright[i], float64(value)-(white-upright[i])
		difference += float64(toUpright*toUpright) - float64(toInverse*toInverse)
	}
	return difference > 0
}
