// Package all lists the audits.
package all

import (
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/beamsearch"
	"coalmine/tasks/audits/canaries/enumeration"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/audits/canaries/natural"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/tasks/audits/canaries/upperbound"
	"coalmine/tasks/audits/membership/manyruns"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/audits/membership/neighbours"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/audits/membership/oneshot"
	"coalmine/tasks/audits/models/accuracyperuser"
	"coalmine/tasks/audits/models/baselines"
	"coalmine/tasks/audits/models/generatedimages"
	"coalmine/tasks/audits/models/samples"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/audits/updates/attributes"
	"coalmine/tasks/audits/updates/crossmodal"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/audits/updates/linking"
	"coalmine/tasks/audits/updates/matching"
	"coalmine/tasks/audits/updates/profiles"
	"coalmine/tasks/audits/updates/updatewords"
)

// list is in the order of the experiment file's fields, of its canonical JSON, and of columns. Append new
// audits. Columns that are always present stand before the others.
var list = []audits.Description{
	randomsampling.Audit,
	beamsearch.Audit,
	exposure.Audit,
	upperbound.Audit,
	onerun.Audit,
	utility.Audit,
	search.Audit,
	enumeration.Audit,
	skewnormal.Audit,
	probabilisticextraction.Audit,
	natural.Audit,
	samples.Audit,
	generatedimages.Audit,
	accuracyperuser.Audit,
	deanonymization.Audit,
	linking.Audit,
	updatewords.Audit,
	matching.Audit,
	attributes.Audit,
	crossmodal.Audit,
	profiles.Audit,
	baselines.Audit,
	membership.Audit,
	oneshot.Audit,
	neighbours.Audit,
	manyruns.Audit,
}

// Audits returns all descriptions; the caller must not change them.
func Audits() []audits.Description { return list }

// Add adds an external audit, before the list is read, as in an init function. It panics if the name is
// taken.
func Add(d audits.Description) {
	if slices.ContainsFunc(list, func(other audits.Description) bool { return other.Name == d.Name }) {
		panic(fmt.Sprintf("audits: %q is there twice", d.Name))
	}
	list = append(slices.Clip(list), d)
}

func Kinds() []tasks.Kind {
	return slices.Concat(lists.Map(list, func(d audits.Description) []tasks.Kind { return d.Kinds })...)
}
