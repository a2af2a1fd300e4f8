package main

import (
	"strings"
	"testing"

	"coalmine/tasks"
	"coalmine/workflows/compile"
)

func TestClassLimitsNameClassesThatExist(t *testing.T) {
	t.Parallel()
	limits, err := classLimits(compile.Registry(), map[string]int{"compute": 3})
	if err != nil || len(limits) != 1 || limits[tasks.Compute] != 3 {
		t.Errorf("limits %v, error %v, want 3 for compute", limits, err)
	}
	for _, wrong := range []map[string]int{{"compute": 0}, {"compute": -1}, {"computer": 3}} {
		if _, err := classLimits(compile.Registry(), wrong); err == nil || !strings.Contains(err.Error(), "of compute, ") {
			t.Errorf("%v: error %v, want one that names the classes", wrong, err)
		}
	}
}
