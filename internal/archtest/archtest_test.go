package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "quantix/"

// allowedImports lists the packages of this module that each package may import directly, except in tests. "*" allows
// all packages. A key ending in "/" covers the packages below it that have no row of their own. A value ending in "/"
// allows all packages below it.
var allowedImports = map[string][]string{
	"main":               {"internal/cli"},
	"internal/cli":       {"*"},
	"web":                {"internal/console", "internal/console/rfb", "internal/control/consoles", "views/image", "views/people", "views/pool", "views/shell", "views/template", "static", "internal/control", "internal/control/query", "internal/control/storage", "internal/auth", "internal/exposition", "internal/relay", "internal/notify", "internal/wire", "internal/fleet", "internal/policy", "internal/event"},
	"views":              {"internal/fleet"},
	"views/kit":          {"views", "static", "internal/fleet", "internal/policy"},
	"views/task":         {"views", "views/kit", "internal/fleet", "internal/policy"},
	"views/vm":           {"views/console", "internal/quota", "views/alarm", "views", "views/kit", "views/secgroup", "views/task", "internal/drift", "internal/fleet", "internal/schedules", "internal/vmedit", "internal/policy", "internal/export", "internal/secgroup", "internal/template", "internal/vmcopy", "internal/flavor"},
	"views/vmlist":       {"views/console", "internal/usage", "views", "views/kit", "views/vm", "internal/fleet", "internal/adoption", "internal/policy"},
	"views/pool":         {"internal/usage", "views/alarm", "internal/diagram", "views", "views/kit", "views/task", "views/vm", "views/vmlist", "internal/drift", "internal/fleet", "internal/policy", "internal/catalog", "internal/remedy"},
	"views/image":        {"views", "views/kit", "internal/fleet", "internal/policy", "internal/catalog"},
	"views/template":     {"views", "views/kit", "internal/fleet", "internal/policy", "internal/template", "internal/vmcopy"},
	"views/topology":     {"internal/diagram", "views", "views/kit", "static", "internal/fleet"},
	"views/network":      {"internal/diagram", "views", "views/kit", "views/vmlist", "views/topology", "internal/drift", "internal/fleet", "internal/policy", "internal/ipam", "internal/adoption"},
	"views/secgroup":     {"views", "views/kit", "internal/fleet", "internal/connectivity", "internal/policy", "internal/secgroup"},
	"views/host":         {"views/alarm", "internal/diagram", "views", "views/kit", "views/task", "views/vm", "views/vmlist", "views/pool", "views/network", "views/topology", "internal/fleet", "internal/policy", "internal/remedy", "internal/adoption", "internal/usage", "internal/maintenance", "internal/hostcommand", "internal/release", "internal/bmc", "internal/deviceclass", "internal/healthevent", "views/healthpolicy"},
	"views/alarm":        {"views", "views/kit", "internal/alarm", "internal/channel", "internal/fleet", "internal/policy"},
	"views/cluster":      {"views", "views/kit", "views/host", "views/vmlist", "internal/fleet", "internal/policy"},
	"views/shell":        {"internal/diagram", "views", "views/kit", "views/task", "static", "internal/fleet", "internal/policy"},
	"views/people":       {"internal/quota", "views", "views/kit", "views/shell", "internal/fleet", "internal/policy", "internal/flavor", "views/request"},
	"views/recyclebin":   {"views", "views/kit", "internal/bin", "internal/fleet", "internal/policy"},
	"views/flavor":       {"views", "views/kit", "internal/flavor", "internal/fleet", "internal/policy"},
	"views/home":         {"internal/usage", "views/alarm", "views", "views/kit", "static/docs", "internal/fleet", "internal/policy", "internal/request", "views/request", "internal/quota", "views/people", "views/task"},
	"views/console":      {"views", "views/kit", "internal/console", "internal/fleet", "internal/policy"},
	"views/help":         {"views", "views/kit", "static/docs"},
	"static":             {},
	"static/":            {"static/"},
	"agent":              {"internal/metric", "agent/diagnose", "agent/logtail", "internal/hostcommand", "agent/hypervisor", "agent/migration", "agent/state", "agent/transfer", "internal/exposition", "internal/wire", "internal/fleet", "internal/secgroup", "internal/healthevent", "agent/healthcheck", "agent/upgrade", "internal/release"},
	"views/request":      {"views", "views/kit", "internal/fleet", "internal/policy", "internal/quota", "internal/request"},
	"views/deviceclass":  {"views", "views/kit", "internal/deviceclass", "internal/fleet", "internal/policy"},
	"views/healthpolicy": {"views", "views/kit", "internal/fleet", "internal/policy", "internal/healthevent", "internal/healthpolicy", "internal/healthpolicy/expression"},

	// Hypervisor backends import agent/hypervisor, which defines their interface, and never the agent.
	"agent/healthcheck":            {"internal/fleet", "internal/healthevent"},
	"agent/hypervisor":             {"agent/migration", "agent/transfer", "internal/wire", "internal/fleet", "internal/secgroup"},
	"agent/hypervisor/conformance": {"agent/hypervisor", "agent/migration", "agent/pooldir", "agent/transfer", "internal/wire", "internal/drift", "internal/fleet", "internal/testkit/tier", "internal/export", "internal/secgroup"},
	"agent/upgrade":                {"agent/state", "internal/fleet", "internal/release"},
	"agent/pooldir":                {"agent/hypervisor", "internal/fleet"},
	"agent/state":                  {"agent/pooldir", "internal/fleet"},
	"agent/libvirt":                {"agent/libvirt/", "agent/hypervisor", "agent/migration", "agent/pooldir", "agent/state", "agent/blockdev", "agent/hardware", "agent/image", "agent/fetch", "agent/seed", "agent/transfer", "agent/upload", "internal/ovf", "internal/wire", "internal/fleet", "internal/download", "internal/secgroup"},
	"agent/libvirt/conn":           {"agent/libvirt/domxml", "agent/hypervisor", "internal/fleet"},
	"agent/libvirt/cpumap":         {"internal/fleet"},
	"agent/libvirt/domxml":         {"agent/hypervisor", "agent/blockdev", "agent/hardware", "agent/seed", "internal/fleet", "internal/secgroup", "internal/vmxml"},
	"agent/libvirt/guest":          {"agent/libvirt/conn", "agent/libvirt/domxml", "agent/libvirt/watch", "agent/hypervisor", "internal/fleet", "internal/wire"},
	"agent/libvirt/diagnostics":    {"agent/libvirt/conn", "agent/hypervisor"},
	"agent/libvirt/firmware":       {"agent/libvirt/domxml", "agent/libvirt/hostfile", "agent/transfer", "internal/fleet"},
	"agent/libvirt/hostfile":       {"agent/libvirt/watch", "agent/hypervisor", "agent/image", "agent/transfer", "internal/fleet"},
	"agent/libvirt/locks":          {},
	"agent/libvirt/network":        {"agent/libvirt/conn", "agent/libvirt/domxml", "agent/libvirt/locks", "agent/libvirt/watch", "agent/hypervisor", "agent/state", "internal/drift", "internal/fleet", "internal/wire", "internal/secgroup", "internal/adoption"},
	"agent/libvirt/storage":        {"agent/libvirt/conn", "agent/libvirt/domxml", "agent/libvirt/hostfile", "agent/libvirt/locks", "agent/libvirt/watch", "agent/hypervisor", "agent/image", "agent/pooldir", "agent/state", "internal/drift", "internal/fleet", "internal/wire", "internal/remedy", "internal/adoption"},
	"agent/libvirt/migration":      {"agent/libvirt/hostfile", "agent/migration", "internal/fleet"},
	"agent/libvirt/watch":          {},
	"agent/libvirt/domstats":       {"agent/hypervisor", "internal/fleet", "internal/wire"},
	"agent/image":                  {"internal/ovf", "internal/fleet"},
	"agent/fetch":                  {"internal/fleet", "internal/download", "internal/egress"},
	"agent/link":                   {"internal/fleet"},
	"agent/transfer":               {"internal/fleet"},
	"agent/migration":              {},
	"agent/upload":                 {"internal/wire", "internal/fleet"},
	"agent/seed":                   {"internal/fleet"},
	"agent/blockdev":               {},
	"agent/diagnose":               {"internal/fleet", "internal/hostcommand"},
	"agent/logtail":                {},
	"agent/mock":                   {"agent/hypervisor", "agent/pooldir", "agent/image", "agent/fetch", "agent/transfer", "agent/upload", "internal/ovf", "internal/wire", "internal/drift", "internal/fleet", "internal/download", "internal/secgroup", "internal/adoption"},
	"agent/hardware":               {"agent/blockdev", "internal/fleet", "internal/wire"},
	"db":                           {"internal/console", "internal/request", "internal/quota", "internal/channel", "internal/fleet", "internal/hostcommand", "internal/schedules", "internal/secgroup", "internal/flavor", "internal/healthevent", "internal/bmc", "internal/healthpolicy"},
	"internal/fleet":               {},
	"internal/wire":                {"internal/metric", "internal/fleet", "internal/secgroup", "internal/healthevent"},
	"internal/policy":              {"internal/fleet", "internal/ipam"},
	"internal/placement":           {"internal/fleet", "internal/policy"},
	"internal/notify":              {"internal/fleet"},
	"internal/adoption":            {"internal/fleet"},
	"internal/vmxml":               {"internal/fleet"},
	"internal/ovf":                 {"internal/fleet"},
	"internal/firstboot":           {"internal/fleet"},
	"internal/connectivity":        {"internal/fleet", "internal/secgroup"},
	"internal/schedules":           {"internal/fleet"},
	"internal/vmedit":              {"internal/fleet", "internal/template", "internal/vmcopy"},
	"internal/drift":               {"internal/fleet"},
	"internal/filter":              {"internal/fleet"},
	"internal/diagram":             {"internal/fleet"},
	"internal/template":            {"internal/fleet"},
	"internal/vmcopy":              {"internal/fleet"},
	"internal/secgroup":            {"internal/fleet"},
	"internal/timeseries":          {"internal/metric", "internal/fleet", "internal/usage"},
	"internal/exposition":          {"internal/fleet"},
	"internal/usage":               {"internal/fleet"},
	"internal/metric":              {"internal/fleet"},
	"internal/quota":               {"internal/fleet"},
	"internal/alarm":               {"internal/fleet"},
	"internal/maintenance":         {"internal/fleet"},
	"internal/release":             {"internal/fleet"},
	"internal/bmc":                 {"internal/fleet"},
	"internal/bmc/redfish":         {"internal/bmc", "internal/egress", "internal/fleet"},
	"internal/healthevent":         {"internal/fleet"},
	"internal/hostcommand":         {"internal/fleet"},
	"internal/channel":             {"internal/request", "internal/fleet"},
	"internal/request":             {"internal/fleet", "internal/quota"},
	"internal/console":             {"internal/fleet"},
	"internal/console/rfb":         {},
	"internal/flavor":              {"internal/fleet"},
	"internal/bin":                 {"internal/fleet"},
	"internal/delivery":            {"internal/channel", "internal/egress", "internal/fleet"},
	"internal/egress":              {"internal/fleet"},
	"internal/event":               {"internal/fleet"},
	"internal/catalog":             {"internal/download", "internal/fleet"},
	"internal/download":            {"internal/fleet"},
	"internal/ipam":                {"internal/fleet"},
	"internal/export":              {"internal/fleet"},
	"internal/remedy":              {"internal/fleet"},
	"internal/control":             {"internal/quota", "db", "internal/delivery", "internal/auth", "internal/firstboot", "internal/relay", "internal/policy", "internal/placement", "internal/notify", "internal/wire", "internal/drift", "internal/fleet", "internal/schedules", "internal/vmedit", "internal/catalog", "internal/download", "internal/export", "internal/template", "internal/vmcopy", "internal/adoption", "internal/flavor", "internal/bin", "internal/request", "internal/maintenance", "internal/healthevent", "internal/bmc/redfish"},

	// The subpackages of control form layers: none imports control, and each imports only subpackages of lower layers.
	"internal/control/quotas":        {"internal/control/store", "db", "internal/fleet", "internal/policy", "internal/quota", "internal/usage"},
	"internal/control/store":         {"internal/quota", "db", "internal/auth", "internal/policy", "internal/notify", "internal/drift", "internal/fleet", "internal/secgroup"},
	"internal/control/assign":        {"internal/control/store", "db", "internal/policy", "internal/wire", "internal/drift", "internal/fleet", "internal/secgroup", "internal/adoption"},
	"internal/control/alarms":        {"internal/control/metrics", "internal/control/query", "internal/control/store", "db", "internal/alarm", "internal/auth", "internal/fleet", "internal/policy", "internal/remedy", "internal/quota", "internal/healthevent", "internal/healthpolicy"},
	"internal/control/channels":      {"internal/request", "internal/control/store", "db", "internal/auth", "internal/channel", "internal/delivery", "internal/fleet", "internal/policy"},
	"internal/control/metrics":       {"internal/metric", "internal/control/store", "db", "internal/exposition", "internal/fleet", "internal/policy", "internal/timeseries", "internal/usage"},
	"internal/control/events":        {"internal/control/store", "db", "internal/event", "internal/fleet", "internal/policy"},
	"internal/control/query":         {"internal/console", "internal/alarm", "internal/control/metrics", "internal/timeseries", "internal/diagram", "internal/control/store", "db", "internal/policy", "internal/drift", "internal/filter", "internal/fleet", "internal/connectivity", "internal/catalog", "internal/ipam", "internal/remedy", "internal/secgroup", "internal/template", "internal/adoption", "internal/usage", "internal/bin", "internal/request"},
	"internal/control/identity":      {"internal/control/query", "internal/control/store", "db", "internal/auth", "internal/policy", "internal/fleet", "internal/control/flavors"},
	"internal/control/placing":       {"internal/control/query", "internal/control/store", "db", "internal/placement", "internal/fleet", "internal/policy"},
	"internal/control/storage":       {"internal/control/publishing", "internal/control/placing", "internal/control/assign", "internal/control/query", "internal/control/store", "db", "internal/auth", "internal/placement", "internal/policy", "internal/wire", "internal/fleet", "internal/download", "internal/adoption"},
	"internal/control/network":       {"internal/control/publishing", "internal/control/assign", "internal/control/query", "internal/control/store", "db", "internal/policy", "internal/fleet", "internal/ipam", "internal/secgroup", "internal/adoption"},
	"internal/control/publishing":    {"internal/control/store", "db", "internal/policy", "internal/fleet", "internal/deviceclass"},
	"internal/control/macs":          {"db", "internal/fleet", "internal/policy"},
	"internal/control/flavors":       {"internal/control/store", "db", "internal/flavor", "internal/fleet", "internal/policy", "internal/usage", "internal/vmedit"},
	"internal/control/recycling":     {"internal/control/flavors", "internal/control/store", "db", "internal/bin", "internal/fleet", "internal/policy"},
	"internal/control/requests":      {"internal/control/publishing", "internal/control/query", "internal/control/quotas", "internal/control/store", "db", "internal/fleet", "internal/policy", "internal/quota", "internal/request"},
	"internal/control/consoles":      {"internal/control/agentapi", "internal/control/store", "db", "internal/console", "internal/fleet", "internal/policy", "internal/relay"},
	"internal/control/hostcommands":  {"internal/control/store", "db", "internal/fleet", "internal/hostcommand", "internal/policy"},
	"internal/control/upgrades":      {"internal/control/query", "internal/control/store", "db", "internal/fleet", "internal/policy", "internal/release", "internal/wire"},
	"internal/control/idempotency":   {"internal/control/store", "db", "internal/auth", "internal/fleet", "internal/policy"},
	"internal/control/health":        {"internal/control/store", "db", "internal/fleet", "internal/healthevent", "internal/policy"},
	"internal/control/deviceclasses": {"internal/control/publishing", "internal/control/store", "db", "internal/deviceclass", "internal/fleet", "internal/policy"},
	"internal/control/hostpower":     {"internal/control/store", "db", "internal/auth", "internal/bmc", "internal/bmc/redfish", "internal/fleet", "internal/maintenance", "internal/policy"},
	"internal/healthpolicy":          {"internal/channel", "internal/fleet", "internal/healthevent"},

	"internal/healthpolicy/expression": {"internal/fleet", "internal/healthevent"},

	"internal/control/healthpolicies": {"internal/control/store", "db", "internal/channel", "internal/fleet", "internal/healthevent", "internal/healthpolicy", "internal/healthpolicy/expression", "internal/policy"},

	"internal/control/hosts": {
		"internal/control/agentapi", "internal/control/query", "internal/control/store", "db", "internal/auth", "internal/policy", "internal/wire", "internal/fleet",
	},
	"internal/control/agentapi": {
		"internal/control/placing", "internal/metric",
		"internal/control/assign", "internal/control/metrics", "internal/control/store", "db", "internal/auth", "internal/relay", "internal/policy", "internal/notify", "internal/wire", "internal/fleet", "internal/secgroup", "internal/adoption",
	},

	// Device classes.
	"internal/deviceclass": {"internal/fleet"},

	// Handlers of pages import packages that render, decode forms and list options, and never the server.
	"web/pages":   {"internal/console", "internal/deviceclass", "internal/control/deviceclasses", "internal/quota", "internal/channel", "internal/control/channels", "web/options", "web/form", "web/render", "web/api", "views", "views/", "static/docs", "internal/control", "internal/control/alarms", "internal/control/query", "internal/control/hosts", "internal/control/network", "internal/control/storage", "internal/control/identity", "internal/auth", "internal/fleet", "internal/connectivity", "internal/policy", "internal/secgroup", "internal/template", "internal/flavor", "internal/control/flavors", "internal/bin", "internal/control/recycling", "internal/control/requests", "internal/request", "internal/control/hostcommands", "internal/hostcommand", "internal/control/upgrades", "internal/release", "internal/bmc", "internal/control/hostpower", "internal/healthevent", "internal/control/health", "internal/control/healthpolicies", "internal/healthpolicy", "internal/healthpolicy/expression"},
	"web/vmpages": {"views/console", "internal/quota", "web/options", "web/form", "web/render", "web/api", "web/idempotency", "views", "views/kit", "views/secgroup", "views/shell", "views/template", "views/vm", "views/vmlist", "internal/control", "internal/control/query", "internal/vmxml", "internal/fleet", "internal/schedules", "internal/vmedit", "internal/policy", "internal/vmcopy", "internal/flavor", "internal/control/flavors", "internal/request", "views/request"},
	"web/options": {"web/form", "views", "views/kit", "views/network", "views/vm", "internal/control", "internal/control/query", "internal/control/identity", "internal/fleet", "internal/policy", "internal/template", "internal/flavor"},
	"web/form":    {"web/render", "web/problem", "web/bodylimit", "views/kit", "views/shell", "internal/control", "internal/fleet"},
	"web/render":  {"internal/diagram", "views/kit", "views/shell", "static", "internal/control", "internal/control/query", "internal/fleet", "internal/policy"},

	// The API and the endpoints of agents import no pages.
	"web/api":         {"internal/quota", "internal/channel", "internal/control/channels", "web/problem", "web/bodylimit", "web/idempotency", "internal/control", "internal/control/alarms", "internal/control/query", "internal/control/hosts", "internal/control/network", "internal/control/storage", "internal/control/identity", "internal/auth", "internal/fleet", "internal/connectivity", "internal/schedules", "internal/vmedit", "internal/policy", "internal/catalog", "internal/export", "internal/ipam", "internal/secgroup", "internal/template", "internal/adoption", "internal/event", "internal/flavor", "internal/control/flavors", "internal/bin", "internal/control/recycling", "internal/control/requests", "internal/request", "internal/maintenance", "internal/control/hostcommands", "internal/hostcommand", "internal/deviceclass", "internal/control/deviceclasses", "internal/control/upgrades", "internal/release", "internal/bmc", "internal/control/hostpower", "internal/healthevent", "internal/control/health", "internal/control/healthpolicies", "internal/healthpolicy"},
	"web/agents":      {"internal/hostcommand", "web/problem", "web/bodylimit", "internal/control", "internal/auth", "internal/agentconn", "internal/relay", "internal/wire", "internal/fleet", "internal/policy", "internal/healthevent"},
	"web/problem":     {"internal/fleet"},
	"web/bodylimit":   {"internal/fleet"},
	"web/idempotency": {"internal/control", "internal/fleet"},

	"internal/reconcile": {"internal/control/hostpower", "internal/control/idempotency", "internal/channel", "internal/control", "internal/control/channels", "internal/delivery", "internal/notify", "internal/fleet"},
	"internal/auth":      {"internal/fleet", "internal/wire"},
	"internal/relay":     {"internal/fleet"},
	"internal/agentconn": {},
	"internal/config":    {"internal/fleet"},
	"internal/pglocal":   {},
	"internal/doctor":    {"internal/pglocal"},
	"internal/lab":       {"internal/doctor"},
	"internal/load":      {"internal/metric", "internal/wire", "internal/fleet", "internal/testkit/client"},
	"internal/archtest":  {},
	"internal/testkit":   {"db", "internal/pglocal", "internal/fleet"},
	"internal/testkit/":  {"*"},
	"internal/e2e":       {"*"},
	"internal/bench":     {"*"},
}

var controlPackages = []string{
	"internal/control", "internal/control/agentapi", "internal/control/alarms", "internal/control/assign", "internal/control/channels",
	"internal/control/consoles", "internal/control/deviceclasses", "internal/control/events", "internal/control/flavors", "internal/control/health",
	"internal/control/healthpolicies", "internal/control/hostcommands", "internal/control/hostpower", "internal/control/hosts",
	"internal/control/idempotency", "internal/control/identity", "internal/control/macs", "internal/control/metrics", "internal/control/network",
	"internal/control/placing", "internal/control/publishing", "internal/control/query", "internal/control/quotas", "internal/control/recycling",
	"internal/control/requests", "internal/control/storage", "internal/control/store", "internal/control/upgrades",
}

// restricted lists libraries and packages, each with the only packages that may import it.
var restricted = map[string][]string{
	"quantix/db":                        append([]string{"internal/testkit", "internal/testkit/withdb", "internal/cli"}, controlPackages...),
	"quantix/internal/control/store":    controlPackages,
	"quantix/internal/control/assign":   {"internal/control", "internal/control/agentapi", "internal/control/network", "internal/control/storage"},
	"quantix/internal/control/agentapi": {"internal/control", "internal/control/consoles", "internal/control/hosts"},
	"quantix/internal/control/placing":  {"internal/control", "internal/control/agentapi", "internal/control/storage"},

	"quantix/agent/libvirt": {"internal/cli", "agent/libvirt", "agent/libvirt/"},
	"quantix/agent/mock":    {"internal/cli"},

	"github.com/labstack/echo":           {"web", "web/pages", "web/vmpages", "web/form", "web/render", "web/api", "web/agents", "web/problem"},
	"github.com/danielgtaylor/huma":      {"web/api"},
	"github.com/digitalocean/go-libvirt": {"agent/libvirt", "agent/libvirt/conn", "agent/libvirt/diagnostics", "agent/libvirt/domstats", "agent/libvirt/guest", "agent/libvirt/migration", "agent/libvirt/network", "agent/libvirt/storage"},
	"libvirt.org/go/libvirtxml":          {"agent/libvirt", "agent/libvirt/conn", "agent/libvirt/cpumap", "agent/libvirt/domxml", "agent/libvirt/firmware", "agent/libvirt/migration", "agent/libvirt/network", "agent/libvirt/storage"},
	"github.com/jackc/pgx":               append([]string{"db", "internal/notify", "internal/auth", "internal/pglocal", "internal/testkit", "internal/cli", "internal/bench", "internal/load"}, controlPackages...),
	"github.com/a-h/templ":               {"views/", "web/pages", "web/form", "web/render"},
	"github.com/spf13/cobra":             {"internal/cli"},
	"github.com/vishvananda/netlink":     {"agent/link"},
	"github.com/diskfs/go-diskfs":        {"agent/seed"},
	"github.com/santhosh-tekuri":         {"internal/firstboot"},
	"cel.dev/cel-go":                     {"internal/healthpolicy/expression"},
	"github.com/yuin/goldmark":           {"static/docs"},
	"github.com/stmcginnis/gofish":       {"internal/bmc/redfish"},
}

type goListPackage struct {
	ImportPath string
	Imports    []string
}

func TestImportsFollowLayers(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if p.ImportPath == strings.TrimSuffix(module, "/") {
			name = "main"
		}
		rule, ok := importRuleOf(name)
		if !ok {
			t.Errorf("%s has no row in allowedImports: add one with the packages that it may import", name)
			continue
		}
		for _, imported := range p.Imports {
			checkImport(t, name, rule, imported)
		}
	}
}

func checkImport(t *testing.T, name string, rule []string, imported string) {
	if own, ours := strings.CutPrefix(imported, module); ours {
		if !slices.Contains(rule, "*") && !isInList(rule, own) && !strings.HasPrefix(own, name+"/") {
			t.Errorf("%s imports %s, which the architecture does not allow", name, own)
		}
	}
	if name == "internal/fleet" && strings.Contains(imported, ".") {
		t.Errorf("internal/fleet imports %s: it may use the standard library only", imported)
	}
	for library, homes := range restricted {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && !isInList(homes, name) {
			t.Errorf("%s imports %s, which only %s may import", name, imported, strings.Join(homes, ", "))
		}
	}
}

// isInList reports whether the list contains the package, or one of the package's prefixes that end in "/".
func isInList(list []string, name string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return x == name || strings.HasSuffix(x, "/") && strings.HasPrefix(name, x) })
}

func importRuleOf(name string) ([]string, bool) {
	if rule, ok := allowedImports[name]; ok {
		return rule, true
	}
	for i := len(name) - 1; i > 0; i-- {
		if name[i] == '/' {
			if rule, ok := allowedImports[name[:i+1]]; ok {
				return rule, true
			}
		}
	}
	return nil, false
}

func listPackages(t *testing.T) []goListPackage {
	t.Helper()
	openAllDirs(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "quantix/...")
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("go list: %s", failed.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []goListPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goListPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// openAllDirs opens each package directory. go test caches a result while the files that the test itself opens are
// unchanged, but go list reads the packages in another process.
func openAllDirs(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
