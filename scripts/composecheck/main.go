// Command composecheck loads Compose files like `docker compose config`, with
// Compose's own library, and fails with its errors. It is a separate module, so
// that the program does not depend on that library.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if err := check(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "composecheck: %v\n", err)
		os.Exit(1)
	}
}

// check loads the files with the variables of this process and all profiles. It
// reads no .env file, which could hide a missing variable.
func check(ctx context.Context, paths []string) error {
	options, err := cli.NewProjectOptions(paths, cli.WithOsEnv, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return err
	}
	_, err = options.LoadProject(ctx)
	return err
}
