package attributes

import (
	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

// score fills in how often a task's guesses are right.
func (w *world) score(o *AttackOutcome, task int, guesses []int) {
	right := func(row int) bool { return guesses[row] == w.asked[task][row] }
	if task == identity {
		o.Identity = w.accuracy(devices.Seen, right)
		return
	}
	o.Attribute, o.Unseen = w.against(devices.Seen, right), w.against(devices.Unseen, right)
}

// byIdentity looks up the value of the user that an update was taken for.
func (w *world) byIdentity(identities []int) *Accuracy {
	return w.accuracy(devices.Seen, func(row int) bool {
		return w.values[w.named[identities[row]]] == w.asked[attribute][row]
	})
}

// mostFrequent is the number of the value that most shadow updates have.
func (w *world) mostFrequent() (most int) {
	counts := make([]int, len(w.Values))
	for _, row := range w.learned {
		counts[w.known[attribute][row]]++
	}
	for i, n := range counts {
		if n > counts[most] {
			most = i
		}
	}
	return most
}

// isMostFrequent says of every update that it has the value of most shadow updates.
func (w *world) isMostFrequent() func(row int) bool {
	most := w.mostFrequent()
	return func(row int) bool { return w.asked[attribute][row] == most }
}

func (w *world) majority() Majority {
	right := w.isMostFrequent()
	return Majority{Value: w.Values[w.mostFrequent()].Value, Seen: w.accuracy(devices.Seen, right), Unseen: w.accuracy(devices.Unseen, right)}
}

// usersByValue is how many users with each value have sent an update that is looked at.
func (w *world) usersByValue() []Users {
	all := make([]Users, len(w.Values))
	for i, v := range w.Values {
		all[i].Value = v.Value
	}
	for _, s := range []*observed.Sample{w.shadow, w.anonymous} {
		for _, user := range s.Users() {
			if n := &all[w.values[user]]; s == w.shadow {
				n.Shadow++
			} else {
				n.Anonymous++
			}
		}
	}
	return all
}

// resamples of the intervals over users.
const resamples = 1000

// accuracy is the share of the anonymous updates of a set of users that are right; nil where
// there are none.
func (w *world) accuracy(set devices.Set, right func(row int) bool) *Accuracy {
	hits, of := w.count(set, right), w.count(set, func(int) bool { return true })
	if len(of) == 0 {
		return nil
	}
	bounds := Interval(w.Seed, hits, of, of)
	return &Accuracy{Users: len(of), Updates: int(sum(of)), Accuracy: sum(hits) / sum(of), Low: bounds.Low, High: bounds.High}
}

// against is accuracy, compared with always saying the most frequent value.
func (w *world) against(set devices.Set, right func(row int) bool) *Accuracy {
	a := w.accuracy(set, right)
	if most := w.count(set, w.isMostFrequent()); a != nil && sum(most) > 0 {
		a.FactorLow = new(Interval(w.Seed, w.count(set, right), most, w.count(set, func(int) bool { return true })).Low)
	}
	return a
}

// Interval is that of the ratio of two counts of updates, user by user, of so many that each has
// sent. The unseen user has sent as many as others, and all of them count below.
func Interval(seed uint64, hits, below, sent []float64) ranking.Interval {
	r := ranking.Resampling{Stream: seeds.Stream(seed, seeds.AttributeInterval), Groups: []int{len(hits)}, Resamples: resamples}
	mean := ranking.Mean(sent)
	return r.Interval(audits.Confidence, ranking.OfRatio(hits, below, 0, mean, mean))
}

// count is how many of the anonymous updates of each user of a set fit, user after user as they
// first occur.
func (w *world) count(set devices.Set, fits func(row int) bool) (counts []float64) {
	number := map[int]int{}
	for row := range w.anonymous.Of {
		o := &w.anonymous.Of[row]
		if o.Set != set {
			continue
		}
		i, known := number[o.User]
		if !known {
			i = len(counts)
			number[o.User], counts = i, append(counts, 0)
		}
		if fits(row) {
			counts[i]++
		}
	}
	return counts
}

func sum(counts []float64) (total float64) {
	for _, n := range counts {
		total += n
	}
	return total
}
