package attributes

import (
	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
	"coalmine/tasks/devices"
)

// score fills in the shares of a task's guesses that are right.
func (w *world) score(o *AttackOutcome, task int, guesses []int) {
	right := func(row int) bool { return guesses[row] == w.anonymous.labels[task][row] }
	if task == identity {
		o.Identity = w.tally(devices.Seen, right).accuracy()
		return
	}
	o.Attribute, o.Unseen = w.tally(devices.Seen, right).against(), w.tally(devices.Unseen, right).against()
}

// byIdentity guesses the value of the user that an update was taken for.
func (w *world) byIdentity(identities []int) *Accuracy {
	return w.tally(devices.Seen, func(row int) bool {
		return w.values[w.named[identities[row]]] == w.anonymous.labels[attribute][row]
	}).accuracy()
}

func (w *world) isMostFrequent(row int) bool {
	return w.anonymous.labels[attribute][row] == w.mostFrequent
}

func (w *world) majority() Majority {
	return Majority{
		Value: w.Values[w.mostFrequent].Value,
		Seen:  w.tally(devices.Seen, w.isMostFrequent).accuracy(), Unseen: w.tally(devices.Unseen, w.isMostFrequent).accuracy(),
	}
}

// usersByValue counts the users of each value.
func (w *world) usersByValue() []Users {
	all := make([]Users, len(w.Values))
	for i, v := range w.Values {
		all[i].Value = v.Value
	}
	for _, user := range w.shadow.Users() {
		all[w.values[user]].Shadow++
	}
	for _, user := range w.anonymous.Users() {
		all[w.values[user]].Anonymous++
	}
	return all
}

// tally counts updates by user.
type tally struct {
	seed              uint64
	right, most, sent []float64 // most: of the most frequent value
}

// tally counts the anonymous updates of each user of a set, user after user as they first occur.
func (w *world) tally(set devices.Set, right func(row int) bool) *tally {
	t, number := &tally{seed: w.Seed}, map[int]int{}
	for row, o := range w.anonymous.Of {
		if o.Set != set {
			continue
		}
		i, known := number[o.User]
		if !known {
			i = len(t.sent)
			number[o.User] = i
			t.right, t.most, t.sent = append(t.right, 0), append(t.most, 0), append(t.sent, 0)
		}
		t.sent[i]++
		if right(row) {
			t.right[i]++
		}
		if w.isMostFrequent(row) {
			t.most[i]++
		}
	}
	return t
}

// accuracy is the share of the updates that are right; nil of none.
func (t *tally) accuracy() *Accuracy {
	if len(t.sent) == 0 {
		return nil
	}
	bounds := Interval(t.seed, t.right, t.sent, t.sent)
	return &Accuracy{Users: len(t.sent), Updates: int(sum(t.sent)), Accuracy: sum(t.right) / sum(t.sent), Low: bounds.Low, High: bounds.High}
}

// against is accuracy, compared with always saying the most frequent value.
func (t *tally) against() *Accuracy {
	a := t.accuracy()
	if a != nil && sum(t.most) > 0 {
		a.FactorLow = new(Interval(t.seed, t.right, t.most, t.sent).Low)
	}
	return a
}

// resamples of the intervals over users.
const resamples = 1000

// Interval is that of the ratio of two counts of updates by user. The unseen user has sent as many
// updates as the mean of others, and all of them count below.
func Interval(seed uint64, hits, below, sent []float64) ranking.Interval {
	r := ranking.Resampling{Stream: seeds.Stream(seed, seeds.AttributeInterval), Groups: []int{len(hits)}, Resamples: resamples}
	mean := ranking.Mean(sent)
	return r.Interval(audits.Confidence, ranking.OfRatio(hits, below, 0, mean, mean))
}

func sum(counts []float64) (total float64) {
	for _, n := range counts {
		total += n
	}
	return total
}
