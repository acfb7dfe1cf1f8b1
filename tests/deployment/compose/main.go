// Loads a compose file with the library that Docker Compose itself loads it with, as `docker compose config` does: merges,
// variables that nobody set, references to services, volumes and networks. Needs no Docker.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compose FILE")
		os.Exit(64)
	}
	// All profiles, or what stands in one is not looked at.
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithProfiles([]string{"*"}), cli.WithConsistency(true))
	if err != nil {
		fail(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		fail(err)
	}
	fmt.Println(project.ServiceNames())
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
