package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"coalmine/internal/build"
	"coalmine/internal/kernels"
	"coalmine/workflows/plan/compile"
)

// version is the version of this build.
func version() string { return build.Version() }

func newVersionCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the kernel set and the kinds of tasks",
		Example: "  coalmine version --json | jq .kinds",
		GroupID: groupOther,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			facts := map[string]any{
				"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				"kernels": kernels.Set(), "kinds": compile.Registry().Advertised(),
			}
			if g.json {
				return g.printJSON(facts)
			}
			g.printf("coalmine %s, %s, %s, %s kernels\n", facts["version"], facts["go"], facts["platform"], facts["kernels"])
			return nil
		},
	}
}
