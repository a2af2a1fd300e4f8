package experiment

import (
	"strings"
	"testing"
)

func TestEveryFieldHasAPage(t *testing.T) {
	t.Parallel()
	paths := Paths()
	if len(paths) < len(allPaths())+len(gridFields) {
		t.Errorf("%d pages, fewer than fields", len(paths))
	}
	for _, path := range append(allPaths(), paths...) {
		page, err := Explain(path)
		if err != nil || page.Path != path || page.Value == "" || page.Default == "" || page.Meaning == "" {
			t.Errorf("%s: %+v, %v", path, page, err)
		}
	}
}

func TestAPageSaysWhatTheReferenceSays(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Page{
		"training.privacy.noise_multiplier": {Value: "a number from 0 to 1000000", Default: "0", Meaning: "standard deviation z x clip / cohort"},
		"training.privacy":                  {Value: "a block of fields", Default: "absent", Meaning: "Differential privacy"},
		"data.faults.fault":                 {Value: "one of join-words", Default: "required", Meaning: "Kind of fault"},
		"canaries.formats.words":            {Value: "a whole number from 1 to 1000", Default: "5", Meaning: "Words"},
		"training.client.learning_rate":     {Value: "a number above 0", Default: "depends", Meaning: "0.5 for clients"},
		"grid.replicates":                   {Value: "or a list of seeds", Default: "absent", Meaning: "Seeds"},
		"":                                  {Value: "a block", Default: "by field", Meaning: "experiment"},
		"model":                             {Value: "a block", Default: "by field", Meaning: "network"},
	} {
		page, err := Explain(path)
		if err != nil || !strings.Contains(page.Value, want.Value) || page.Default != want.Default || !strings.Contains(page.Meaning, want.Meaning) {
			t.Errorf("%q: %+v, %v; want %+v", path, page, err, want)
		}
	}
}

func TestAnUnknownPathSuggestsTheFieldThatWasMeant(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"training.privacy.nois_multiplier": "training.privacy.noise_multiplier", "lr": "training.client.learning_rate",
		"trainng.cohort": "training.cohort", "seeds": "grid.replicates", "training.clint": "training.client",
	} {
		if _, err := Explain(path); err == nil || !strings.HasSuffix(err.Error(), "did you mean "+want+"?") {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := Explain("model.units.of.nothing"); err == nil {
		t.Error("a path below a value has a page")
	}
}

// A name of the table is no field of the block in which it is looked up, and each suggestion has a page.
func TestForeignNamesStandForFields(t *testing.T) {
	t.Parallel()
	for name, paths := range foreign {
		for path := range strings.SplitSeq(paths, " or ") {
			if _, err := Explain(path); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, ok := lookup(name); ok {
			t.Errorf("%s is a field of the experiment", name)
		}
	}
}
