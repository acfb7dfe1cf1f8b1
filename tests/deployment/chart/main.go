// Renders and lints a Helm chart with Helm's own packages, without building all of Helm:
//
//	chart render CHART NAMESPACE VALUES...     as `helm template orbweaver CHART --namespace NAMESPACE --values VALUES`
//	chart lint CHART VALUES...                 as `helm lint CHART --strict`
//	chart refused CHART VALUES CASES           each case, merged with the values, is refused with its message
package main

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"
)

const name = "orbweaver"

func main() {
	// The loader reports every symbolic link.
	slog.SetLogLoggerLevel(slog.LevelWarn)
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 3 && args[0] == "render":
		return render(args[1], args[2], args[3:])
	case len(args) >= 2 && args[0] == "lint":
		return linted(args[1], args[2:])
	case len(args) == 4 && args[0] == "refused":
		return refused(args[1], args[2], args[3])
	}
	return fmt.Errorf("usage: chart render CHART NAMESPACE VALUES... | lint CHART VALUES... | refused CHART VALUES CASES")
}

// Prints the objects in the order in which Helm installs them.
func render(path, namespace string, files []string) error {
	loaded, err := loader.Load(path)
	if err != nil {
		return err
	}
	values, err := merged(files)
	if err != nil {
		return err
	}
	rendered, err := rendered(loaded, namespace, values)
	if err != nil {
		return err
	}
	maps.DeleteFunc(rendered, func(path, _ string) bool { return strings.HasSuffix(path, "NOTES.txt") })
	hooks, manifests, err := release.SortManifests(rendered, nil, release.InstallOrder)
	if err != nil {
		return err
	}
	if len(hooks) > 0 {
		return fmt.Errorf("%s is a hook: without Helm it would be applied as any other object", hooks[0].Path)
	}
	var all strings.Builder
	for _, manifest := range manifests {
		fmt.Fprintf(&all, "---\n# Source: %s\n%s\n", manifest.Name, manifest.Content)
	}
	fmt.Println(strings.TrimRight(all.String(), "\n"))
	return nil
}

// Values are checked against the schema here, as all of Helm's commands do it.
func rendered(loaded *chart.Chart, namespace string, values map[string]any) (map[string]string, error) {
	options := common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(loaded, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{}.Render(loaded, all)
}

func merged(files []string) (map[string]any, error) {
	values := map[string]any{}
	for _, file := range files {
		next, err := common.ReadValuesFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		values = util.MergeTables(next.AsMap(), values)
	}
	return values, nil
}

func linted(path string, files []string) error {
	values, err := merged(files)
	if err != nil {
		return err
	}
	found := 0
	for _, message := range lint.RunAll(path, values, name).Messages {
		if message.Severity >= support.WarningSev {
			fmt.Fprintln(os.Stderr, message)
			found++
		}
	}
	if found > 0 {
		return fmt.Errorf("%d messages", found)
	}
	return nil
}

// One mistake: values, and a part of the message that refuses them. `base: false` leaves out the values of the others.
type mistake struct {
	Name   string         `json:"name"`
	Base   *bool          `json:"base"`
	Values map[string]any `json:"values"`
	Says   string         `json:"says"`
}

func refused(path, base, cases string) error {
	loaded, err := loader.Load(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(cases)
	if err != nil {
		return err
	}
	var mistakes []mistake
	if err := yaml.UnmarshalStrict(text, &mistakes); err != nil {
		return fmt.Errorf("%s: %w", cases, err)
	}
	if len(mistakes) == 0 {
		return fmt.Errorf("%s has no case", cases)
	}
	found := 0
	for _, mistake := range mistakes {
		if err := mistake.passes(loaded, base); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", mistake.Name, err)
			found++
		}
	}
	if found > 0 {
		return fmt.Errorf("%d of %d mistakes are not refused as expected", found, len(mistakes))
	}
	return nil
}

func (m mistake) passes(loaded *chart.Chart, base string) error {
	values := m.Values
	if m.Base == nil || *m.Base {
		good, err := merged([]string{base})
		if err != nil {
			return err
		}
		values = util.MergeTables(values, good)
	}
	if _, err := rendered(loaded, "orbweaver", values); err == nil {
		return fmt.Errorf("is accepted")
	} else if !strings.Contains(err.Error(), m.Says) {
		return fmt.Errorf("is refused without %q: %v", m.Says, err)
	}
	return nil
}
