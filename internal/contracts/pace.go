package contracts

import "time"

// took is a duration in seconds: by the clock, and the processor time of this process and of those that it
// starts and waits for.
type took struct{ clock, processors float64 }

// timed times do. Nothing else may start processes meanwhile. On a machine that has no idle processor a process
// waits for one longer than it works: the clock then counts for no more than processors do.
func timed(do func() error) (took, error) {
	began, before := time.Now(), processors()
	idleBefore, known := idle()
	err := do()
	t := took{time.Since(began).Seconds(), (processors() - before).Seconds()}
	if after, _ := idle(); known && (after-idleBefore).Seconds() < crowded*t.clock {
		t.clock = t.processors
	}
	return t, err
}

// crowded is a machine of which fewer processors are idle on average.
const crowded = 0.1

// beyond returns the difference to another duration, by the larger of wall and processor time: waiting
// takes time, too.
func (t took) beyond(other took) float64 {
	return max(0, t.clock-other.clock, t.processors-other.processors)
}

// Pace is the time of a program for n things: Start seconds, and Each more for each of them.
type Pace struct{ Start, Each float64 }

const (
	tells = 1 // second more than for few things
	// Bounds on the factor by which the number of things grows from one try to the next.
	leastGrowth, mostGrowth = 4, 16
)

// Measure calls do for few things, for more, and then for 4 to 16 times as many until a call takes a second
// longer than for few, or is for most. Nothing else may start processes meanwhile.
func Measure(few, more, most int, do func(n int) error) (Pace, error) {
	least, err := timed(func() error { return do(few) })
	p := Pace{Start: least.beyond(took{})}
	for n := more; err == nil && few < most; {
		var t took
		t, err = timed(func() error { return do(n) })
		longer := t.beyond(least)
		p.Each = longer / float64(n-few)
		p.Start = max(0, least.beyond(took{})-float64(few)*p.Each)
		if longer >= tells || n >= most {
			break
		}
		n = min(most, n*int(min(mostGrowth, max(leastGrowth, 2*tells/longer))))
	}
	return p, err
}
