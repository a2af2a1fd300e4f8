// Command deploycheck reads the manifests for Kubernetes and the configuration and
// alerts of Prometheus with the types and parsers of these programs, and fails with
// their errors: an unknown field, a wrong type, an invalid expression. It contacts no
// cluster. It is a separate module, so that the program does not depend on those
// libraries.
//
//	deploycheck DIRECTORY    # with kubernetes/ and prometheus/
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deploycheck DIRECTORY")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "deploycheck: %v\n", err)
		os.Exit(1)
	}
}

// check reads all files and returns all faults.
func check(dir string) error {
	manifests, err := filepath.Glob(filepath.Join(dir, "kubernetes", "*.yaml"))
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return fmt.Errorf("%s holds no kubernetes/*.yaml", dir)
	}
	var errs []error
	for _, path := range manifests {
		errs = append(errs, checkManifests(path))
	}
	errs = append(errs,
		checkScraping(filepath.Join(dir, "prometheus", "prometheus.yaml")),
		checkRules(filepath.Join(dir, "prometheus", "alerts.yaml")))
	return errors.Join(errs...)
}
