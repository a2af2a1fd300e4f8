// Package ranking measures how well scores rank the relevant items above all others:
// precision and recall along the ranking, average precision, the rate of hits among the first k,
// the values expected by chance, and intervals that are valid for few users.
//
//	ap, err := ranking.AveragePrecision(scores, relevant)
//
// # Average precision
//
// Items are ranked by their scores, the highest first; items with equal scores share a rank. With
// P_n and R_n the precision and recall of ranks 1 to n,
//
//	AP = sum over n of (R_n - R_(n-1)) P_n
//
// This equals scikit-learn's average_precision_score: the area under the steps of the
// precision-recall curve, without interpolation.
//
// # Chance
//
// There are three chance levels. The share of relevant items is the AP of scores that are all
// equal; Orekondy et al. 2018 divide by it. Uninformative scores without ties have a higher
// AP, by about ln(n)/n for n items: Shuffled returns their exact mean. And if the items of one
// owner resemble each other, a score without information about owners still ranks them next to each
// other, with a result better or worse than both. Owned therefore returns the AP of every owner's
// items under one score: their mean is the expected AP for a randomly drawn owner.
package ranking
