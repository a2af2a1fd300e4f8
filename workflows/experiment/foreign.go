package experiment

// foreign maps names of settings in other tools to fields. It applies to the first name of a path, and
// in blocks without such a field; synonyms within one block are in the tags of its fields (also).
var foreign = map[string]string{
	// PyTorch, Keras, Hugging Face.
	"learning_rate": "training.client.learning_rate", "lr": "training.client.learning_rate",
	"optimizer": "training.client.optimizer", "optim": "training.client.optimizer", "momentum": "training.client.momentum",
	"lr_scheduler": "training.client.schedule", "scheduler": "training.client.schedule",
	"num_train_epochs": "training.epochs", "num_epochs": "training.epochs", "n_epochs": "training.epochs", "max_epochs": "training.epochs",
	"batch_size": "training.client.batch or training.cohort", "train_batch_size": "training.client.batch or training.cohort",
	"per_device_train_batch_size": "training.client.batch or training.cohort", "max_steps": "training.rounds",
	"model_name": "model.kind", "model_type": "model.kind", "architecture": "model.kind", "num_layers": "model.layers", "n_layers": "model.layers",
	"embedding_dim": "model.embedding", "embedding_size": "model.embedding", "hidden_dim": "model.units",
	"max_length": "data.sequence", "max_seq_length": "data.sequence", "dataset_name": "data.source", "train_file": "data.source", "data_path": "data.source",
	"num_seeds": "grid.replicates", "seeds": "grid.replicates", "repeats": "grid.replicates", "num_trials": "grid.replicates", "replicates": "grid.replicates",
	// Opacus, TensorFlow Privacy.
	"noise": "training.privacy.noise_multiplier", "sigma": "training.privacy.noise_multiplier", "noise_multiplier": "training.privacy.noise_multiplier",
	"clip": "training.privacy.clip", "clip_norm": "training.privacy.clip", "clipping": "training.privacy.clip", "clipping_norm": "training.privacy.clip",
	"epsilon": "training.privacy.budget.epsilon", "target_epsilon": "training.privacy.budget.epsilon", "epsilon_budget": "training.privacy.budget.epsilon",
	"delta": "training.privacy.delta", "target_delta": "training.privacy.delta", "poisson_sampling": "training.sampling",
	"max_grad_norm": "training.client.gradient_clip or training.privacy.clip",
	// Flower, TensorFlow Federated, FedML, pfl-research.
	"num_clients": "training.cohort or data.users", "clients": "training.cohort or data.users", "num_users": "training.cohort or data.users",
	"clients_per_round": "training.cohort", "client_num_per_round": "training.cohort", "cohort_size": "training.cohort", "fraction_fit": "training.cohort", "min_fit_clients": "training.cohort",
	"num_rounds": "training.rounds", "comm_round": "training.rounds", "total_rounds": "training.rounds",
	"local_epochs": "training.client.epochs", "client_epochs": "training.client.epochs", "local_steps": "training.client.steps",
	"client_lr": "training.client.learning_rate", "server_lr": "training.server.learning_rate", "server_learning_rate": "training.server.learning_rate",
	"server_momentum": "training.server.momentum", "proximal_mu": "training.client.proximal",
	// Audits of canaries.
	"num_canaries": "canaries.per_configuration", "canary_format": "canaries.format", "num_references": "audit.random_sampling.references",
}
