package main

import (
	"slices"
	"strings"
	"testing"

	"coalmine/tasks"
	"coalmine/workflows/plan/compile"
)

func TestClassLimitsRejectInvalidEntries(t *testing.T) {
	t.Parallel()
	limits, err := classLimits(compile.Registry(), map[string]int{"compute": 3})
	if err != nil || len(limits) != 1 || limits[tasks.Compute] != 3 {
		t.Errorf("limits %v, error %v, want 3 for compute", limits, err)
	}
	if _, err := classLimits(compile.Registry(), map[string]int{"commands": 2}); err != nil {
		t.Error(err)
	}
	for _, wrong := range []map[string]int{{"compute": 0}, {"compute": -1}, {"computer": 3}} {
		if _, err := classLimits(compile.Registry(), wrong); err == nil || !strings.Contains(err.Error(), "of commands, compute, ") {
			t.Errorf("%v: error %v, want one that names the classes", wrong, err)
		}
	}
}

func TestWorkersRunCommandsOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		classes []string
		allow   bool
		want    []string
		wrong   string
	}{
		{[]string{"compute"}, false, []string{"compute"}, ""},
		{[]string{"compute"}, true, []string{"compute", "commands"}, ""},
		{[]string{"gpu"}, true, []string{"gpu"}, ""},
		{[]string{"compute", "gpu"}, true, []string{"compute", "gpu", "commands"}, ""},
		{[]string{"gpu"}, false, nil, "add --allow-commands"},
		{[]string{"commands"}, true, nil, "expected one of compute, gpu"},
		{nil, true, nil, "--class is empty"},
	} {
		err := checkClasses(c.classes, c.allow)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%v, commands %v: error %v, want %q", c.classes, c.allow, err, c.wrong)
		case c.wrong == "" && (err != nil || !slices.Equal(served(c.classes, c.allow), c.want)):
			t.Errorf("%v, commands %v: %v, error %v; want %v", c.classes, c.allow, served(c.classes, c.allow), err, c.want)
		}
	}
}
