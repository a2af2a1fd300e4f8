package chart

import (
	"math"
	"strconv"
	"strings"
)

// Scale maps values to distances along an axis.
type Scale int

// Scales of axes. LogFromZero is the logarithm of 1 + x, so that 0 can be drawn.
const (
	Linear Scale = iota
	Log
	LogFromZero
)

func (s Scale) of(v float64) float64 {
	switch s {
	case Log:
		return math.Log(v)
	case LogFromZero:
		return math.Log1p(v)
	case Linear:
	}
	return v
}

// draws reports whether the scale can show a value.
func (s Scale) draws(v float64) bool {
	switch s {
	case Log:
		return v > 0 && !math.IsInf(v, 1)
	case LogFromZero:
		return v >= 0 && !math.IsInf(v, 1)
	case Linear:
	}
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}

// Range is an interval of an axis. The zero value is empty.
type Range struct{ Low, High float64 }

func (r Range) union(other Range) Range {
	switch {
	case other == Range{}:
		return r
	case r == Range{}:
		return other
	}
	return Range{min(r.Low, other.Low), max(r.High, other.High)}
}

// fewPercent is the share of the highest value below which the lowest is near enough to 0 for the
// axis to begin there.
const fewPercent = 0.5

// around returns the range of an axis that shows the values, except those that its scale cannot show.
func (a *Axis) around(values []float64) Range {
	if n := len(a.Labels); n > 0 {
		return Range{0.5, float64(n) + 0.5}
	}
	if a.Level != 0 {
		values = append(values, a.Level)
	}
	r, empty := a.Range, a.Range == Range{}
	for _, v := range values {
		switch {
		case !a.Scale.draws(v):
		case empty:
			r, empty = Range{v, v}, false
		default:
			r = Range{min(r.Low, v), max(r.High, v)}
		}
	}
	switch {
	case a.Scale == LogFromZero || a.Scale == Linear && r.Low > 0 && r.Low < fewPercent*r.High:
		r.Low = 0
	case a.Scale == Log && r == Range{}:
		r = Range{1, 10}
	case a.Scale == Log && r.Low == r.High:
		r = Range{r.Low / 2, r.High * 2}
	}
	if r.Low == r.High {
		r = Range{min(r.Low, 0), max(r.High, 0)}
	}
	if r.Low == r.High {
		r.High = 1
	}
	return r
}

func (f *Figure) xRange() Range {
	var values []float64
	f.each(func(_ *Series, p *Point) {
		values = append(values, p.X-p.Width/2, p.X+p.Width/2)
		if p.Left < p.Right {
			values = append(values, p.Left, p.Right)
		}
	})
	return f.X.around(values)
}

func (f *Figure) yRange() Range {
	var values []float64
	f.each(func(s *Series, p *Point) {
		if s.Kind != Intervals {
			values = append(values, p.Y)
		}
		if s.Kind == Bars {
			values = append(values, 0)
		}
		if p.bounded() {
			values = append(values, p.Low, p.High)
		}
	})
	return f.Y.around(values)
}

// each visits the points that the axes can show.
func (f *Figure) each(visit func(*Series, *Point)) {
	for i := range f.Series {
		s := &f.Series[i]
		f.eachOf(s, func(p *Point) { visit(s, p) })
	}
}

// eachOf visits the points of one series. It clears intervals that the axes cannot show.
func (f *Figure) eachOf(s *Series, visit func(*Point)) {
	for _, p := range s.Points {
		if p.bounded() && (!f.Y.Scale.draws(p.Low) || !f.Y.Scale.draws(p.High)) {
			p.Low, p.High = 0, 0
		}
		if p.Left < p.Right && (!f.X.Scale.draws(p.Left) || !f.X.Scale.draws(p.Right) || f.X.Labels != nil) {
			p.Left, p.Right = 0, 0
		}
		if f.X.Scale.draws(p.X) && f.Y.Scale.draws(p.Y) {
			visit(&p)
		}
	}
}

// ruler maps values of an axis to positions on the page; from and to are the positions of the axis's ends.
type ruler struct {
	axis *Axis
	Range
	from, to float64
}

func (r *ruler) at(v float64) float64 {
	low, high := r.axis.Scale.of(r.Low), r.axis.Scale.of(r.High)
	return r.from + (r.to-r.from)*((r.axis.Scale.of(v)-low)/(high-low))
}

// tick is a grid line with its number.
type tick struct {
	value float64
	text  string
}

// maxTicks is the largest number of ticks of an axis with room for them.
const maxTicks = 7

// ticks returns the densest round numbers whose texts do not touch; extent returns the length of
// a text along the axis.
func (r *ruler) ticks(extent func(string) float64) []tick {
	var ticks []tick
	for _, ticks = range r.candidates() {
		if len(ticks) > 1 && len(ticks) <= maxTicks && r.apart(ticks, extent) {
			return ticks
		}
	}
	if !r.apart(ticks, extent) {
		return ticks[:1]
	}
	return ticks
}

func (r *ruler) apart(ticks []tick, extent func(string) float64) bool {
	for i := 1; i < len(ticks); i++ {
		a, b := ticks[i-1], ticks[i]
		if math.Abs(r.at(a.value)-r.at(b.value)) < (extent(a.text)+extent(b.text))/2 {
			return false
		}
	}
	return true
}

// candidates returns choices of ticks from dense to sparse. For any range, the last has few ticks.
func (r *ruler) candidates() (choices [][]tick) {
	if r.axis.Scale != Linear {
		choices = append(choices, r.powers([]float64{1, 2, 5}, 1))
		for each := 1; each <= 64; each *= 2 {
			choices = append(choices, r.powers([]float64{1}, each))
		}
	}
	step := math.Pow(10, math.Floor(math.Log10((r.High-r.Low)/maxTicks)))
	for _, factor := range []float64{1, 2, 5, 10, 20, 50, 100} {
		if step*factor >= 1 || !r.axis.Whole {
			choices = append(choices, r.multiples(step*factor))
		}
	}
	return append(choices, []tick{{r.Low, decimal(r.Low, 0)}, {r.High, decimal(r.High, 0)}})
}

// multiples returns the multiples of a step within the range.
func (r *ruler) multiples(step float64) (ticks []tick) {
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	const most = 100 // candidates; more are too dense
	for k := math.Ceil(r.Low/step - 1e-9); k*step <= r.High+step*1e-9 && len(ticks) < most; k++ {
		ticks = append(ticks, tick{min(max(k*step, r.Low), r.High), decimal(k*step, digits)})
	}
	return ticks
}

// powers returns 0, if the scale can show it, and multiples of every each-th power of ten.
func (r *ruler) powers(factors []float64, each int) (ticks []tick) {
	first := 1.0
	if r.axis.Scale == LogFromZero {
		ticks = append(ticks, tick{0, "0"})
	} else {
		first = math.Pow(10, math.Floor(math.Log10(r.Low)))
	}
	for power := first; power <= r.High; power *= math.Pow(10, float64(each)) {
		for _, factor := range factors {
			if v := power * factor; v >= r.Low && v <= r.High {
				ticks = append(ticks, tick{v, decimal(v, max(0, -int(math.Floor(math.Log10(power)+1e-9))))})
			}
		}
	}
	return ticks
}

// decimal formats a number with the given digits behind the point, or with an exponent if it is long.
func decimal(v float64, digits int) string {
	if v == 0 {
		return "0"
	}
	if size := math.Abs(v); size >= 1e6 || size < 1e-4 {
		text := strconv.FormatFloat(v, 'g', 3, 64)
		return strings.NewReplacer("e+0", "e", "e+", "e", "e-0", "e−", "e-", "e−", "-", "−").Replace(text)
	}
	return strings.Replace(strconv.FormatFloat(v, 'f', digits, 64), "-", "−", 1)
}
