package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"coalmine/internal/kernels"
	"coalmine/workflows/compile"
)

// version is the module's version or, for a build from a checkout, its commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return info.Main.Version
}

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
