package clients

import (
	"context"

	"coalmine/internal/timing"
	"coalmine/storage"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
)

// Pace has the seconds, as timing.Children counts them, that a program takes to train on the examples of
// a user, and to score one of the texts that Measure asks about; of images to evaluate one.
type Pace struct{ Fit, Text float64 }

const (
	paceFits  = 10
	paceTexts = 256
)

// Measure has a program train on the examples of a user, and score texts: what it takes for little is
// taken off what it takes for more.
func Measure(ctx context.Context, s clientprograms.Setting, o Options, examples [][]int32, text func(i int) clientprograms.Pair) (*Pace, error) {
	timed := func(fits, texts int) (float64, error) {
		return timing.Children(func() error { return ask(ctx, s, o, examples, fits, texts, text) })
	}
	few, err := timed(1, 1)
	if err != nil {
		return nil, err
	}
	more, err := timed(1+paceFits, 1)
	if err != nil {
		return nil, err
	}
	p := &Pace{Fit: max(0, more-few) / paceFits}
	more, err = timed(1, 1+paceTexts)
	p.Text = max(0, more-few) / paceTexts
	return p, err
}

// ask starts a program, has it train and score so often, and ends it.
func ask(ctx context.Context, s clientprograms.Setting, o Options, examples [][]int32, fits, texts int, text func(i int) clientprograms.Pair) (err error) {
	pool := NewPool(o)
	defer pool.Close()
	client, err := pool.Borrow(ctx, s)
	if err != nil {
		return err
	}
	defer client.GiveBack()
	c := client.(*program)
	params, err := c.Initial(ctx, 7)
	if err != nil {
		return err
	}
	data, err := checkpoints.Encode(c.network, params, nil)
	if err != nil {
		return err
	}
	w := clientprograms.Work{
		Model:    clientprograms.Model{Name: storage.DigestOf(data).String(), Read: func(context.Context) ([]byte, error) { return data, nil }},
		Examples: examples, Round: 1, Seed: 11,
	}
	for range fits {
		if _, err := c.Fit(ctx, w, params); err != nil {
			return err
		}
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
