package ranking

import (
	"cmp"
	"fmt"
	"slices"

	"coalmine/internal/lists"
)

// Point is a point of a precision-recall curve: the share Precision of the items that score
// Threshold or more is relevant, and these include the share Recall of all relevant items.
type Point struct {
	Threshold float32 `json:"threshold"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
}

// Curve returns the precision-recall curve, a point for each distinct score, from the
// highest down. There must be a relevant item, as many scores as items, and no NaN score.
func Curve(scores []float32, relevant []bool) ([]Point, error) {
	ranks, err := rank(scores)
	if err != nil {
		return nil, err
	}
	positives, err := count(scores, relevant)
	if err != nil {
		return nil, err
	}
	var points []Point
	seen, found := 0, 0
	for _, tied := range ranks {
		for _, i := range tied {
			if relevant[i] {
				found++
			}
		}
		seen += len(tied)
		points = append(points, Point{scores[tied[0]], float64(found) / float64(seen), float64(found) / float64(positives)})
	}
	return points, nil
}

// AveragePrecision returns the average precision of the relevant items, in (0, 1]. It returns the
// errors of Curve.
func AveragePrecision(scores []float32, relevant []bool) (float64, error) {
	points, err := Curve(scores, relevant)
	if err != nil {
		return 0, err
	}
	return Area(points), nil
}

// Area returns the average precision of a whole curve.
func Area(points []Point) float64 {
	area, before := 0.0, 0.0
	for _, p := range points {
		area += float64((p.Recall - before) * p.Precision)
		before = p.Recall
	}
	return area
}

// Shuffled returns the mean AP of a number of relevant items over all orders of the items,
// without ties: 1/n (H_n + (r-1)/(n-1) (n - H_n)), where H_n is the harmonic number.
func Shuffled(relevant, items int) float64 {
	if items <= 1 {
		return float64(relevant)
	}
	harmonic := 0.0
	for i := items; i >= 1; i-- {
		harmonic += 1 / float64(i)
	}
	n := float64(items)
	return (harmonic + float64(float64(relevant-1)/(n-1)*(n-harmonic))) / n
}

// rank sorts the items by their scores, highest first, and groups equal scores.
func rank(scores []float32) (tied [][]int, err error) {
	if err := Numbers("score", scores); err != nil {
		return nil, err
	}
	order := lists.Make(len(scores), func(i int) int { return i })
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && scores[order[to]] == scores[order[from]] {
			to++
		}
		tied = append(tied, order[from:to])
		from = to
	}
	return tied, nil
}

func count(scores []float32, relevant []bool) (positives int, err error) {
	if len(relevant) != len(scores) {
		return 0, fmt.Errorf("%d scores for %d items; expected one each", len(scores), len(relevant))
	}
	for _, r := range relevant {
		if r {
			positives++
		}
	}
	if positives == 0 {
		return 0, fmt.Errorf("none of %d items is relevant; an average precision needs one", len(scores))
	}
	return positives, nil
}
