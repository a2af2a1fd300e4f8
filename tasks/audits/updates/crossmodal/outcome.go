package crossmodal

import (
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name: "cross_modal",
	Legend: "Cross-modal AP: the average precision with which a network matches an anonymous update and a vector of other knowledge about its user, half " +
		"of all pairs; 50 by chance. Unseen: for users of whom the adversary has only the vector.",
	Limits:     limits,
	Power:      power,
	Kinds:      []tasks.Kind{Given, OfWords, Kind},
	Models:     audits.Anything,
	AttackRows: audits.From((*Outcome).attackRows),
	Sources:    func(f audits.Fields) []audits.Source { return f.(*Fields).sources() },
	Measures: slices.Concat(
		audits.Within(func(v *Outcome) *pairs.Measurement { return v.Anonymous },
			audits.Measure{Name: "cross_modal_ap", Of: audits.Of(func(m *pairs.Measurement) audits.Interval { return m.AP }), Header: "cross-modal AP", Scale: audits.Percent, Digits: 1},
			audits.Measure{Name: "cross_modal_auc", Of: audits.Of(func(m *pairs.Measurement) float64 { return m.AUC.Value })},
		),
		audits.Within(func(v *Outcome) *pairs.Measurement { return v.Seen },
			audits.Measure{Name: "cross_modal_seen_ap", Of: audits.Of(func(m *pairs.Measurement) float64 { return m.AP.Value })},
		),
		audits.Within(func(v *Outcome) *pairs.Measurement { return v.Unseen },
			audits.Measure{Name: "cross_modal_unseen_ap", Of: audits.Of(func(m *pairs.Measurement) float64 { return m.AP.Value }), Header: "cross-modal unseen AP", Optional: true, Scale: audits.Percent, Digits: 1},
		),
	),
})

type Outcome struct {
	// Users is the number of users with a vector, Values the length of a vector.
	Users   int           `json:"users"`
	Values  int           `json:"values"`
	Learned pairs.Learned `json:"learned"`
	// Anonymous is about pairs of all users with a vector, Seen and Unseen about pairs of only such users;
	// nil without such pairs, or if all users are in one set.
	Anonymous *pairs.Measurement `json:"anonymous"`
	Seen      *pairs.Measurement `json:"seen,omitempty"`
	Unseen    *pairs.Measurement `json:"unseen,omitempty"`
	// Curve is the precision at a recall of 1%, 2%, ... of the anonymous pairs.
	Curve []float64 `json:"curve"`
}

func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("cross-modal: vectors of %s of %s; learned from %d of them, %v",
		readable.Count(v.Values, "value"), readable.Count(v.Users, "user"), v.Learned.Users, &v.Learned)
	for _, x := range v.all() {
		note += fmt.Sprintf("; %s: AP %s, AUC %s of %d pairs, 50 by chance%s", x.label, x.AP.Percent(), x.AUC.Percent(), x.Pairs, x.Few())
	}
	return note + v.Learned.Chance(path)
}

type named struct {
	label string
	*pairs.Measurement
}

// all returns the measurements that there are.
func (v *Outcome) all() []named {
	all := []named{{"anonymous updates", v.Anonymous}, {"of seen users", v.Seen}, {"of unseen users", v.Unseen}}
	return lists.Filter(all, func(x named) bool { return x.Measurement != nil })
}

func (v *Outcome) attackRows() []audits.Attack {
	return lists.Map(v.all(), func(x named) audits.Attack { return x.Row("cross-modal network", "updates with vectors: "+x.label) })
}

// Figure is the precision-recall curve.
func (v *Outcome) Figure(*audits.Cell) *audits.Figure {
	if len(v.Curve) == 0 {
		return nil
	}
	return audits.PrecisionRecall("Precision and recall of updates and vectors",
		"Precision against recall: the share of pairs of one user among the pairs of an anonymous update and a vector that the network puts first, and the share of all such pairs that are found, in %. The dashed line is chance.",
		v.Curve, pairs.Chance)
}

var limits = pairs.Limit("cross_modal", 1, "measurement",
	"Average precision of pairs of anonymous updates and vectors, by its lower 95% bound over users.",
	func(v *Outcome) (string, *pairs.Measurement) { return "the AP of updates and vectors", v.Anonymous })

var power = pairs.Power("cross_modal",
	func(s *audits.Setting) int { f, _ := audits.FieldsOf[*Fields](s); return f.CrossModal.Pairs },
	(*audits.Setting).Observed,
	func(v *Outcome) []*pairs.Measurement {
		if v.Anonymous == nil {
			return nil
		}
		return []*pairs.Measurement{v.Anonymous}
	})
