package clients

import (
	"context"

	"coalmine/internal/contracts"
	"coalmine/models"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
)

// Pace holds the seconds, as package contracts counts them, that a program takes to begin, to train on the
// examples of a user, and to score one of the texts of Measure, or to evaluate an image.
type Pace struct {
	Begin, Fit, Text float64
	Network          models.Network // the program's network
}

const (
	paceFits, maxFits   = 10, 1 << 12
	paceTexts, maxTexts = 256, 1 << 11
)

// Measure times a program's training on the examples of a user, and its scoring of texts, unless text is
// nil. A program that trains users together gets at most the given number in a request.
func Measure(ctx context.Context, s clientprograms.Setting, o Options, examples [][]int32, users int, text func(i int) clientprograms.Pair) (*Pace, error) {
	p := &Pace{}
	fits, err := contracts.Measure(1, 1+paceFits, maxFits, func(n int) error { return p.ask(ctx, s, o, examples, users, n, 1, text) })
	if err != nil {
		return nil, err
	}
	if p.Begin, p.Fit = fits.Start, fits.Each; text == nil {
		return p, nil
	}
	texts, err := contracts.Measure(1, 1+paceTexts, maxTexts, func(n int) error { return p.ask(ctx, s, o, examples, users, 1, n, text) })
	p.Text = texts.Each
	return p, err
}

// modelOf returns the file of parameters.
func modelOf(n models.Network, params []float32) (clientprograms.Model, error) {
	data, err := checkpoints.Encode(n, params, nil)
	return clientprograms.ModelOf(data), err
}

// ask starts a program, requests fits trainings and scores of texts texts, and ends it.
func (p *Pace) ask(ctx context.Context, s clientprograms.Setting, o Options, examples [][]int32, together, fits, texts int, text func(i int) clientprograms.Pair) (err error) {
	pool := NewPool(o)
	defer pool.Close()
	client, err := pool.Borrow(ctx, s)
	if err != nil {
		return err
	}
	defer client.GiveBack()
	c := client.(*program)
	p.Network = c.network
	params, err := c.Initial(ctx, 7)
	if err != nil {
		return err
	}
	model, err := modelOf(c.network, params)
	if err != nil {
		return err
	}
	w := clientprograms.Work{Model: model, Examples: examples, Round: 1, Seed: 11}
	if err := c.fitMany(ctx, w, fits, together, params[:c.network.Trained()]); err != nil || text == nil {
		return err
	}
	if s.OfImages() {
		for at := 0; at < texts && err == nil; at += len(examples) {
			_, err = c.Evaluate(ctx, w)
		}
		return err
	}
	pairs := make([]clientprograms.Pair, texts)
	for i := range pairs {
		pairs[i] = text(i)
	}
	_, err = c.LogLikelihoods(ctx, w.Model, pairs)
	return err
}

// fitMany trains a number of users with the same examples, in requests of at most together users, by sums
// if the program supports them.
func (c *program) fitMany(ctx context.Context, w clientprograms.Work, users, together int, params []float32) (err error) {
	m := c.description.Together
	if m == nil {
		for range users {
			if _, err := c.Fit(ctx, w, params); err != nil {
				return err
			}
		}
		return nil
	}
	for together = max(1, min(together, m.Users)); users > 0 && err == nil; users -= together {
		many := clientprograms.ManyWork{Model: w.Model, Round: w.Round}
		for range min(users, together) {
			many.Users = append(many.Users, clientprograms.User{Examples: w.Examples, Seed: w.Seed})
		}
		if m.Sum {
			_, err = c.Sum(ctx, many, 1, nil, params)
		} else {
			err = c.FitMany(ctx, many, func(int, *clientprograms.Fitted, []float32) error { return nil })
		}
	}
	return err
}
