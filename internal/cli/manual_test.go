package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quantix/internal/config"
	"quantix/internal/fleet"
)

// manualText returns the text of all chapters of the manual.
func manualText(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../static/docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("the manual has %d files: %v", len(files), err)
	}
	var out strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	return out.String()
}

var yamlKey = regexp.MustCompile(`YAML ([\w.]+)]$`)

func TestManualNamesEverySetting(t *testing.T) {
	t.Parallel()
	text := manualText(t)
	for name, register := range map[string]func(*pflag.FlagSet){"portal": config.PortalFlags, "agent": config.AgentFlags} {
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		register(flags)
		found := 0
		flags.VisitAll(func(f *pflag.Flag) {
			if m := yamlKey.FindStringSubmatch(f.Usage); m != nil {
				found++
				if !strings.Contains(text, "`"+m[1]+"`") {
					t.Errorf("the manual does not name the %s's key %s", name, m[1])
				}
			} else if !strings.Contains(text, "--"+f.Name) {
				t.Errorf("the manual does not name the %s's flag --%s", name, f.Name)
			}
		})
		if found < 10 {
			t.Errorf("%d keys of the %s were found", found, name)
		}
	}
}

func TestManualNamesEveryCommandAndFlag(t *testing.T) {
	t.Parallel()
	text := manualText(t)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Runnable() && !strings.Contains(text, "`"+cmd.CommandPath()) {
			t.Errorf("the manual does not name the command %s", cmd.CommandPath())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !yamlKey.MatchString(f.Usage) && !strings.Contains(text, "--"+f.Name) {
				t.Errorf("the manual does not name --%s of %s", f.Name, cmd.CommandPath())
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

// constantValues returns the values of the constants of the named type, from a file of package fleet.
func constantValues(t *testing.T, file, typeName string) (out []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), "../fleet/"+file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typed, ok := spec.Type.(*ast.Ident)
		if value, literal := spec.Values[0].(*ast.BasicLit); ok && literal && typed.Name == typeName {
			out = append(out, strings.Trim(value.Value, `"`))
		}
		return true
	})
	if len(out) < 3 {
		t.Fatalf("%s has %d constants of type %s", file, len(out), typeName)
	}
	return out
}

func TestManualNamesEveryResourceRoleAndPermission(t *testing.T) {
	t.Parallel()
	text := manualText(t)
	for _, name := range constantValues(t, "resource.go", "ResourceType") {
		if label := fleet.ResourceType(name).Info().Label; !strings.Contains(text, "(`"+label+"`)") {
			t.Errorf("the manual does not name the resource type %s (%s)", name, label)
		}
	}
	for _, r := range constantValues(t, "permission.go", "Permission") {
		if !strings.Contains(text, "| "+r) {
			t.Errorf("the manual's table of permissions lacks %q", r)
		}
	}
	for _, r := range constantValues(t, "role.go", "Role") {
		if r != "" && !strings.Contains(text, "`"+r+"`") {
			t.Errorf("the manual does not name the role %s", r)
		}
	}
	for _, k := range fleet.PoolTypes() {
		if !strings.Contains(text, "`"+string(k.Kind)+"`") {
			t.Errorf("the manual does not name pools of kind %s", k.Kind)
		}
	}
	for _, k := range fleet.NetworkTypes() {
		if !strings.Contains(text, "`"+string(k.Mode)+"`") {
			t.Errorf("the manual does not name the network mode %s", k.Mode)
		}
	}
	for _, f := range fleet.VMFields {
		if !strings.Contains(text, "`"+f.Name+"`") {
			t.Errorf("the manual does not name the VM field %s", f.Name)
		}
	}
}

var metricName = regexp.MustCompile(`"(quantix_\w+)"`)

func TestManualNamesEveryMetric(t *testing.T) {
	t.Parallel()
	text := manualText(t)
	for _, file := range []string{"../../web/metrics.go", "../../agent/metrics.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metricName.FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(text, "`"+m[1]+"`") {
				t.Errorf("the manual does not name the metric %s", m[1])
			}
		}
	}
}

// The tests with load balancers use the configurations in the manual, so the manual must contain one for each balancer.
func TestManualHasOneConfigOfEachBalancer(t *testing.T) {
	t.Parallel()
	text := manualText(t)
	for _, program := range []string{"haproxy", "nginx"} {
		if n := strings.Count(text, "```"+program+"\n"); n != 1 {
			t.Errorf("the manual has %d configurations of %s", n, program)
		}
	}
}
