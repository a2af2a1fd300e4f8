package goroutines

import (
	"context"
	"sync"
)

// Cores lends the cores of a process that its tasks leave idle to tasks that can divide their work. A nil
// *Cores lends none.
type Cores struct {
	total int

	mu   sync.Mutex
	idle int // negative while there are more tasks than cores
}

// NewCores returns n idle cores.
func NewCores(n int) *Cores { return &Cores{total: n, idle: n} }

// Occupy takes a core for a task, which runs even if none is idle. The returned function gives the core back; it is
// to be called once.
func (c *Cores) Occupy() (giveBack func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle--
	return c.giveBack
}

func (c *Cores) giveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle++
}

func (c *Cores) borrow() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle <= 0 {
		return false
	}
	c.idle--
	return true
}

// lacking reports whether there are more tasks than cores.
func (c *Cores) lacking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle < 0
}

// Lanes is the largest number of goroutines of Each.
func (c *Cores) Lanes() int {
	if c == nil {
		return 1
	}
	return 1 + c.total
}

// Each calls do with the numbers below n, which begin in ascending order: on one goroutine, for whose core the caller
// cares, and on one more for each core that is idle before a call. A borrowed core is given back at the end, or after
// a call if a task lacks it. Calls at the same time have different lanes, which are below Lanes. Each returns the
// first error; then, and at the end of ctx, it starts no more calls, and the context of those at work ends.
func (c *Cores) Each(ctx context.Context, n int, do func(ctx context.Context, lane, i int) error) error {
	group, ctx := WithContext(ctx)
	d := &division{cores: c, n: n, do: do}
	for lane := range c.Lanes() {
		d.lanes = append(d.lanes, c.Lanes()-1-lane)
	}
	group.Go(func() error { return d.work(ctx, group, false) })
	return group.Wait()
}

// division is the work of one call of Each.
type division struct {
	cores *Cores
	n     int
	do    func(ctx context.Context, lane, i int) error

	mu    sync.Mutex
	begun int
	lanes []int // free ones, the lowest last
}

// work calls do with numbers that have not begun. A goroutine with a borrowed core ends early if a task lacks a core.
func (d *division) work(ctx context.Context, group *Group, borrowed bool) error {
	lane := d.enter()
	defer d.leave(lane)
	for ctx.Err() == nil && !(borrowed && d.cores.lacking()) {
		i, more := d.next()
		if i < 0 {
			return nil
		}
		if more && d.cores.borrow() {
			group.Go(func() error {
				defer d.cores.giveBack()
				return d.work(ctx, group, true)
			})
		}
		if err := d.do(ctx, lane, i); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (d *division) enter() (lane int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.lanes) - 1
	lane, d.lanes = d.lanes[last], d.lanes[:last]
	return lane
}

func (d *division) leave(lane int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lanes = append(d.lanes, lane)
}

// next is the next number, -1 after the last, and whether there is another.
func (d *division) next() (i int, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun == d.n {
		return -1, false
	}
	d.begun++
	return d.begun - 1, d.begun < d.n
}
