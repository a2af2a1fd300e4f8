package experiment

import (
	"strings"
	"testing"
)

// Who comes from another framework tries its names first.
func TestNamesOfOtherFrameworksAreAnsweredByOurs(t *testing.T) {
	t.Parallel()
	for theirs, ours := range map[string]string{
		"random_seed": "seed", "dataset": "data", "data.vocab_size": "data.vocabulary",
		"model.hidden_size": "model.units", "model.type": "model.kind",
		"training.num_rounds": "training.rounds", "training.clients_per_round": "training.cohort",
		"training.client.local_epochs": "training.client.epochs", "training.client.lr": "training.client.learning_rate",
		"training.client.max_grad_norm": "training.client.gradient_clip",
		"training.privacy.l2_norm_clip": "training.privacy.clip", "training.privacy.sigma": "training.privacy.noise_multiplier",
		"audit.random_sampling.num_references": "audit.random_sampling.references", "audit.beam_search.beam_width": "audit.beam_search.width",
	} {
		_, err := Parse("file.yaml", []byte(minimal), Options{Sets: []string{theirs + "=1"}})
		if want := "did you mean " + ours + "?"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", theirs, err, want)
		}
	}
}
