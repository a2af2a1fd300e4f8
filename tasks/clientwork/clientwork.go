// Package clientwork asks programs that train clients on behalf of tasks: about the model of one
// of their inputs, and in the words of another.
package clientwork

import (
	"context"
	"fmt"
	"io"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/commands"
	"coalmine/tasks/datasets"
)

// VocabularyInput is the datasets/encode node whose tokens a program reads.
const VocabularyInput = "vocabulary"

// Borrow returns a client of a program that reads the tokens of VocabularyInput. It must be given
// back.
func Borrow(ctx context.Context, t *tasks.Task, p *clientprograms.Program) (clientprograms.Client, *datasets.Vocabulary, error) {
	vocabulary, err := datasets.ReadVocabulary(ctx, t, VocabularyInput)
	if err != nil {
		return nil, nil, err
	}
	setting := clientprograms.Setting{Program: *p, Words: vocabulary.Words}
	if setting.Terms, err = commands.Decode(t.Terms); err != nil {
		return nil, nil, tasks.Permanent(err)
	}
	if setting.Archive, err = archive(t, p.Code); err != nil {
		return nil, nil, err
	}
	client, err := t.Client(ctx, setting)
	if err == nil && !client.Description().Deterministic {
		t.MayDiffer()
	}
	return client, vocabulary, err
}

// archive opens the code of a digest, nil for none.
func archive(t *tasks.Task, code string) (func(context.Context) (io.ReadCloser, error), error) {
	if code == "" {
		return nil, nil
	}
	digest, err := storage.ParseDigest(code)
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("code of a program: %w", err))
	}
	return func(ctx context.Context) (io.ReadCloser, error) { return t.Imported(ctx, digest) }, nil
}

// File is the checkpoint of the named input as a client gets it.
func File(t *tasks.Task, input string) (clientprograms.Model, error) {
	key, err := t.Input(input)
	return clientprograms.Model{Name: key.String(), Read: func(ctx context.Context) ([]byte, error) {
		return t.Blob(ctx, input, tasks.ModelBlob)
	}}, err
}
