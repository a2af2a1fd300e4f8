package contracts

import "time"

// took is a duration in seconds: wall-clock time, and the processor time of this process and of the
// children it has waited for.
type took struct{ clock, processors float64 }

// timed measures do. Nothing else may start processes meanwhile. On a machine without an idle processor, a
// process waits longer than it works: wall-clock time then counts no more than processor time.
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

// crowded is the average number of idle processors below which the machine counts as busy.
const crowded = 0.1

// beyond returns the difference to another duration, by the larger of wall-clock and processor time,
// because waiting also takes time.
func (t took) beyond(other took) float64 {
	return max(0, t.clock-other.clock, t.processors-other.processors)
}

// Pace is the time of a program for n items: Start seconds, plus Each seconds per item.
type Pace struct{ Start, Each float64 }

const (
	tells = 1 // second more than for few items is significant
	// Bounds on the factor by which the number of items grows from one try to the next.
	minGrowth, maxGrowth = 4, 16
)

// Measure calls do for few items, for more, and then for 4 to 16 times as many until a call takes a second
// longer than for few, or reaches most. Nothing else may start processes meanwhile.
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
		n = min(most, n*int(min(maxGrowth, max(minGrowth, 2*tells/longer))))
	}
	return p, err
}
