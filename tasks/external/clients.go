package external

import (
	"context"
	"fmt"
	"io"

	"coalmine/internal/childprocess"
	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
)

// VocabularyInput is the datasets/encode node with the tokens of a program.
const VocabularyInput = "vocabulary"

// BorrowClient returns a client of a program that reads the tokens of VocabularyInput. The caller
// must give it back.
func BorrowClient(ctx context.Context, t *tasks.Task, p *clientprograms.Program) (clientprograms.Client, *text.Vocabulary, error) {
	vocabulary, err := text.ReadVocabulary(ctx, t, VocabularyInput)
	if err != nil {
		return nil, nil, err
	}
	setting := clientprograms.Setting{Program: *p, Words: vocabulary.Words}
	if setting.Terms, err = childprocess.DecodeTerms(t.Terms); err != nil {
		return nil, nil, tasks.Permanent(err)
	}
	if p.Code != "" {
		digest, err := storage.ParseDigest(p.Code)
		if err != nil {
			return nil, nil, tasks.Permanent(fmt.Errorf("code of a program: %w", err))
		}
		setting.Archive = codeOf(t, digest)
	}
	client, err := t.Client(ctx, setting)
	if err == nil && !client.Description().Deterministic {
		t.DeclareNondeterministic()
	}
	return client, vocabulary, err
}

// codeOf returns the imported code of a digest, nil for zero.
func codeOf(t *tasks.Task, digest storage.Digest) clientprograms.Code {
	if digest == (storage.Digest{}) {
		return nil
	}
	return func(ctx context.Context) (io.ReadCloser, error) { return t.Imported(ctx, digest) }
}

// ClientModel returns the checkpoint of the named input as a model for a client.
func ClientModel(t *tasks.Task, input string) (clientprograms.Model, error) {
	key, err := t.Input(input)
	return clientprograms.Model{Name: key.String(), Read: func(ctx context.Context) ([]byte, error) {
		return checkpoints.File(ctx, t, input)
	}}, err
}

// ClientCosts returns the log-perplexities of sequences after a prefix under the model of the named
// input, in nats, by the program of a client.
func ClientCosts(ctx context.Context, t *tasks.Task, client clientprograms.Client, input string, prefix []int32, suffixes [][]int32) ([]float64, error) {
	model, err := ClientModel(t, input)
	if err != nil {
		return nil, err
	}
	pairs := lists.Map(suffixes, func(suffix []int32) clientprograms.Pair {
		return clientprograms.Pair{Context: prefix, Continuation: suffix}
	})
	likelihoods, err := client.LogLikelihoods(ctx, model, pairs)
	return CostsOf(likelihoods), err
}
