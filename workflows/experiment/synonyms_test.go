package experiment

import (
	"strings"
	"testing"
)

// Who comes from another framework tries its names first.
func TestNamesOfOtherFrameworksSuggestFields(t *testing.T) {
	t.Parallel()
	for theirs, ours := range map[string]string{
		"learning_rate": "training.client.learning_rate", "lr": "training.client.learning_rate", "training.lr": "training.client.learning_rate or training.server.learning_rate or training.generator.learning_rate",
		"optimizer": "training.client.optimizer", "training.optimizer": "training.client.optimizer or training.server.optimizer", "momentum": "training.client.momentum",
		"epsilon": "training.privacy.budget.epsilon", "training.epsilon": "training.privacy.budget or training.client.epsilon or training.server.epsilon", "target_epsilon": "training.privacy.budget.epsilon",
		"training.privacy.epsilon": "training.privacy.budget", "delta": "training.privacy.delta",
		"noise": "training.privacy.noise_multiplier", "training.noise": "training.privacy.noise_multiplier or training.client.noise",
		"noise_multiplier": "training.privacy.noise_multiplier", "training.client.noise_multiplier": "training.privacy.noise_multiplier",
		"batch_size": "training.client.batch or training.cohort", "training.batch_size": "training.cohort", "training.client.batch_size": "training.client.batch",
		"epochs": "training.epochs", "num_epochs": "training.epochs", "training.num_epochs": "training.epochs",
		"seeds": "grid.replicates", "training.seeds": "grid.replicates", "grid.seeds": "grid.replicates",
		"num_clients": "training.cohort or data.users", "training.num_clients": "training.cohort", "clients_per_round": "training.cohort",
		"rounds": "training.rounds", "clip_norm": "training.privacy.clip", "training.clip_norm": "training.privacy.clip", "clip": "training.privacy.clip",
		"model_name": "model.kind", "model.name": "model.kind", "training.seed": "seed", "num_canaries": "canaries.per_configuration", "canaries.count": "canaries.per_configuration",
		"data.name": "data.source", "model.lr": "training.client.learning_rate", "max_grad_norm": "training.client.gradient_clip or training.privacy.clip",
		"random_seed": "seed", "dataset": "data", "data.vocab_size": "data.vocabulary",
		"model.hidden_size": "model.units", "model.type": "model.kind",
		"training.num_rounds": "training.rounds", "training.clients_per_round": "training.cohort",
		"training.client.local_epochs": "training.client.epochs", "training.client.lr": "training.client.learning_rate",
		"training.client.max_grad_norm": "training.client.gradient_clip",
		"training.privacy.l2_norm_clip": "training.privacy.clip", "training.privacy.sigma": "training.privacy.noise_multiplier",
		"audit.one-run.canaries": "audit.one_run", "training.Cohort": "training.cohort",
		"audit.random_sampling.num_references": "audit.random_sampling.references", "audit.beam_search.beam_width": "audit.beam_search.width",
	} {
		_, err := Parse("file.yaml", []byte(minimal), Options{Sets: []string{theirs + "=1"}})
		if want := "did you mean " + ours + "?"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", theirs, err, want)
		}
	}
}
