package matching

import "coalmine/tasks/audits"

var limits = []audits.Limit{audits.PairLimit(
	"matching", 2, "scores",
	"Matching limits how many times chance, which is 50, the average precision of pairs of a shadow device's update and an anonymous one is: those alone tell a user. "+
		"The better of the network and the cosine counts. A cell is above it where the lower end of the 95% interval over users is.",
	func(v *Outcome) (what string, users int, found audits.Bounded) {
		if v.Shadow == nil {
			return "", 0, audits.Bounded{}
		}
		by, best := "the network", v.Shadow.Network.AP
		if other := v.Shadow.Cosine.AP; other.Low > best.Low {
			by, best = "the cosine", other
		}
		return "the AP of pairs with a shadow device, told by " + by + ",", v.Shadow.Network.Users, best.Bounded()
	})}
