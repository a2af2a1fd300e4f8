package main

import (
	"context"
	"os"
	"testing"

	"coalmine/clients/python"
	"coalmine/internal/childprocess"
	"coalmine/workers/clients/clientstest"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

// asCommand in the environment makes the test program the command.
const asCommand = "COALMINE_TEST_COMMAND"

func TestMain(m *testing.M) {
	clientstest.Serve()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(asCommand) != "" {
		return executeAlone(context.Background())
	}
	defer childprocess.OfferPython(python.Package)()
	return servetest.Main(m)
}
