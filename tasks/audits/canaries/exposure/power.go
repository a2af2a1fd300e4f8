package exposure

import (
	"fmt"
	"math"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// power returns the power for the inserted canaries. The statement is about the highest exposure. A finding
// of the comparison with controls counts too.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	r := best(s)
	if r == nil || s.Canaries == nil || s.Canaries.Inserted == 0 {
		return nil
	}
	n := s.Canaries.Inserted
	if o, _ := v.(*Outcome); o != nil {
		n = o.inserted()
	}
	x := r.Statement("exposure", "inserted canary", s.Canaries.Size(n), func(v audits.Outcome) (*float64, int) {
		o := v.(*Outcome)
		return o.Highest, o.inserted()
	})
	highest := x.Nothing
	x.Nothing = func(v audits.Outcome) bool { return highest(v) && !v.(*Outcome).Samples.found() }
	return []audits.Statement{x}
}

// Statement returns the statement about the highest exposure of secrets, if the exposure of each is a number
// of bits higher than by chance: by chance it is above T bits with probability 2^-T. size is their number and
// each their noun. Without a limit, a find is above the bits that chance exceeds, in any secret, with
// probability audits.Significance. highest returns the highest exposure, or nil, and the number of secrets.
func (r *Range) Statement(limit, each string, size audits.Size, highest func(audits.Outcome) (*float64, int)) audits.Statement {
	n, sizes := size.N, []audits.Size{size}
	if r.Basis == Sampled {
		sizes = append(sizes, audits.FieldSize(r.Path, "reference", int(math.Round(math.Exp2(r.Max)))))
	}
	threshold := func(n int) float64 { return math.Log2(float64(n) / audits.Significance) }
	x := audits.Statement{
		Finds: fmt.Sprintf("an exposure above %.3g bits", threshold(n)), Limit: limit, Sizes: sizes,
		Leak: audits.Leak{Name: "bits", Means: fmt.Sprintf("the exposure of each %s, in bits, rises by", each), Default: 5, Max: 64},
		Nothing: func(v audits.Outcome) bool {
			found, n := highest(v)
			return found != nil && *found <= threshold(n)
		},
		Power: func(q audits.Question) float64 {
			n, most, above := q.Sizes[0], r.Max, q.LimitOr(threshold(q.Sizes[0]))
			if len(q.Sizes) > 1 {
				most = math.Log2(float64(q.Sizes[1]))
			}
			if above >= most {
				return 0
			}
			return audits.BinomialTail(0, n, min(1, math.Exp2(q.Leak-above)))
		},
	}
	if threshold(n) >= r.Max {
		x.None = fmt.Sprintf("exposure is at most %s = %.3g bits, and chance alone exceeds %.3g bits in one of %s with %g%%", r.How, r.Max, threshold(n), readable.Count(n, size.Unit), 100*audits.Significance)
	}
	return x
}

func (v *Outcome) inserted() int {
	return lists.Count(v.canaries, func(m measured) bool { return m.Role == audits.Inserted })
}

// best returns the range of the audit with the highest basis, or nil.
func best(s *audits.Setting) (found *Range) {
	for _, f := range s.Audits {
		if m, ok := f.(Measurer); ok {
			if r := m.Exposures(s); found == nil || r.Basis > found.Basis {
				found = &r
			}
		}
	}
	return found
}
