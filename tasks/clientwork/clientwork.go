// Package clientwork asks programs that train clients on behalf of tasks: about the model of one
// of their inputs, and in the words of another.
package clientwork

import (
	"context"

	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
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
	client, err := t.Client(ctx, clientprograms.Setting{Program: *p, Words: vocabulary.Words})
	return client, vocabulary, err
}

// File is the checkpoint of the named input as a client gets it.
func File(t *tasks.Task, input string) (clientprograms.Model, error) {
	key, err := t.Input(input)
	return clientprograms.Model{Name: key.String(), Read: func(ctx context.Context) ([]byte, error) {
		return t.Blob(ctx, input, tasks.ModelBlob)
	}}, err
}
