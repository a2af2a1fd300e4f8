// Package build identifies this build of Coalmine: its version, and the checks that are compiled in.
package build

import "runtime/debug"

// Version is the module's version or, of a build from a checkout, the beginning of its commit.
func Version() string {
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
