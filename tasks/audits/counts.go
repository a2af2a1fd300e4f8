package audits

import (
	"fmt"
	"sort"

	"coalmine/internal/readable"
)

// CountOf describes the number of inserted canaries that an audit with an Outcome O finds memorized.
type CountOf[O any] struct {
	// Measure sets neither Of, Scale nor Better, because fewer are better. A limit on the number has the same Name and
	// Doc, and Among is the measure of all inserted canaries.
	Measure
	// Counted returns the number, and the number of inserted canaries.
	Counted func(*O) (count, total int)
	// References returns the number of references for each canary; nil if no field sets it.
	References func(s *Setting) Size
	// ByChance bounds the probability that more than k of n canaries are counted if the model has memorized
	// none. references is their number; 0 without References.
	ByChance func(s *Setting, k, n, references int) float64
}

// Measures returns the measure of the number, and that of all inserted canaries.
func (c *CountOf[O]) Measures() []Measure {
	counted := c.Measure
	counted.Of, counted.Scale, counted.Better = Of(func(v *O) int { count, _ := c.Counted(v); return count }), Plain, Lower
	return []Measure{counted, {Name: c.Among, Doc: "inserted canaries, the most that " + c.Name + " can be", Of: Of(func(v *O) int { _, total := c.Counted(v); return total })}}
}

// Limit returns the limit on the number, for cells with an inserted canary.
func (c *CountOf[O]) Limit() Limit {
	return LimitOf[int]{
		Name: c.Name, Doc: c.Sentence(), Range: "[0,1000000000]", Unit: "canaries",
		Breaches: Judged(c.Name, func(v *O, limit int) []string {
			count, of := c.Counted(v)
			if of == 0 {
				return NoValue(c.Name, "no canary is in the training data")
			}
			return AboveLimit(c.Name, count, limit)
		}),
		Check: func(s *Setting, limit int, fail Fail) { checkCount(s, c.Name, limit, fail) },
		FalseAlarms: func(s *Setting, limit int) []FalseAlarm {
			return CanaryAlarms(s, c.Name, float64(limit), func(n int) float64 { return c.ByChance(s, limit, n, c.references(s)) })
		},
	}.Limit()
}

func (c *CountOf[O]) references(s *Setting) int {
	if c.References == nil {
		return 0
	}
	return c.References(s).N
}

// Power implements Description.Power. Each inserted canary is memorized, and so counted, independently with
// the probability of the leak. A find is the smallest number that chance reaches with probability at most
// Significance.
func (c *CountOf[O]) Power(s *Setting, v Outcome) []Statement {
	if s.Canaries == nil || s.Canaries.Inserted == 0 {
		return nil
	}
	n := s.Canaries.Inserted
	if v != nil {
		_, n = c.Counted(v.(*O))
	}
	sizes := []Size{s.Canaries.Size(n)}
	if c.References != nil {
		sizes = append(sizes, c.References(s))
	}
	fewest := c.fewest(s, n, c.references(s))
	found := Statement{
		Finds: fmt.Sprintf("%s or more", readable.Count(fewest, "canary")), Limit: c.Name, Sizes: sizes,
		Leak:    Leak{Name: "q", Means: "each inserted canary is memorized with the probability", Default: 0.1, Max: 1},
		Nothing: func(v Outcome) bool { count, of := c.Counted(v.(*O)); return count == 0 && of > 0 },
		Power: func(q Question) float64 {
			references := 0
			if len(q.Sizes) > 1 {
				references = q.Sizes[1]
			}
			most := q.LimitOr(float64(c.fewest(s, q.Sizes[0], references) - 1))
			return BinomialTail(int(most), q.Sizes[0], q.Leak)
		},
	}
	if fewest > n {
		found.Finds = fmt.Sprintf("more than the inserted canaries (%d)", n)
		found.None = fmt.Sprintf("all of the inserted canaries (%d) are counted by chance with a probability above %g%%", n, 100*Significance)
	}
	return []Statement{found}
}

// fewest returns the smallest number of canaries that chance reaches with probability at most Significance,
// or n + 1.
func (c *CountOf[O]) fewest(s *Setting, n, references int) int {
	return 1 + sort.Search(n, func(k int) bool { return c.ByChance(s, k, n, references) <= Significance })
}

// LikeliestByChance returns ByChance for an audit that finds the most likely sequence after a prefix: an
// unmemorized canary is any sequence. The format with the fewest sequences bounds the probability.
func LikeliestByChance[F Fields](prefix func(F) int) func(s *Setting, k, n, _ int) float64 {
	return func(s *Setting, k, n, _ int) float64 {
		f, ok := FieldsOf[F](s)
		if !ok {
			return 0
		}
		return BinomialTail(k, n, 1/s.Canaries.MinSequences(s.Ordinary, prefix(f)))
	}
}
