// Package ranking measures how well scores put what is looked for above all else: precision
// and recall along the ranking, average precision, how often it is among the first, what
// chance alone would give, and intervals over users that hold for few of them.
//
//	ap, err := ranking.AveragePrecision(scores, relevant)
//
// # Average precision
//
// Items are ranked by their scores, the highest first; items of one score share a rank. With
// P_n and R_n the precision and recall of all down to rank n,
//
//	AP = sum over n of (R_n - R_(n-1)) P_n
//
// which is what scikit-learn's average_precision_score computes: the area under the steps of
// the precision-recall curve, without interpolation.
//
// # Chance
//
// Three things are called chance. The share of relevant items is the AP of scores that are
// all equal; Orekondy et al. 2018 divide by it. Scores without ties that know nothing have
// more, by about ln(n)/n of n items: Shuffled is their exact mean. And where the items
// of one owner resemble each other, a score that knows nothing of owners still ranks them side
// by side, which makes it better or worse than both. Owned therefore gives the AP of
// every owner's items under one score: their mean is what the score has where its owner is
// drawn anew, all else being equal.
package ranking
