package models

import (
	"strings"
	"testing"
)

func TestEveryKindOfCellIsDescribed(t *testing.T) {
	t.Parallel()
	for _, k := range CellKinds() {
		if k.Summary == "" || k.Source == "" || !k.attends && (k.gatesPerUnit < 1 || k.initialize == nil || k.forward == nil || k.backward == nil) {
			t.Errorf("the entry of %s lacks a summary, a source, its gates or a function", k.Kind)
		}
		if k.coarse && k.edge == nil {
			t.Errorf("the entry of %s has coarse bounds, which follow its cell along an edge, but no such cell", k.Kind)
		}
	}
}

func TestAnUnknownKindIsNeverTakenForAnother(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Kind: "rnn", Vocabulary: 9, Embedding: 3, Units: 4})
	if want := `kind "rnn": expected one of cifg-lstm, lstm, gru`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
