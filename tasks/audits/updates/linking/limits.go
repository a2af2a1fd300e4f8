package linking

import "coalmine/tasks/audits"

var limits = []audits.Limit{audits.PairLimit(
	"linking", 1, "measurement",
	"Linking limits how many times chance, which is 50, the average precision of pairs of anonymous updates is. A cell is above it where the lower end of the 95% interval over devices is.",
	func(v *Outcome) (what string, users int, found audits.Bounded) {
		return "the AP of linked updates", v.Pairs.Users, v.Pairs.AP.Bounded()
	})}
