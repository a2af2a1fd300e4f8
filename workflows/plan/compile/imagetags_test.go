package compile_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/storage"
	"coalmine/tasks/audits/models/baselines"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/plan/plantest"
)

// taggedImages are images of noise; one half of each is bright if the tag says so.
func taggedImages() []byte {
	const side = 18
	rng := rand.New(rand.NewPCG(1, 0))
	var lines strings.Builder
	for i := range 160 {
		pixels, tags := make([]byte, side*side), []string{}
		for half, tag := range []string{`"upper"`, `"lower"`} {
			bright := byte(0)
			if rng.IntN(3) == 0 {
				bright, tags = 150, append(tags, tag)
			}
			for j := range side * side / 2 {
				pixels[half*side*side/2+j] = byte(rng.IntN(100)) + bright
			}
		}
		fmt.Fprintf(&lines, `{"user":"u%d","tags":[%s],"pixels":%q}`+"\n", i%8, strings.Join(tags, ","), base64.StdEncoding.EncodeToString(pixels))
	}
	return []byte(lines.String())
}

const tagsOfImages = `
name: image-tags
seed: 1
data:
  source: images.jsonl
  level: image
  label: tags
  tags: [upper, lower]
  image: {width: 18, height: 18}
  test: {fraction: 25%}
model: {kind: cnn-tagger}
training: {rounds: 12, cohort: 4, chunks: 2, client: {learning_rate: 0.3, batch: 5}}
audit: {baselines: true}
grid:
  axes:
    training: [{}, {algorithm: sgd, rounds: 30, cohort: 10}]
`

func TestTagsOfImagesAreLearnedByUsersAndCentrally(t *testing.T) {
	t.Parallel()
	p := compiled(t, tagsOfImages, storage.DigestOf(taggedImages()))
	e := localexec.New(p, compile.Registry(), taggedImages())
	for _, c := range p.Cells {
		var report reports.Report
		plantest.Decode(t, e, c.Report, reports.CellBlob, &report)
		var v utility.Outcome
		plantest.Outcome(t, &report, "utility", &v)
		var b baselines.Outcome
		plantest.Outcome(t, &report, "baselines", &b)
		chance, neighbours := *b.Chance.MeanAveragePrecision, *b.Neighbours.MeanAveragePrecision
		if got := v.MeanAveragePrecision; got == nil || *got < 0.9 || chance > 0.5 || neighbours < 0.9 {
			t.Errorf("%s: mean average precision %v, chance %v, neighbours %v", c.Label, got, chance, neighbours)
		}
	}
	count := 0
	for _, n := range p.Nodes {
		if n.Kind == baselines.Kind.Name {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d nodes of baselines; cells share one", count)
	}
}
