package main

import (
	"bytes"
	"testing"

	"coalmine/workflows/explanation"
)

func TestAPlanListsWhatDiffers(t *testing.T) {
	t.Parallel()
	missing := []string{"not committed"}
	for want, groups := range map[string][]explanation.Group{
		"      5 other tasks to run: not committed\n": {
			{Kind: "audits/summary", ToRun: 1, Why: missing}, {Kind: "evaluation/part", ToRun: 4, Why: missing},
		},
		"      audits/summary           1 to run: not committed\n      other tasks: 4 cached, 2 not needed any more\n": {
			{Kind: "audits/summary", ToRun: 1, Cached: 1, Why: missing}, {Kind: "evaluation/part", Cached: 3, Unneeded: 2},
		},
		"      datasets/encode          1 to run: evicted: vocabulary\n      reports/cell             1 to run: not committed\n      other tasks: 0 cached, 0 not needed any more\n": {
			{Kind: "datasets/encode", ToRun: 1, Why: []string{"evicted: vocabulary"}}, {Kind: "reports/cell", ToRun: 1, Why: missing},
		},
	} {
		var out bytes.Buffer
		if (&global{stdout: &out}).writeGroups(groups); out.String() != want {
			t.Errorf("%+v: %q, want %q", groups, &out, want)
		}
	}
}
