//go:build unix

package endtoend_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/must"
)

// onceExperiment has a training that writes its untrained model once, at its start.
const onceExperiment = `
name: once
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, test: {fraction: 10%}}
model: {kind: external}
training: {command: sh train.sh, code: trainer, rounds: 1}
`

// onceTrainer waits to be killed after its first checkpoint.
const onceTrainer = `if [ ! -e checkpoint/n ]; then
  echo untrained > out/initial; echo 1 > checkpoint/n; sleep 1000
fi
echo trained > out/model
cat > out/result.json <<'END'
{"model":"out/model","score":"'%s' %s out/model","initial_score":"'%[1]s' %[2]s out/initial"}
END
`

// A training whose process is killed in the middle, with all that it has started, ends with the
// file that it had written once at its start.
func TestATrainingThatIsKilledKeepsTheFilesOfItsModel(t *testing.T) {
	t.Parallel()
	w := workspace{t, t.TempDir()}
	w.write("experiment.yaml", onceExperiment)
	w.write("text.jsonl", text())
	must.Do(t, os.Mkdir(filepath.Join(w.dir, "trainer"), 0o755))
	w.write("trainer/train.sh", fmt.Sprintf(onceTrainer, os.Args[0], serveTextsArgument))
	p := start(t, w.coalmine("run", "experiment.yaml"))
	p.await("the checkpoint is kept", func() bool { return keptFiles(w.store()) == 3 }) // a state and two files
	p.kill()
	printed(t, w.coalmine("run", "experiment.yaml"))
	for _, c := range allCommits(t, w.archive()) {
		if c.Kind != "external/train" {
			continue
		}
		if _, ok := c.Blob("out/initial"); !ok {
			t.Errorf("the training has %v, and no out/initial", c.Blobs)
		}
		return
	}
	t.Error("the training is not committed")
}

// keptFiles counts the objects of unfinished trainings in a store that a process writes to.
func keptFiles(store string) (n int) {
	_ = filepath.WalkDir(filepath.Join(store, "unfinished"), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			n++
		}
		return nil // missing files count nothing
	})
	return n
}
