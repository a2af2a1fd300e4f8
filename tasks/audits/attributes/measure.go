package attributes

import (
	"math"

	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/observed"
	"coalmine/tasks/devices"
)

// score fills in how often a task's guesses are right.
func (w *world) score(o *Outcome, task int, guesses []int) {
	right := func(row int) bool { return guesses[row] == w.asked[task][row] }
	if task == identity {
		o.Identity = w.accuracy(devices.Seen, right)
		return
	}
	o.Attribute, o.Unseen = w.accuracy(devices.Seen, right), w.accuracy(devices.Unseen, right)
}

// byIdentity looks up the value of the user that an update was taken for.
func (w *world) byIdentity(identities []int) *Accuracy {
	return w.accuracy(devices.Seen, func(row int) bool {
		return w.values[w.named[identities[row]]] == w.asked[attribute][row]
	})
}

// majority says of every update what most shadow updates are.
func (w *world) majority() Majority {
	counts := make([]int, len(w.Values))
	for _, row := range w.learned {
		counts[w.known[attribute][row]]++
	}
	most := 0
	for i, n := range counts {
		if n > counts[most] {
			most = i
		}
	}
	right := func(row int) bool { return w.asked[attribute][row] == most }
	return Majority{Value: w.Values[most].Value, Seen: w.accuracy(devices.Seen, right), Unseen: w.accuracy(devices.Unseen, right)}
}

// count is how many users with each value have sent an update that is looked at.
func (w *world) count() []Users {
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

// resamples of the bootstrap over users.
const resamples = 1000

// accuracy is the share of the anonymous updates of a set of users that are right; nil where
// there are none.
func (w *world) accuracy(set devices.Set, right func(row int) bool) *Accuracy {
	number := map[int]int{}
	var hits, of []float64 // by user
	for row := range w.anonymous.Of {
		o := &w.anonymous.Of[row]
		if o.Set != set {
			continue
		}
		if _, ok := number[o.User]; !ok {
			number[o.User] = len(of)
			hits, of = append(hits, 0), append(of, 0)
		}
		i := number[o.User]
		of[i]++
		if right(row) {
			hits[i]++
		}
	}
	if len(of) == 0 {
		return nil
	}
	share := func(users []int) float64 {
		h, n := 0.0, 0.0
		for _, u := range users {
			h, n = h+hits[u], n+of[u]
		}
		return h / n
	}
	everyone := make([]int, len(of))
	for i := range everyone {
		everyone[i] = i
	}
	bounds := ranking.Bootstrap(seeds.Stream(w.Seed, seeds.AttributeInterval), len(of), resamples, audits.Confidence, share)
	a := &Accuracy{Users: len(of), Accuracy: share(everyone), Low: bounds.Low, High: bounds.High}
	for _, n := range of {
		a.Updates += int(math.Round(n))
	}
	return a
}
