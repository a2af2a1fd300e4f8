//go:build unix

package engine

import (
	"errors"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/workers/clients/clientstest"
)

func TestMain(m *testing.M) { clientstest.Main(m) }

func TestRunClientsMeasuresProgramAndLoop(t *testing.T) {
	t.Parallel()
	r := must.Get(RunClients(t.Context(), ClientsOptions{Command: clientstest.Command(), Config: []byte(`{"rate": 0.1}`), Words: 9, Examples: 4, Length: 3, Clients: 3}))(t)
	// The program says that each loop takes half a second, which none does.
	if r.Parameters != 4+9+1 || r.Loop != 0.5 || !(r.All > 0) || !(r.Overhead > -1) || r.Program != "unigrams 1" {
		t.Errorf("%+v", r)
	}
	var table strings.Builder
	r.Print(&table)
	if !strings.Contains(table.String(), "unigrams 1") || !strings.Contains(table.String(), "under 10%") {
		t.Errorf("the table is\n%s", &table)
	}
}

func TestRunClientsRejectsProgramWithoutSeconds(t *testing.T) {
	t.Parallel()
	o := ClientsOptions{Command: clientstest.Command() + " | sed -u 's/\"seconds\":0.5,*//'", Words: 9, Examples: 4, Length: 3, Clients: 1}
	o.Config = []byte(`{"rate": 0.1}`)
	if _, err := RunClients(t.Context(), o); !errors.Is(err, errNoSeconds) {
		t.Errorf("got %v", err)
	}
	o.Clients = 0
	if _, err := RunClients(t.Context(), o); err == nil || !strings.Contains(err.Error(), "expected at least 1 of each") {
		t.Errorf("got %v", err)
	}
}
