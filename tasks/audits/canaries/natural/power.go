package natural

import (
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
)

// power is that of exposures of the ranked secrets, before the scan of the largest number of them.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	size := audits.FieldSize(path+".most", "secret", f.Natural.Most)
	if o, _ := v.(*Outcome); o != nil {
		if size.N = o.ranked(); size.N == 0 {
			return nil
		}
	}
	r := exposure.OfReferences(f.Natural.References, path+".references")
	return []audits.Statement{r.Statement("natural_exposure", "ranked secret", size, func(v audits.Outcome) (*float64, int) {
		o := v.(*Outcome)
		return o.Highest, o.ranked()
	})}
}
