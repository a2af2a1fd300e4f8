package clients

import (
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/score"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
)

// many returns work on up to three users, each with the examples of one.
func (c *checker) many(w clientprograms.Work) clientprograms.ManyWork {
	many := clientprograms.ManyWork{Model: w.Model, Round: w.Round}
	for i := range min(3, c.program.description.Together.Users) {
		many.Users = append(many.Users, clientprograms.User{Examples: user((i+1)%2, c.setting.Image), Seed: uint64(11 + i)})
	}
	return many
}

// trainsMany compares the parameters of users trained together with those of each trained separately,
// twice, the second time in reverse order.
func (c *checker) trainsMany(one clientprograms.Work, start []float32) error {
	w := c.many(one)
	for range 2 {
		together := make([][]float32, len(w.Users))
		if err := c.program.FitMany(c.ctx, w, func(i int, _ *clientprograms.Fitted, params []float32) error {
			together[i] = append([]float32(nil), params...)
			return nil
		}); err != nil {
			return err
		}
		for i, u := range w.Users {
			alone, err := c.fit(clientprograms.Work{Model: w.Model, Examples: u.Examples, Round: w.Round, Seed: u.Seed})
			if err != nil {
				return err
			}
			if err := c.alike(i, together[i], alone, start); err != nil {
				return err
			}
		}
		w.Users[0], w.Users[len(w.Users)-1] = w.Users[len(w.Users)-1], w.Users[0]
	}
	return nil
}

// alike compares the parameters of a user by fit_many with those by fit.
func (c *checker) alike(i int, together, alone, start []float32) error {
	apart, update := distance(together, alone[:len(together)]), distance(alone, start)
	if most := float64(c.program.description.Together.Tolerance * update); !(apart <= most) {
		return ManyAsOne.Errorf("the parameters of user %d by fit_many are at a distance of %.3g from those by fit, and the user's update has the norm %.3g; expected at most %.3g, that norm times the program's tolerance of %g",
			i+1, apart, update, most, c.program.description.Together.Tolerance)
	}
	return nil
}

// distance returns the L2 norm of the difference of two vectors.
func distance(a, b []float32) float64 {
	difference := append([]float32(nil), a...)
	kernels.Axpy(-1, b, difference)
	return math.Sqrt(kernels.SquaredNorm(difference))
}

// sums compares sums with the updates of fit_many: one without a clip, and one whose clip is half of the
// first norm.
func (c *checker) sums(one clientprograms.Work, start []float32) error {
	w, clip := c.many(one), 0.0
	for range 2 {
		norm, err := c.sumsTo(w, start, clip)
		if err != nil {
			return err
		}
		clip = norm / 2
	}
	return nil
}

// sumsTo compares one sum, and returns the norm of the first update.
func (c *checker) sumsTo(w clientprograms.ManyWork, start []float32, clip float64) (first float64, err error) {
	weights := make([]float64, len(w.Users))
	for i := range weights {
		weights[i] = float64(1 + i)
	}
	start = start[:c.program.network.Trained()]
	got := make([]float32, len(start))
	users, err := c.program.Sum(c.ctx, w, clip, weights, got)
	if err != nil {
		return 0, err
	}
	want, lengths := make([]float32, len(start)), 0.0
	most := func(x float64) float64 { return float64((c.program.description.Together.Tolerance + rounding) * x) }
	err = c.program.FitMany(c.ctx, w, func(i int, _ *clientprograms.Fitted, params []float32) error {
		norm, scale := distance(params, start), weights[i]
		if d := math.Abs(norm - users[i].Norm); !(d <= most(norm)) {
			return SumOfMany.Errorf("user %d of its sum has the norm %g; expected %g, the norm of the update by fit_many", i+1, users[i].Norm, norm)
		}
		if clip > 0 {
			scale *= min(1, clip/norm)
		}
		lengths += scale * norm
		kernels.Axpy(float32(scale), params, want)
		kernels.Axpy(float32(-scale), start, want)
		return nil
	})
	if d := distance(got, want); err == nil && !(d <= most(lengths)) {
		err = SumOfMany.Errorf("with a clip of %g its sum of %d updates is at a distance of %.3g from the sum of the updates by fit_many; expected at most %.3g", clip, len(w.Users), d, most(lengths))
	}
	return users[0].Norm, err
}

// trees compares the scores of pairs in a tree with those of separate pairs.
func (c *checker) trees(w clientprograms.Work, _ []float32) error {
	const a, b = text.FirstWord, text.FirstWord + 1
	pairs := []clientprograms.Pair{
		{Continuation: []int32{a}}, {Continuation: []int32{a, b, a}}, {Context: []int32{a, b}, Continuation: []int32{b, a}},
		{Context: []int32{b}, Continuation: []int32{a}}, {Context: []int32{a, b}, Continuation: []int32{a, a}},
	}
	one, err := c.pairs(w.Model, pairs)
	if err != nil {
		return err
	}
	all, err := c.program.LogLikelihoods(c.ctx, w.Model, pairs)
	if err != nil {
		return err
	}
	for i := range pairs {
		if !score.Alike(one[i].LogProb, all[i].LogProb) || one[i].Greedy != all[i].Greedy {
			return TreeAsPairs.Errorf("pair %d of %d has the log-probability %g (greedy: %v), but %g (%v) in a tree", i+1, len(pairs), one[i].LogProb, one[i].Greedy, all[i].LogProb, all[i].Greedy)
		}
	}
	return nil
}
