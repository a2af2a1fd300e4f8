package natural

import (
	"fmt"
	"math"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
)

// power is that of exposures of the ranked secrets, before the scan of the largest number of them.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	size, references := audits.FieldSize(path+".most", "secret", f.Natural.Most), f.Natural.References
	if o, _ := v.(*Outcome); o != nil {
		if size.N = o.ranked(); size.N == 0 {
			return nil
		}
	}
	r := exposure.Range{Basis: exposure.Sampled, Most: math.Log2(float64(references)), Path: path + ".references", How: fmt.Sprintf("log2(%d references)", references)}
	return []audits.Statement{r.Statement("natural_exposure", "ranked secret", size, func(v audits.Outcome) (*float64, int) {
		o := v.(*Outcome)
		return o.Highest, o.ranked()
	})}
}
