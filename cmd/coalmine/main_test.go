package main

import (
	"context"
	"os"
	"testing"

	"coalmine/workers/clients/clientstest"
	"coalmine/workflows/standalone/modelaudit/scoretest"
)

// asCommand in the environment makes the test program the command.
const asCommand = "COALMINE_TEST_COMMAND"

func TestMain(m *testing.M) {
	clientstest.Serve()
	if os.Getenv(asCommand) == "" {
		scoretest.Main(m)
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
