// Package all lists the audits that there are.
package all

import (
	"fmt"
	"slices"

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
	"coalmine/tasks/audits/membership/membership"
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

// list has the audits in the order of the experiment file's fields, of its canonical
// JSON, and of columns: one of a new audit stands at its end. Columns that are always
// there stand before the others.
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
}

// Audits returns all descriptions, in order. The caller must not change it.
func Audits() []audits.Description { return list }

// Add adds an audit that is not the project's own. It must be called before anything
// reads the list, as by an init function, and panics if the name is there already.
func Add(d audits.Description) {
	if slices.ContainsFunc(list, func(other audits.Description) bool { return other.Name == d.Name }) {
		panic(fmt.Sprintf("audits: %q is there twice", d.Name))
	}
	list = append(slices.Clip(list), d)
}

// Kinds are the sorts of task of all audits.
func Kinds() []tasks.Kind {
	var kinds []tasks.Kind
	for _, d := range list {
		kinds = append(kinds, d.Kinds...)
	}
	return kinds
}
