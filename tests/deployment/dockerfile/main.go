// Checks a Dockerfile with BuildKit's own parser and linter, as `docker build --check` does: instructions, flags, stages,
// arguments. Base images are not looked up. Needs no Docker.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/opencontainers/go-digest"
)

// Stands for every registry: nothing is looked up. A stage that is misspelt is taken for an image without a tag.
type noRegistry struct{}

func (noRegistry) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	if strings.HasSuffix(ref, ":latest") {
		return "", "", nil, fmt.Errorf("%s is no stage, and as an image it has no fixed tag", ref)
	}
	return ref, "", []byte("{}"), nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dockerfile FILE")
		os.Exit(64)
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(74)
	}
	source := llb.NewSourceMap(nil, os.Args[1], "Dockerfile", text)
	source.Definition = &llb.Definition{}
	options := dockerfile2llb.ConvertOpt{SourceMap: source, MetaResolver: noRegistry{}}
	found, err := dockerfile2llb.DockerfileLint(context.Background(), text, options)
	if err == nil && found.Error != nil {
		err = fmt.Errorf("%s: %s", os.Args[1], found.Error.Message)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, warning := range found.Warnings {
		fmt.Fprintf(os.Stderr, "%s:%d: %s: %s\n", os.Args[1], warning.Location.Ranges[0].Start.Line, warning.RuleName, warning.Detail)
	}
	if len(found.Warnings) > 0 {
		os.Exit(1)
	}
}
