package membership

import (
	"math"
	"slices"
	"sort"
)

// Attack is a method to score users. Members score higher.
type Attack string

// Attacks, in the order of results, and the baseline without a model.
const (
	Loss         Attack = "loss"            // a lower loss is more likely a member (Yeom et al. 2018)
	Zlib         Attack = "zlib"            // loss per byte of the compressed text (Carlini et al. 2021)
	MinK         Attack = "min-k"           // mean log-likelihood of the least likely tokens (Shi et al. 2024)
	MinKPlusPlus Attack = "min-k-plus-plus" // likewise, standardized by the model's distribution (Zhang et al. 2025)
	Curvature    Attack = "curvature"       // excess likelihood over tokens that the model draws (Bao et al. 2024)
	ReCaLL       Attack = "recall"          // loss after texts that never trained, over the loss without them (Xie et al. 2024)
	Neighbour    Attack = "neighbours"      // excess loss of texts with other words (Mattern et al. 2023)
	LiRA         Attack = "lira"            // likelihood ratio, online (Carlini et al. 2022)
	LiRAOffline  Attack = "lira-offline"    // by reference models without the user
	RMIA         Attack = "rmia"            // pairwise likelihood ratios (Zarifzadeh et al. 2024)
	RMIAOffline  Attack = "rmia-offline"    // likewise, by reference models without the user
	Blind        Attack = "blind"           // only by the texts (Das et al. 2024)
)

// inputs are the inputs of an attack, except losses.
type inputs struct{ texts, tokens, wholes, prefix, neighbours, references bool }

// cover reports whether the inputs include those of an attack.
func (i inputs) cover(of inputs) bool {
	return (i.texts || !of.texts) && (i.tokens || !of.tokens) && (i.wholes || !of.wholes) &&
		(i.prefix || !of.prefix) && (i.neighbours || !of.neighbours) && (i.references || !of.references)
}

type description struct {
	name   Attack
	title  string
	needs  inputs
	scores func(*world) []float64
}

var attacks = []description{
	{Loss, "loss", inputs{}, func(w *world) []float64 { return w.target }},
	{Zlib, "zlib", inputs{texts: true}, (*world).zlib},
	{MinK, "Min-K%", inputs{tokens: true}, each(func(l *UserLoss) float64 { return l.MinK })},
	{MinKPlusPlus, "Min-K%++", inputs{wholes: true}, each(func(l *UserLoss) float64 { return l.MinKPlusPlus })},
	{Curvature, "curvature", inputs{wholes: true}, each(func(l *UserLoss) float64 { return l.Curvature })},
	{ReCaLL, "ReCaLL", inputs{prefix: true}, each((*UserLoss).recall)},
	{Neighbour, "neighbours", inputs{neighbours: true}, each(func(l *UserLoss) float64 { return (l.Neighbours - l.Loss) / float64(l.Targets) })},
	{LiRA, "LiRA", inputs{references: true}, (*world).lira},
	{LiRAOffline, "LiRA offline", inputs{references: true}, (*world).liraOffline},
	{RMIA, "RMIA", inputs{references: true}, func(w *world) []float64 { return w.rmia(everyModel) }},
	{RMIAOffline, "RMIA offline", inputs{references: true}, func(w *world) []float64 { return w.rmia(without) }},
}

// tellsSharers reports whether users with canaries are compared. Canaries have replaced some of their
// examples, and zlib takes more bytes per word for a shorter text, so that its score would depend on the
// length of the text, not on the model.
func (a Attack) tellsSharers() bool { return a != Zlib }

func (a Attack) Title() string {
	if d := a.description(); d != nil {
		return d.title
	}
	return string(a)
}

// description is nil for the baseline.
func (a Attack) description() *description {
	if i := slices.IndexFunc(attacks, func(d description) bool { return d.name == a }); i >= 0 {
		return &attacks[i]
	}
	return nil
}

func (w *world) inputs() inputs {
	lack := func(known func(l UserLoss) bool) bool {
		return slices.ContainsFunc(w.of, func(l UserLoss) bool { return !known(l) })
	}
	return inputs{
		texts:      w.texts != nil,
		tokens:     !lack(func(l UserLoss) bool { return l.ByToken }),
		wholes:     !lack(func(l UserLoss) bool { return l.ByDistribution() }),
		prefix:     w.prefixUsers > 0,
		neighbours: w.neighbourTexts > 0,
		references: w.references != nil,
	}
}

// each scores users by their losses under the audited model.
func each(score func(*UserLoss) float64) func(*world) []float64 {
	return func(w *world) []float64 {
		return w.scores(func(user int) float64 { return score(&w.of[user]) })
	}
}

// recall is the ratio of the losses, NaN for users whose texts are the prefix. Unrelated text raises the loss
// of members more. The ratio for a loss of 0 is 1.
func (l *UserLoss) recall() float64 {
	switch {
	case l.Aside:
		return math.NaN()
	case l.Loss == 0:
		return 1
	default:
		return l.Prefixed / l.Loss
	}
}

// Selections of reference models for a user.
func everyModel(bool) bool { return true }
func with(in bool) bool    { return in }
func without(in bool) bool { return !in }

// lira is the log likelihood ratio of two normal distributions of a user's likelihood: under models with the
// user, and without. Each user has its own means; variances are common to all, as for few reference models.
func (w *world) lira() []float64 {
	varianceIn, varianceOut := w.variance(with), w.variance(without)
	return w.scores(func(user int) float64 {
		in, out := w.target[user]-w.scoreMean(user, with), w.target[user]-w.scoreMean(user, without)
		return float64(out*out)/varianceOut/2 - float64(in*in)/varianceIn/2 - math.Log(varianceIn/varianceOut)/2
	})
}

// liraOffline is the number of standard deviations by which a user's likelihood exceeds that of models
// without the user. The paper's one-sided test increases with it.
func (w *world) liraOffline() []float64 {
	deviation := math.Sqrt(w.variance(without))
	return w.scores(func(user int) float64 {
		return (w.target[user] - w.scoreMean(user, without)) / deviation
	})
}

// minVariance keeps a ratio finite if all reference models agree.
const minVariance = 1e-24

// variance is the mean over users of the variance of a user's likelihoods among the chosen models.
func (w *world) variance(chosen func(in bool) bool) float64 {
	squares, degrees := 0.0, 0
	for user := range w.users {
		mean := w.scoreMean(user, chosen)
		for model, likelihoods := range w.references {
			if chosen(w.in[model][user]) {
				apart := likelihoods[user] - mean
				squares += float64(apart * apart)
				degrees++
			}
		}
		degrees--
	}
	return max(minVariance, squares/float64(max(1, degrees)))
}

// rmia is the share of the other held-out users with a lower likelihood ratio: the likelihood under the
// audited model over the mean under the chosen models.
func (w *world) rmia(chosen func(in bool) bool) []float64 {
	ratios := w.scores(func(user int) float64 {
		return w.target[user] - logMeanExp(w.scoresOf(user, chosen))
	})
	var others []float64
	for user, ratio := range ratios {
		if !w.of[user].Member {
			others = append(others, ratio)
		}
	}
	slices.Sort(others)
	return w.scores(func(user int) float64 {
		lower, of := sort.SearchFloat64s(others, ratios[user]), len(others)
		if !w.of[user].Member {
			of--
		}
		return float64(lower) / float64(max(1, of))
	})
}

// logMeanExp is the logarithm of the mean of exp, without overflow.
func logMeanExp(logs []float64) float64 {
	most, sum := slices.Max(logs), 0.0
	for _, l := range logs {
		sum += math.Exp(l - most)
	}
	return most + math.Log(sum/float64(len(logs)))
}

func (w *world) scores(score func(user int) float64) []float64 {
	scores := make([]float64, len(w.users))
	for user := range scores {
		scores[user] = score(user)
	}
	return scores
}
