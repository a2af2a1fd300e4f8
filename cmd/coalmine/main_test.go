package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
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

// fullDisk refuses every write.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A command whose output is lost fails, even if it ignores errors of writes.
func TestCommandsReportLostOutput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"explain", "training"}, {"schema"}, {"--help"}, {"version", "--json"}} {
		var messages bytes.Buffer
		if code := execute(t.Context(), args, fullDisk{}, &messages); code != exitUsage || !strings.Contains(messages.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%q on a full disk: exit status %d: %s", args, code, messages.String())
		}
	}
}
