package control

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage/safetensors"
	"coalmine/tasks/checkpoints"
)

func TestOversizedVocabularyIsOmitted(t *testing.T) {
	t.Parallel()
	network := must.Get(models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: 5, Embedding: 2, Units: 2}))(t)
	model := &checkpoints.Model{Network: network, Params: make([]float32, network.Parameters())}
	for vocabulary, want := range map[string]string{
		`["<pad>","<unk>","<begin>","<end>","a"]`:  "",
		strings.Repeat("x", safetensors.MaxHeader): "to write it as a table: coalmine data export r-1 c01",
	} {
		file := must.Get(encodeExported(model, map[string]string{runField: "r-1", cellField: "c01"}, vocabulary))(t)
		if why := MissingVocabulary(file); !strings.Contains(why, want) || (why == "") != (want == "") {
			t.Errorf("left out: %q, want %q", why, want)
		}
		if _, err := ExportedVocabulary(file); want == "" && err != nil || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("reading the vocabulary: %v, want %q", err, want)
		}
	}
}
