package compile_test

import (
	"strings"
	"testing"

	"coalmine/internal/must"
)

// Networks of audits read the layers in the model's order, whichever order their block or training.record lists: with six
// permutations of three layers every audit with a list of layers has the same report.
func TestLayerOrderDoesNotChangeReportKey(t *testing.T) {
	t.Parallel()
	permutations := []string{
		"[embedding, cell.input, output.bias]", "[embedding, output.bias, cell.input]", "[cell.input, embedding, output.bias]",
		"[cell.input, output.bias, embedding]", "[output.bias, embedding, cell.input]", "[output.bias, cell.input, embedding]",
	}
	files, audits := completeTexts(t), 0
	for path := range fieldPaths(t) {
		if !strings.HasPrefix(path, "audit.") || !strings.HasSuffix(path, ".layers") {
			continue
		}
		audits++
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			tried := 0
			for name, text := range files {
				before, err := keysOf(name, text, nil)
				if err != nil || !has(t, before.canonical, path) {
					continue
				}
				tried++
				all := "training.record.layers=[cell, embedding, output.bias]"
				first := must.Get(keysOf(name, text, []string{all, path + "=" + permutations[0]}))(t)
				for _, list := range permutations[1:] {
					if other := must.Get(keysOf(name, text, []string{all, path + "=" + list}))(t); other.report != first.report {
						t.Errorf("%s: %s=%s has another report than %s", name, path, list, permutations[0])
					}
				}
				if fewer := must.Get(keysOf(name, text, []string{all, path + "=[embedding, cell.input]"}))(t); fewer.report == first.report {
					t.Errorf("%s: %s reaches no key", name, path)
				}
			}
			if tried == 0 {
				t.Errorf("no file of testdata/complete has %s", path)
			}
		})
	}
	if audits < 6 {
		t.Errorf("%d audits have a list of layers, want deanonymization, linking, matching, attributes, cross_modal and profiles", audits)
	}
}
