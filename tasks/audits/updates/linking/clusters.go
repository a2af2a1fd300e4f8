package linking

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/tasks/audits/updates/pairs"
)

// cluster divides updates into count clusters, one for each device, or more if no further merge is allowed:
// updates of one round are of different devices. It merges clusters by the mean similarity of their members,
// the most similar first (average linkage; Murtagh 1983 for the chain of nearest neighbours). It returns the
// cluster of each update, and overwrites the similarities.
func cluster(list []pairs.Update, s *square, count int) []int {
	impossible := float32(math.Inf(-1))
	for i := range list {
		for j := range i {
			if list[i].Round == list[j].Round {
				s.set(i, j, impossible)
			}
		}
	}
	merges := (&linkage{s: s, sizes: slices.Repeat([]float64{1}, s.n)}).merges()
	slices.SortStableFunc(merges, func(a, b merge) int { return cmp.Compare(b.similarity, a.similarity) })
	return cut(len(list), merges[:min(len(merges), max(0, len(list)-count))])
}

type merge struct {
	a, b       int
	similarity float32
}

// linkage merges clusters, named by one of their members.
type linkage struct {
	s     *square
	sizes []float64 // 0: merged into another, or done
	chain []int
}

// merges returns all possible merges, unordered: two clusters are merged as soon as each is the other's
// nearest. In average linkage a merged cluster is no nearer to another cluster than the nearer of its parts
// was.
func (l *linkage) merges() (all []merge) {
	for first := 0; ; {
		if len(l.chain) == 0 {
			for first < l.s.n && l.sizes[first] == 0 {
				first++
			}
			if first == l.s.n {
				return all
			}
			l.chain = append(l.chain, first)
		}
		if m, ok := l.step(); ok {
			all = append(all, m)
		}
	}
}

// step extends the chain, or merges its last two.
func (l *linkage) step() (m merge, merged bool) {
	top := l.chain[len(l.chain)-1]
	before := -1
	if len(l.chain) > 1 {
		before = l.chain[len(l.chain)-2]
	}
	nearest := l.nearest(top, before)
	switch {
	case nearest < 0: // no merge is possible
		l.sizes[top] = 0
		l.chain = l.chain[:0]
	case nearest == before:
		m = merge{top, before, l.s.at(top, before)}
		l.join(top, before)
		l.chain = l.chain[:len(l.chain)-2]
		return m, true
	default:
		l.chain = append(l.chain, nearest)
	}
	return m, false
}

// nearest returns the most similar cluster, of equals the preferred one or the first; -1 if no merge is
// possible.
func (l *linkage) nearest(to, preferred int) int {
	best, similarity := -1, float32(math.Inf(-1))
	if preferred >= 0 {
		best, similarity = preferred, l.s.at(to, preferred)
	}
	for i, v := range l.s.values[to*l.s.n : (to+1)*l.s.n] {
		if v > similarity && i != to && l.sizes[i] > 0 {
			best, similarity = i, v
		}
	}
	return best
}

func (l *linkage) join(a, b int) {
	n := l.sizes[a] + l.sizes[b]
	for i, size := range l.sizes {
		if size > 0 && i != a && i != b {
			sum := float64(l.sizes[a]*float64(l.s.at(a, i))) + float64(l.sizes[b]*float64(l.s.at(b, i)))
			l.s.set(b, i, float32(sum/n))
		}
	}
	l.sizes[a], l.sizes[b] = 0, n
}

// cut returns the cluster of each of n updates.
func cut(n int, merges []merge) []int {
	parents := lists.Make(n, func(i int) int { return i })
	root := func(i int) int {
		for parents[i] != i {
			parents[i] = parents[parents[i]]
			i = parents[i]
		}
		return i
	}
	for _, m := range merges {
		parents[root(m.a)] = root(m.b)
	}
	return lists.Make(n, root)
}

// compare compares clusters with devices over all pairs of updates.
func compare(list []pairs.Update, clusters []int) Clusters {
	type cell struct {
		cluster int
		device  int32
	}
	byCluster, byDevice, both := map[int]int{}, map[int32]int{}, map[cell]int{}
	for i, u := range list {
		byCluster[clusters[i]]++
		byDevice[u.User]++
		both[cell{clusters[i], u.User}]++
	}
	together, same, hits := pairsWithin(byCluster), pairsWithin(byDevice), pairsWithin(both)
	c := Clusters{Clusters: len(byCluster)}
	chance := together * same / pairsOf(len(list))
	if most := (together + same) / 2; most != chance {
		c.RandIndex = (hits - chance) / (most - chance)
	}
	if together > 0 {
		c.Precision = hits / together
	}
	if same > 0 {
		c.Recall = hits / same
	}
	if together+same > 0 {
		c.F1, c.ChanceF1 = 2*hits/(together+same), 2*chance/(together+same)
	}
	return c
}

func pairsWithin[K comparable](sizes map[K]int) (sum float64) {
	for _, n := range sizes {
		sum += pairsOf(n) // whole numbers: exact in any order
	}
	return sum
}

func pairsOf(n int) float64 { return float64(n) * float64(n-1) / 2 }
